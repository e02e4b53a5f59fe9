"""Two processes that embed for one agent with a provider that charges: each text is asked for once, also after a kill.

Each process says what it is asked for, and its provider answers when the test lets it: no clock takes part.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

NOTES, BATCH = 12, 4
WAITS = "waits"
CHILD = """
import hashlib, sys
from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY

class Provider:
    identity, cost, weight = EmbeddingIdentity("hash", "one", 8), "paid", Weight()
    limits = InputLimits(1000, int(sys.argv[3]), 100000)
    def load(self, timeout_s): pass
    def embed_query(self, text, timeout_s): return [1.0] * 8
    def embed_documents(self, texts, timeout_s):
        for text in texts:
            print("asked", text.split()[-1], flush=True)
        sys.stdin.readline()  # until the test writes a line, or closes the pipe
        return [[byte - 127.5 for byte in hashlib.shake_128(text.encode()).digest(8)] for text in texts]
    def close(self): pass

def heard(stage, done, total):
    if stage == "another process makes vectors":
        print("waits", flush=True)

REGISTRY.plugin("tests", ["hash"]).register("hash", lambda settings: Provider())
settings = Settings(
    data_dir=sys.argv[1], workspace=sys.argv[2], embedding_provider="hash", embedding_batch_timeout_ms=600000
)
with Memory.open(settings=settings) as memory:
    report = memory.index(full=sys.argv[4] == "full", spend=True, progress=heard)
    print("ends", report.vectors.state, report.vectors.missing, flush=True)
"""


class Child:
    """A process that indexes; what it says, line by line."""

    def __init__(self, place: Path, workspace: Path, how: str = "changes") -> None:
        words = [sys.executable, "-c", CHILD, str(place), str(workspace), str(BATCH), how]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked: list[str] = []

    def until(self, word: str) -> str:
        """Reads up to the line that begins with a word, and keeps what was asked for on the way."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            first, _, rest = line.strip().partition(" ")
            if first == "asked":
                self.asked.append(rest)
            if first == word:
                return rest
        raise AssertionError(f"it ended without {word}")

    def until_batch(self) -> None:
        """Until it has asked for a whole batch, for which it now waits."""
        for _ in range(BATCH):
            self.until("asked")

    def answer(self, batches: int | None = None) -> None:
        """Lets so many batches be answered; all that come without a number."""
        assert self.process.stdin is not None
        if batches is None:
            self.process.stdin.close()
        else:
            self.process.stdin.write("\n" * batches)
            self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def place(tmp_path: Path, workspace: Path) -> Path:
    """The data directory of a memory whose notes are indexed and have no vectors."""
    for number in range(NOTES):
        (workspace / "memory" / f"n{number:02}.md").write_text(f"granite pebble {number:02}\n")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.index()
    return tmp_path / "data"


@pytest.fixture
def children(place: Path, workspace: Path) -> Iterator[tuple[Child, Child]]:
    """One that has asked for its first batch and waits for it, and one that waits for the first."""
    first = Child(place, workspace)
    second = None
    try:
        first.until_batch()
        second = Child(place, workspace)
        second.until(WAITS)
        yield first, second
    finally:
        for child in (first, second):
            if child is not None:
                child.kill()


ALL = [f"{number:02}" for number in range(NOTES)]


def test_each_text_is_paid_for_once(children: tuple[Child, Child], place: Path) -> None:
    """The second waits and finds what the first has filed; both say that everything has a vector."""
    first, second = children
    first.answer()
    second.answer()
    assert first.until("ends") == "complete 0"
    assert second.until("ends") == "complete 0"
    assert sorted(first.asked) == ALL
    assert second.asked == []
    assert verify(agent_directory(place, "main")) == []


def test_a_killed_process_leaves_its_claim_to_the_next(children: tuple[Child, Child], place: Path) -> None:
    """``kill -9`` in the middle: the second goes on at once with all that was not filed, and with nothing else."""
    first, second = children
    first.answer(1)
    first.until_batch()  # the batch before is on disk
    first.kill()
    second.answer()
    assert second.until("ends") == "complete 0"
    filed, lost = first.asked[:BATCH], first.asked[BATCH:]
    assert sorted(filed + second.asked) == ALL
    assert set(lost) <= set(second.asked)
    assert verify(agent_directory(place, "main")) == []


def test_a_build_beside_a_process_that_embeds_pays_for_nothing_twice(place: Path, workspace: Path) -> None:
    """The batch under way at the moment of publishing belongs to the old generation, and goes over to the new one."""
    first = Child(place, workspace)
    second = None
    try:
        first.until_batch()
        second = Child(place, workspace, "full")
        second.until(WAITS)  # the new generation is published
        first.answer()
        second.answer()
        assert first.until("ends") == "complete 0"
        assert second.until("ends") == "complete 0"
        assert sorted(first.asked + second.asked) == ALL
    finally:
        for child in (first, second):
            if child is not None:
                child.kill()
