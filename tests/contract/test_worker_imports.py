"""What a worker has loaded after real work: reading and preparing, and nothing that could write, serve or embed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.processes import envelopes, frames, hits, prepared
from memory_sqlite.processes.envelopes import Reply, Request
from memory_sqlite.processes.frames import Frame, FrameReader
from memory_sqlite.processes.hits import SearchRequest
from memory_sqlite.processes.prepare import WordsOf
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.sources.discovery import discover

FORBIDDEN = (
    "memory_sqlite.memory", "memory_sqlite.async_memory", "memory_sqlite.agent", "memory_sqlite.cli",
    "memory_sqlite.embeddings", "memory_sqlite.indexing", "memory_sqlite.integrations", "memory_sqlite.interop",
    "memory_sqlite.layers", "memory_sqlite.processes.child", "memory_sqlite.processes.pool", "memory_sqlite.recall",
    "memory_sqlite.server", "memory_sqlite.storage.migrate", "memory_sqlite.storage.store", "memory_sqlite.transcripts",
    "apsw.bestpractice", "apsw.ext", "asyncio", "click", "httpx", "logging", "mcp", "multiprocessing", "numpy",
    "pickle", "pydantic", "pydantic_core", "rich", "socket", "sqlite3", "subprocess",
)  # fmt: skip

WORKER = """
import atexit, json, os, sys
from memory_sqlite.workers import {worker} as worker
ended = os._exit
def report(status):
    with open(sys.argv[1], "w") as file:
        json.dump(sorted(sys.modules), file)
    ended(status)
os._exit = report
worker.main()
"""
"""The worker's own ``main``; the names of what it has loaded are written when it ends with its parent."""


def loaded_after(tmp_path: Path, worker: str, requests: list[tuple[Request, bytes]]) -> tuple[set[str], list[Reply]]:
    """Modules of a worker after these requests, and its replies."""
    report = tmp_path / "modules.json"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", WORKER.format(worker=worker), str(report)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        reader = FrameReader(process.stdout.fileno())

        def read() -> Frame:
            frame = reader.read()
            assert frame is not None
            return frame

        process.stdin.write(frames.pack(envelopes.setup(worker)))
        envelopes.check_greeting(read(), "hello", worker)
        replies = []
        for request, blob in requests:
            process.stdin.write(frames.pack(envelopes.request(request), blob))
            replies.append(envelopes.from_worker(read()))
        process.stdin.close()
        assert process.wait(20) == 0
    return set(json.loads(report.read_text())), replies


def forbidden(modules: set[str]) -> list[str]:
    return sorted(m for m in modules if any(m == name or m.startswith(name + ".") for name in FORBIDDEN))


@pytest.fixture
def generation(tmp_path: Path, workspace: Path) -> tuple[Path, int]:
    (workspace / "MEMORY.md").write_text("# Net\n\nThe router VLAN is 42. 今天我喜欢茶\n", encoding="utf-8")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        number = memory.index().generation
        assert number is not None
    return next((tmp_path / "data").rglob(f"index-{number:06d}.sqlite")), number


def test_the_retrieval_worker_has_loaded_nothing_but_reading(tmp_path: Path, generation: tuple[Path, int]) -> None:
    """After searching (also CJK and misspelt words), hydrating, presence and state."""
    path, number = generation

    def asking(kind: str, ask: dict[str, Any], n: int) -> tuple[Request, bytes]:
        return Request(n, kind, {"path": str(path), "number": number, "ask": ask}), b""

    searches = [
        asking("search", hits.request_json(SearchRequest(text, Filters(OPERATOR), 0, 6, 1 << 20, explain=True)), n)
        for n, text in enumerate(("router VLAN", "茶", "ruoter vlna", "yesterday"), 1)
    ]
    others = [
        asking("hydrate", {"chunks": [1]}, 5),
        asking("presence", {"kind": "note", "keys": ["MEMORY.md"]}, 6),
        asking("state", {}, 7),
        (Request(8, "let_go", {"path": str(path)}), b""),
    ]
    modules, replies = loaded_after(tmp_path, "retrieval", [*searches, *others])
    assert [reply.outcome for reply in replies] == ["ok"] * 8
    assert replies[0].body["hits"] and replies[1].body["hits"]
    assert "memory_sqlite.search.run" in modules
    assert forbidden(modules) == []


def test_the_preparation_worker_has_loaded_nothing_but_preparing(tmp_path: Path, workspace: Path) -> None:
    """After a note with annotations, front matter, CJK and a secret, and after tokens of messages; no database is
    opened."""
    (workspace / "MEMORY.md").write_text(
        "---\ntitle: T\n---\n- 今天 <!-- trigger: tea -->\n- my password is zebra77pass\n", encoding="utf-8"
    )
    place = discover(workspace, ()).places[0]
    note, data = prepared.notes_json([(place, place.absolute.read_bytes())], True)
    documents, texts = prepared.asked_json([WordsOf("message", "", "s", (("Does it? Yes, today.", "", ""),))])
    modules, replies = loaded_after(
        tmp_path,
        "preparation",
        [
            (Request(1, "notes", note), data),
            (Request(2, "words", documents), texts),
        ],
    )
    assert [reply.outcome for reply in replies] == ["ok", "ok"]
    (made,) = prepared.prepared_of(replies[0].body, replies[0].blob, [place])
    assert made.document is not None and "[secret:" in made.document.chunks[-1].text
    assert "memory_sqlite.sources.markdown" in modules
    assert forbidden(modules) == []


def test_a_worker_that_reads_has_the_file_open_for_reading_alone(tmp_path: Path, generation: tuple[Path, int]) -> None:
    """As the system sees it: no descriptor of a worker can write the database file."""
    from memory_sqlite.processes.retrieval import Retrieval
    from memory_sqlite.processes.slots import Bounds

    path, number = generation
    workers = Retrieval(bounds=Bounds(workers=1))
    try:
        workers.search(path, number, SearchRequest("router", Filters(OPERATOR), 0, 6, 1 << 20))
        (pid,) = workers.pool.describe()["pids"]
        flags = {}
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith(str(path.parent)):
                info = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text()
                flags[Path(target).name] = int(info.split("flags:")[1].split()[0], 8) & os.O_ACCMODE
        assert flags[path.name] == os.O_RDONLY
        assert "memory.sqlite" not in flags
    finally:
        workers.close()


@pytest.mark.parametrize("worker", ["retrieval", "preparation"])
@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", frames.pack(envelopes.setup("other")), b""])
def test_a_worker_that_is_not_greeted_ends(worker: str, first: bytes) -> None:
    """Started by hand, or by another version: it says nothing and goes."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"memory_sqlite.workers.{worker}"], input=first, capture_output=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (76 if first else 0, b"", b"")
