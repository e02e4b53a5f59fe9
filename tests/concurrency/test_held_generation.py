"""A generation that a process holds open outlives every rebuild, whole, and goes when it is let go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.generations import files
from memory_sqlite.paths import agent_directory, generation_file

READER = """
import json, sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters

def whole(index):
    said = index.execute("SELECT kind, key, text FROM documents JOIN chunks ON document_id = documents.id"
                         " ORDER BY kind, key, ordinal").fetchall()
    hits, _ = run.search(index, "granite", Filters(OPERATOR), now_ms=0, max_results=100, min_score=0.0,
                         max_bytes=1 << 24, sort="score", explain=False)
    return [[list(row) for row in said], [hit.path + str(hit.start_line) for hit in hits], index.pragma("quick_check")]

with Memory.open(settings=Settings(data_dir=Path(sys.argv[1])), read_only=True) as memory:
    keeper = memory._opened.keeper
    with keeper.reader() as index:
        print(json.dumps([keeper.number(), whole(index)]), flush=True)
        for line in sys.stdin:
            print(json.dumps([keeper.number(), whole(index)]), flush=True)
"""
TURNS = 20


class Reader:
    """A process that holds the generation that was current when it began, and says all of it when it is asked."""

    def __init__(self, data: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.began_with, self.first = self._answer()

    def _answer(self) -> tuple[int, Any]:
        assert self._process.stdout is not None
        number, whole = json.loads(self._process.stdout.readline())
        return number, whole

    def ask(self) -> tuple[int, Any]:
        """The number that is current now, and everything the held generation says."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End it; returns when it has closed its files."""
        self._process.communicate(timeout=120)
        assert self._process.returncode == 0


def remember(memory: Memory, number: int) -> None:
    memory.remember(session="s", run_id=f"r{number}", messages=[{"role": "user", "content": f"granite stone{number}"}])


def messages(whole: Any) -> int:
    return sum(kind == "message" for kind, _, _ in whole[0])


def test_a_held_generation_answers_the_same_through_three_rebuilds(tmp_path: Path) -> None:
    """A reader process holds generation n while three full rebuilds are published and more is said. It answers the same
    throughout and n's file exists; readers that started later saw n+1, n+2 and n+3, each whole; each file goes at the
    first retirement pass after its reader has closed, and not before."""
    data = tmp_path / "data"
    directory = agent_directory(data, "main")
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        for number in range(TURNS):
            remember(memory, number)
        assert memory.index(full=True).generation == 2
        readers = [Reader(data)]
        assert readers[0].began_with == 2
        assert messages(readers[0].first) == TURNS
        for rebuilt in (1, 2, 3):
            assert memory.index(full=True).generation == 2 + rebuilt
            readers.append(Reader(data))
            for number, reader in enumerate(readers):
                current, whole = reader.ask()
                assert current == 2 + rebuilt
                assert whole == reader.first, "what a held generation says does not change"
                assert reader.began_with == 2 + number
                assert messages(whole) == TURNS
                assert whole[2] == "ok"
                assert len(whole[1]) >= TURNS
                assert files.is_held(generation_file(directory, 2 + number))
        assert files.numbers(directory) == [2, 3, 4, 5]
        remember(memory, TURNS)
        assert [messages(reader.ask()[1]) for reader in readers] == [TURNS, TURNS, TURNS, TURNS + 1]

        readers[0].close()
        assert not files.is_held(generation_file(directory, 2))
        assert generation_file(directory, 2).exists(), "nobody has passed by yet"
        with Memory.open(settings=Settings(data_dir=data)):
            assert files.numbers(directory) == [3, 4, 5]
        for reader in readers[1:]:
            reader.close()
        with Memory.open(settings=Settings(data_dir=data)) as late:
            assert files.numbers(directory) == [5]
            found = late.search(f"stone{TURNS}", sources=("sessions",), max_results=1).hits
            assert f"stone{TURNS}" in found[0].excerpt
