"""Write an invented transcript of a given size, and measure what reading it costs.

    python tests/benchmarks/make_transcript.py OUT.jsonl --mib 200 --format openclaw
    python tests/benchmarks/make_transcript.py OUT.jsonl --measure

Measuring runs in this process and prints MiB a second, messages and the peak resident size.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_sqlite.clock import iso

WORDS = ("router", "vlan", "orchard", "quince", "tide", "ledger", "cursor", "garden", "水曜日", "会議", "绿茶", "报销")
EMPTY_BLOB = "iVBORw0KGgoAAAANSUhEUgAA"


def _sentence(dice: random.Random, words: int) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(words)) + f" {dice.randrange(10**9)}."


def _time(number: int) -> str:
    return iso(1_772_323_200_000 + number * 1_000)


def _openclaw(dice: random.Random) -> Iterator[dict[str, Any]]:
    yield {"type": "session", "version": 3, "id": "big", "timestamp": _time(0)}
    for number in itertools.count():
        role = ("user", "assistant", "toolResult", "assistant")[number % 4]
        content: Any = [{"type": "text", "text": _sentence(dice, dice.randrange(5, 120))}]
        if number % 97 == 0:
            content.append({"type": "image", "data": EMPTY_BLOB + "A1b+" * 20_000, "mimeType": "image/png"})
        yield {
            "type": "message",
            "id": f"{number:08x}",
            "timestamp": _time(number),
            "message": {"role": role, "content": content},
        }


def _claude_code(dice: random.Random) -> Iterator[dict[str, Any]]:
    for number in itertools.count():
        kind = "user" if number % 4 == 0 else "assistant"
        message = {"role": kind, "content": [{"type": "text", "text": _sentence(dice, dice.randrange(5, 120))}]}
        if kind == "assistant":
            message["id"] = f"msg_{number // 4}"
        yield {
            "type": kind,
            "uuid": f"u{number}",
            "sessionId": "big",
            "timestamp": _time(number),
            "message": message,
        }


def _generic(dice: random.Random) -> Iterator[dict[str, Any]]:
    """Without ids: the reader has to count repetitions."""
    for number in itertools.count():
        yield {"role": ("user", "assistant")[number % 2], "content": _sentence(dice, dice.randrange(5, 40))}


GENERATORS = {"openclaw": _openclaw, "claude-code": _claude_code, "generic": _generic}


def write(path: Path, size: int, format: str) -> None:
    """At least ``size`` bytes of lines in ``format``, the same for the same arguments."""
    written = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for row in GENERATORS[format](random.Random(7)):
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
            out.write(line)
            written += len(line.encode())
            if written >= size:
                return


def measure(path: Path, redact: bool) -> None:
    """Read the whole file once and print what it took."""
    from memory_sqlite.sources.transcript_formats.items import Refused, Spoken
    from memory_sqlite.sources.transcript_formats.transcript import open_transcript

    started, spoken, refused = time.perf_counter(), 0, 0
    transcript = open_transcript(path, redact=redact)
    for item in transcript:
        spoken += isinstance(item, Spoken)
        refused += isinstance(item, Refused)
    seconds = time.perf_counter() - started
    mib = path.stat().st_size / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{transcript.format}: {mib:.0f} MiB in {seconds:.1f} s ({mib / seconds:.1f} MiB/s), "
        f"{spoken} messages, {refused} refused, peak {peak:.0f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--mib", type=int, default=200)
    parser.add_argument("--format", choices=sorted(GENERATORS), default="openclaw")
    parser.add_argument("--measure", action="store_true", help="read the file instead of writing it")
    parser.add_argument("--redact", action="store_true", help="mask secrets while reading, as the import does")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.path, arguments.redact)
    else:
        write(arguments.path, arguments.mib * 2**20, arguments.format)


if __name__ == "__main__":
    main()
