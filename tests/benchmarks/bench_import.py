"""Importing one large transcript in a process of its own: peak memory, speed, and where the time goes.

    python tests/benchmarks/bench_import.py [--mib 1024] [--format openclaw] [--profile] [--json]

The file is invented by ``make_transcript.py`` and is one session. 1 GiB takes about ten minutes, and 4 GiB of disk in
the temporary directory. ``--profile`` prints the functions that took longest too; a profile makes everything slower.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import make_transcript
from common import Figure, report

from memory_sqlite import Memory


def child(transcript: Path, data_dir: Path, profile: bool) -> None:
    """What the measured process does: one import, then its figures as JSON on stdout."""
    profiler = cProfile.Profile()
    started, cpu = time.perf_counter(), time.process_time()
    with Memory.open(data_dir) as memory:
        if profile:
            profiler.enable()
        done = memory.import_transcripts([transcript], chat_type="direct", sender_is_owner=True)
        profiler.disable()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert done.status == "ok", done.problems
    if profile:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    figures = {
        "messages": done.messages,
        "episodes": done.episodes,
        "seconds": seconds,
        "cpu": cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    print(json.dumps(figures))


def measured(transcript: Path, data_dir: Path, profile: bool) -> dict[str, float]:
    """The figures of one import in a fresh interpreter: this process's own peak must not be counted."""
    command = [sys.executable, __file__, "--child", str(transcript), str(data_dir), *(["--profile"] if profile else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--format", choices=sorted(make_transcript.GENERATORS), default="openclaw")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, type=Path, metavar=("TRANSCRIPT", "DATA_DIR"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        transcript, data_dir = arguments.child
        child(transcript, data_dir, arguments.profile)
        return
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        transcript = directory / "big.jsonl"
        make_transcript.write(transcript, arguments.mib * 2**20, arguments.format)
        figures = measured(transcript, directory / "data", arguments.profile)
        files = sum(path.stat().st_size for path in (directory / "data").rglob("*.sqlite"))
        mib = transcript.stat().st_size / 2**20
    finally:
        shutil.rmtree(directory)
    report(
        [
            Figure("transcript", mib, "MiB"),
            Figure("messages", figures["messages"], ""),
            Figure("import, peak memory", figures["peak"] / 1024, "MiB", "<= 200"),
            Figure("import, wall", figures["seconds"], "s"),
            Figure("messages per CPU second", figures["messages"] / figures["cpu"], "/s", "peers 36 to 1000"),
            Figure("MiB of transcript a CPU second", mib / figures["cpu"], "MiB/s"),
            Figure("store and index on disk", files / 2**20, "MiB"),
        ]
    )


if __name__ == "__main__":
    main()
