"""Memory of an import does not grow with the file: peak of a whole process, over ordinary lines and the longest one.

1 GiB is measured by ``tests/benchmarks/bench_import.py``; here what would grow is shown by two sizes of the same file.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .conftest import with_peak

MIB = 2**20
BOUND = 200 * MIB
IMPORT = (
    "import sys\n"
    "from memory_sqlite import Memory\n"
    "with Memory.open(sys.argv[2]) as memory:\n"
    "    report = memory.import_transcripts([sys.argv[1]], chat_type='direct', sender_is_owner=True)\n"
    "print(report.messages, report.refused, report.shortened)\n"
)


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The benchmarks' generator of transcripts."""
    path = Path(__file__).parents[1] / "benchmarks" / "make_transcript.py"
    spec = importlib.util.spec_from_file_location("make_transcript", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported(transcript: Path, data: Path) -> tuple[list[int], int]:
    """What a fresh interpreter reports (messages, refused, shortened), and its peak resident size in bytes."""
    said, peak = with_peak(transcript.parent, sys.executable, "-c", IMPORT, transcript, data)
    return [int(word) for word in said.split()], peak


def test_a_larger_file_needs_no_more_memory(generator: ModuleType, tmp_path: Path) -> None:
    """Caches fill in the first megabytes; a file three times as long then adds little and stays far below the bound."""
    peaks = []
    for size in (4, 12):
        transcript = tmp_path / f"{size}.jsonl"
        generator.write(transcript, size * MIB, "openclaw")
        (messages, refused, _), peak = imported(transcript, tmp_path / f"data{size}")
        assert messages > 500 * size
        assert refused == 0
        peaks.append(peak)
    assert peaks[1] < BOUND / 2
    assert peaks[1] - peaks[0] < 40 * MIB


def test_the_longest_line_stays_within_the_bound(tmp_path: Path) -> None:
    """The worst text: ASCII with an astral character now and then takes four bytes for each in memory."""
    text = "words 🍵 " * (15 * MIB // 12)
    lines = [
        {"type": "session", "version": 3, "id": "long", "timestamp": "2026-03-01T00:00:00.000Z"},
        {"type": "message", "id": "a1", "timestamp": "2026-03-01T00:00:01.000Z",
         "message": {"role": "user", "content": [{"type": "text", "text": text}]}},
    ]  # fmt: skip
    transcript = tmp_path / "long.jsonl"
    transcript.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    assert 13 * MIB < transcript.stat().st_size < 16 * MIB
    (messages, refused, shortened), peak = imported(transcript, tmp_path / "data")
    assert (messages, refused, shortened) == (1, 0, 1)
    assert peak < BOUND
