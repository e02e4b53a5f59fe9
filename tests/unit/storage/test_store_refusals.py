"""What is not a store of ours, or is newer or damaged, is refused by its name and left byte for byte as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.paths import agent_directory

SPOKEN = [{"role": "user", "content": "The granite key lies under the mat."}]


def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def made(tmp_path: Path) -> Path:
    """A store with one turn, closed; returns the path of its file."""
    with Memory.open(settings=settings(tmp_path)) as memory:
        for number in range(40):
            memory.remember(
                session="s", run_id=f"r{number}", messages=[{"role": "user", "content": f"granite {number}"}]
            )
    return agent_directory(tmp_path / "data", "main") / "memory.sqlite"


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file below a directory, read by another process: this one has databases open."""
    script = (
        "import hashlib, pathlib, sys\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "for p in sorted(root.rglob('*')):\n"
        "    if p.is_file() and not p.name.endswith(('-shm', '-wal')):\n"
        "        print(hashlib.sha256(p.read_bytes()).hexdigest(), p.relative_to(root))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(directory)], capture_output=True, text=True, check=True)
    return {line.split(" ", 1)[1]: line.split(" ", 1)[0] for line in done.stdout.splitlines()}


def both_ways(tmp_path: Path, expected: type[errors.MemorySqliteError]) -> None:
    """Opening for writing and for reading raise the same error."""
    for read_only in (False, True):
        with pytest.raises(expected):
            Memory.open(settings=settings(tmp_path), read_only=read_only)


def test_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    """A store of a later version is not migrated, not switched to WAL, not written at all."""
    path = made(tmp_path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.pragma("journal_mode", "delete")
    connection.close()
    before = digests(tmp_path / "data")
    both_ways(tmp_path, errors.SchemaTooNew)
    assert digests(tmp_path / "data") == before
    assert sorted(p.name for p in path.parent.iterdir() if p.name.startswith("memory")) == ["memory.sqlite"]


def test_newer_schema_with_a_wal_is_refused_untouched(tmp_path: Path) -> None:
    """Also when its last writer was killed and the WAL still holds the truth: no checkpoint of ours moves it."""
    path = made(tmp_path)
    script = "import apsw, os, sys\nc = apsw.Connection(sys.argv[1])\nc.pragma('user_version', 99)\nos._exit(0)\n"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    wal = path.with_name("memory.sqlite-wal")
    assert wal.stat().st_size > 0
    before = (path.read_bytes(), wal.read_bytes())
    both_ways(tmp_path, errors.SchemaTooNew)
    assert (path.read_bytes(), wal.read_bytes()) == before


def test_database_of_another_program_is_refused_untouched(tmp_path: Path) -> None:
    """A SQLite file that is not ours gets no table of ours."""
    path = made(tmp_path)
    path.unlink()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE bookmarks (url TEXT)").fetchall()
    connection.close()
    before = digests(tmp_path / "data")
    both_ways(tmp_path, errors.StoreDamaged)
    assert digests(tmp_path / "data") == before


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "random bytes": lambda _: os.urandom(20_000),
    "text": lambda _: b"Dear diary,\n" * 1000,
    "a short text": lambda _: b"x",
    "truncated to half": lambda content: content[: len(content) // 2],
    "truncated within the header": lambda content: content[:60],
    "first page zeroed": lambda content: bytes(4096) + content[4096:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_store_is_reported_and_kept(tmp_path: Path, damage: str) -> None:
    """A typed error, and the file is still there with the same bytes: what can be saved is the owner's to save."""
    path = made(tmp_path)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    before = digests(tmp_path / "data")
    both_ways(tmp_path, errors.StoreDamaged)
    assert digests(tmp_path / "data") == before


def test_emptied_store_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    """A zero-byte file beside generations was a store once: making a new schema in it would hide the loss."""
    path = made(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(errors.StoreDamaged):
        Memory.open(settings=settings(tmp_path))
    assert path.read_bytes() == b""


def test_emptied_store_keeps_its_wal(tmp_path: Path) -> None:
    """SQLite deletes the WAL of an empty database; what was remembered last is in there, so we do not let it."""
    path = made(tmp_path)
    for index in path.parent.glob("index-*"):
        index.unlink()
    path.write_bytes(b"")
    wal = path.with_name("memory.sqlite-wal")
    wal.write_bytes(b"last words")
    with pytest.raises(errors.StoreDamaged):
        Memory.open(settings=settings(tmp_path))
    assert wal.read_bytes() == b"last words"


def test_empty_file_alone_is_a_store_in_the_making(tmp_path: Path) -> None:
    """What a crash leaves between making the file and its schema opens as a new store."""
    directory = agent_directory(tmp_path / "data", "main")
    directory.mkdir(parents=True)
    (directory / "memory.sqlite").touch(0o600)
    (tmp_path / "data" / "session.key").write_bytes(os.urandom(32))
    with Memory.open(settings=settings(tmp_path)) as memory:
        assert memory.remember(session="s", messages=SPOKEN).status == "stored"


def test_directory_link_and_pipe_are_not_stores(tmp_path: Path) -> None:
    """Only a regular file is a store; a link is not followed, a pipe is not waited for."""
    path = made(tmp_path)
    elsewhere = tmp_path / "elsewhere.sqlite"
    path.rename(elsewhere)
    before = hashlib.sha256(elsewhere.read_bytes()).hexdigest()
    path.symlink_to(elsewhere)
    both_ways(tmp_path, errors.StoreDamaged)
    path.unlink()
    path.mkdir()
    both_ways(tmp_path, errors.StoreDamaged)
    path.rmdir()
    os.mkfifo(path)
    both_ways(tmp_path, errors.StoreDamaged)
    assert hashlib.sha256(elsewhere.read_bytes()).hexdigest() == before


def test_file_where_a_directory_should_be(tmp_path: Path) -> None:
    """Data directory, ``agents`` and the agent's directory: each a typed error, the file kept."""
    for place in (
        tmp_path / "a",
        tmp_path / "b" / "agents",
        agent_directory(tmp_path / "c", "main"),
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("mine")
    for name in "abc":
        with pytest.raises(errors.StoreReadOnly):
            Memory.open(settings=Settings(data_dir=tmp_path / name))
    assert (tmp_path / "a").read_text() == "mine"


def test_damaged_page_in_the_middle_is_a_typed_error(tmp_path: Path) -> None:
    """Damage that opening does not meet is met by the call that reads it, as ``StoreDamaged``, never as an odd row."""
    path = made(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: 4096 * 2] + bytes(len(content) - 4096 * 2))
    with pytest.raises(errors.StoreDamaged):
        Memory.open(settings=settings(tmp_path)).close()


@pytest.mark.parametrize("layout", ["key", "check", "agent layers", "old layers"])
def test_layered_memory_directory_is_recognised_and_not_touched(tmp_path: Path, layout: str) -> None:
    """The other product's directory stays as it is, and the message names the command that imports it."""
    data = tmp_path / "data"
    data.mkdir()
    if layout == "key":
        (data / ".isolation-key").write_bytes(os.urandom(32))
    elif layout == "check":
        (data / ".encryption-check").write_text("{}\n")
    elif layout == "agent layers":
        day = data / "agents" / "main-0d6e4079e367" / "sessions" / "ab" / "conversations" / "2026-07-15.jsonl"
        day.parent.mkdir(parents=True)
        day.write_text("{}\n")
    else:
        day = data / "conversations" / "2026-07-15.jsonl"
        day.parent.mkdir(parents=True)
        day.write_text("{}\n")
    before = sorted((str(p), p.stat().st_mtime_ns) for p in data.rglob("*"))
    for read_only in (False, True):
        with pytest.raises(errors.LegacyLayout) as caught:
            Memory.open(settings=settings(tmp_path), read_only=read_only)
        assert "import layered" in caught.value.hint
    assert sorted((str(p), p.stat().st_mtime_ns) for p in data.rglob("*")) == before
