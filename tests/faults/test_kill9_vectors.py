"""``kill -9`` of a process that embeds: what was filed stays, nothing is half filed, the next run does the rest."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.doctor import verify
from memory_sqlite.indexing.vector_filing import open_for_filing
from memory_sqlite.paths import agent_directory, generation_file

KILLS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "8"))
NOTES, BATCH = max(60, 8 * KILLS), 4
PROVIDER = """
import hashlib, sys, threading
from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY

class Provider:
    identity, cost, weight = EmbeddingIdentity("hash", "one", 8), "paid", Weight()
    limits = InputLimits(1000, int(sys.argv[3]), 100000)
    hangs = False
    def load(self, timeout_s): pass
    def embed_query(self, text, timeout_s): return [1.0] * 8
    def embed_documents(self, texts, timeout_s):
        print(len(texts), flush=True)
        if self.hangs:
            threading.Event().wait()
        return [[byte - 127.5 for byte in hashlib.shake_128(text.encode()).digest(8)] for text in texts]
    def close(self): pass

REGISTRY.plugin("tests", ["hash"]).register("hash", lambda settings: Provider())
"""
CHILD = f"""{PROVIDER}
settings = Settings(data_dir=sys.argv[1], workspace=sys.argv[2], embedding_provider="hash")
with Memory.open(settings=settings) as memory:
    report = memory.index(full=sys.argv[4] == "full", spend=True)
    print(report.vectors.state, report.vectors.missing, flush=True)
"""
COMMAND = f"""{PROVIDER}
from memory_sqlite.cli import main
Provider.hangs = sys.argv[4] == "hangs"
sys.argv[1:] = ["index", "--yes", "--data-dir", sys.argv[1], "--workspace", sys.argv[2]]
main()
"""
"""Both index with a provider of their own and say the size of each batch it is asked for, then how they ended."""


def child(place: Path, workspace: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(place), str(workspace), str(BATCH), how], stdout=subprocess.PIPE, text=True
    )


def filed(place: Path) -> int:
    """Vectors in the current generation, read past any process that has just died."""
    with Memory.open(place) as memory:
        assert memory._opened is not None
        number = memory._opened.keeper.number()
    assert number is not None
    index = open_for_filing(generation_file(agent_directory(place, "main"), number))
    try:
        found = index.execute("SELECT count(*) FROM vectors").get
    finally:
        index.close()
    assert isinstance(found, int)
    return found


@pytest.fixture
def place(tmp_path: Path, workspace: Path) -> Path:
    """The data directory of a memory whose notes are indexed and have no vectors."""
    for number in range(NOTES):
        (workspace / "memory" / f"n{number}.md").write_text(f"granite pebble {number}\n")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.index()
    return tmp_path / "data"


def test_two_processes_that_embed_the_same_texts(place: Path, workspace: Path) -> None:
    """Both come to the end without an error, each chunk has one vector, and each text was paid for once."""
    both = [child(place, workspace, "changes") for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0].splitlines() for process in both]
    assert [output[-1] for output in outputs] == ["complete 0", "complete 0"]
    assert sum(int(size) for output in outputs for size in output[:-1]) == NOTES
    assert filed(place) == NOTES
    assert verify(agent_directory(place, "main")) == []


@pytest.mark.sweep
def test_killed_while_embedding_keeps_what_was_filed(place: Path, workspace: Path) -> None:
    """Killed as it asks for its n-th batch: the batches before it are there, whole; each is asked for once in all, but
    for the one under way at each kill. A last run fills the rest, and a full build after it asks for nothing."""
    rng = random.Random(23)
    before = 0
    for turn in range(KILLS):
        process = child(place, workspace, "full" if turn % 3 == 2 else "changes")
        assert process.stdout is not None
        batches = rng.randrange(1, 4)
        heard = [process.stdout.readline().strip() for _ in range(batches)]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        asked = [int(line) for line in heard if line.isdigit()]
        now = filed(place)
        # its last words came before that batch was answered; it may have gone on until the signal arrived
        assert now >= before + sum(asked[: batches - 1])
        assert now % BATCH == 0
        assert [one.code for one in verify(agent_directory(place, "main")) if one.severity != "info"] == []
        before = now
        if now == NOTES:
            break
    process = child(place, workspace, "changes")
    output, _ = process.communicate(timeout=120)
    *asked_now, last = output.splitlines()
    assert last == "complete 0"
    assert sum(map(int, asked_now)) == NOTES - before
    assert filed(place) == NOTES
    output, _ = child(place, workspace, "full").communicate(timeout=120)
    assert output.splitlines() == ["complete 0"]
    assert filed(place) == NOTES
    assert verify(agent_directory(place, "main")) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_case_C106_index_is_interrupted_while_a_provider_hangs(
    tmp_path: Path, workspace: Path, number: signal.Signals, code: int
) -> None:
    """It ends with a short message and its exit code, the words are indexed, and the next run does the vectors."""
    (workspace / "memory" / "a.md").write_text("granite\n")
    place = tmp_path / "data"
    environment = {**os.environ, "MEMORY_SQLITE_EMBEDDING_PROVIDER": "hash"}

    def command(how: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", COMMAND, str(place), str(workspace), "4", how]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=environment)

    process = command("hangs")
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == code
    assert "Traceback" not in said
    with Memory.open(place) as memory:
        assert memory.search("granite").hits
    assert filed(place) == 0
    output, _ = command("answers").communicate(timeout=120)
    assert "1 passage embedded by hash one." in output
    assert filed(place) == 1
