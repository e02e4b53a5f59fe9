"""Reading where nothing may be written: whole answers, no file made, nothing of the WAL left out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, library
from memory_sqlite.config import Settings
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.read_only_media import Media

CHILD = """
import json, os, sys
from pathlib import Path
from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
import memory_sqlite.storage.migrate as migrate, memory_sqlite.agent.reporting, memory_sqlite.interop.jsonl_export
import memory_sqlite.sources.reading, memory_sqlite.search.run, tempfile, shutil
migrate.scripts()
key = "READ_ONLY_TEST_KEY" if "READ_ONLY_TEST_KEY" in os.environ else None
if key is not None:
    import memory_sqlite.crypto.keyring
    from cryptography.hazmat.primitives.ciphers import aead
    from cryptography.hazmat.primitives.kdf import hkdf, scrypt


def look(data, temporary, exports):
    said = {}
    tempfile.tempdir = temporary
    try:
        with Memory.open(settings=Settings(data_dir=Path(data), encryption_key_env=key), read_only=True) as memory:
            said["found"] = sorted(hit.excerpt for hit in memory.search("granite").hits if hit.layer == "L0")
            said["turns"] = memory.status()["turns"]
            said["read"] = memory.get(memory.search("granite").hits[0].reference).status
            said["temporary"] = sorted(os.listdir(temporary))
            if said["temporary"]:
                copies = Path(temporary) / said["temporary"][0]
                said["mode"] = oct(copies.stat().st_mode & 0o777)
                said["clear"] = any(b"granite" in path.read_bytes() for path in copies.iterdir())
            said["lines"] = memory.export(os.path.join(exports, "out.jsonl")).lines > 0
    except errors.MemorySqliteError as error:
        said["error"] = error.code
    return said


# once on a copy: the other user may not be able to read the places that modules are loaded from
with tempfile.TemporaryDirectory() as first:
    shutil.copytree(sys.argv[1], first + "/data")
    os.makedirs(first + "/temporary"); os.makedirs(first + "/exports")
    look(first + "/data", first + "/temporary", first + "/exports")
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
print(json.dumps(look(*sys.argv[1:])))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that another user can reach, with a place for temporary files and one for exports."""
    place = Path(tempfile.mkdtemp(prefix="memory-sqlite-test-"))
    place.chmod(0o755)
    for name in ("temporary", "exports"):
        (place / name).mkdir()
        (place / name).chmod(0o777)
    yield place
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place)


def contents(data: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in data.rglob("*") if path.is_file()}


def freeze(data: Path) -> dict[str, str]:
    """As on read-only media, for a user who is not root."""
    for path in [data, *data.rglob("*")]:
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        path.chmod(0o555 if path.is_dir() else 0o444)
    return contents(data)


def ask(shared: Path, data: Path) -> dict[str, Any]:
    places = [str(data), str(shared / "temporary"), str(shared / "exports")]
    done = subprocess.run([sys.executable, "-c", CHILD, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def remember(memory: Memory, text: str) -> None:
    memory.remember(session="s", messages=[{"role": "user", "content": text}])


def test_closed_store_is_read_in_place(shared: Path) -> None:
    """No WAL: search, get, status and export answer, and not one file is made, here or elsewhere."""
    data = shared / "data"
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        remember(memory, "granite is hard")
    before = freeze(data)
    said = ask(shared, data)
    assert said == {
        "found": ["user: granite is hard"], "turns": 1, "read": "ok", "temporary": [], "lines": True,
    }  # fmt: skip
    assert contents(data) == before


@pytest.mark.parametrize("encrypted", [False, True])
def test_what_is_in_the_wal_is_read_too(shared: Path, encrypted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WAL with something in it: from a private copy (0700, gone afterwards), since ``immutable`` leaves it out. The
    copy of an encrypted memory is as encrypted."""
    if encrypted and library.cipher() is None:
        pytest.skip("needs apsw-sqlite3mc")
    original, data = shared / "original", shared / "data"
    settings = Settings(data_dir=original)
    if encrypted:
        monkeypatch.setenv("READ_ONLY_TEST_KEY", "0123456789abcdef" * 3)
        settings = Settings(data_dir=original, encryption_key_env="READ_ONLY_TEST_KEY")
    with Memory.open(settings=settings) as memory:
        remember(memory, "granite is hard")
        with Memory.open(settings=settings) as second:  # the files as a killed writer leaves them
            remember(second, "granite is old")
            for path in original.rglob("*"):
                if path.is_file() and not path.name.endswith("-shm"):
                    target = data / path.relative_to(original)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    copy_closed(path, target)
    assert next(data.rglob("memory.sqlite-wal")).stat().st_size > 0
    before = freeze(data)
    said = ask(shared, data)
    assert len(said["found"]) == said["turns"] == 2 and all("granite is old" in text for text in said["found"])
    assert len(said["temporary"]) == 1 and said["mode"] == "0o700" and said["clear"] is not encrypted
    assert contents(data) == before
    assert list((shared / "temporary").iterdir()) == []


def copy_closed(source: Path, target: Path) -> None:
    """In a process of its own: closing a database file here would drop the locks of the memory that has it open."""
    subprocess.run(
        [sys.executable, "-c", "import shutil, sys; shutil.copyfile(*sys.argv[1:])", str(source), str(target)],
        check=True,
    )


def test_without_room_for_a_copy_it_is_an_error(shared: Path) -> None:
    """Neither in place nor from a copy: said by its name, never answered from half of it."""
    original, data = shared / "original", shared / "data"
    with Memory.open(settings=Settings(data_dir=original)) as memory:
        remember(memory, "granite is hard")
        for path in original.rglob("*"):
            if path.is_file() and not path.name.endswith("-shm"):
                target = data / path.relative_to(original)
                target.parent.mkdir(parents=True, exist_ok=True)
                copy_closed(path, target)
    before = freeze(data)
    (shared / "temporary").chmod(0o555)
    assert ask(shared, data) == {"error": "store_read_only"}
    assert contents(data) == before


def test_a_file_that_is_written_meanwhile_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of two moments would be neither: the caller is told to try again."""
    path = tmp_path / "memory.sqlite"
    path.write_bytes(b"x" * 4096)
    wal = path.with_name("memory.sqlite-wal")
    wal.write_bytes(b"y" * 32)
    import memory_sqlite.storage.read_only_media as module

    take = module._take

    def slow(source: Path, target: Path) -> None:
        take(source, target)
        wal.write_bytes(b"z" * 64)

    monkeypatch.setattr(module, "_take", slow)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def refused(path: Path, key: object, *, immutable: bool = False) -> apsw.Connection:
        raise AssertionError("nothing is opened")

    media = Media()
    with pytest.raises(errors.StoreBusy):
        media._find(path)
    media.close()
    assert not media.is_read_only
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["memory.sqlite", "memory.sqlite-wal"]
    with pytest.raises(errors.MemoryClosed):
        media._find(path)


def test_where_everything_may_be_written_nothing_changes(tmp_path: Path) -> None:
    """A reader beside a writer reads as ever: no copy, not ``immutable``, and it sees what the writer commits."""
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings) as memory, Memory.open(settings=settings, read_only=True) as reader:
        remember(memory, "granite is hard")
        assert reader.status()["turns"] == 1
        remember(memory, "granite is old")
        assert reader.status()["turns"] == 2
        assert reader._opened is not None and not reader._opened.store.media.is_read_only


def test_missing_file_stays_an_error(tmp_path: Path) -> None:
    """A file that is not there is no read-only medium."""
    media = Media()
    with pytest.raises(apsw.CantOpenError):
        try:
            media.open(tmp_path / "absent.sqlite", None, connections.open_store_reader)
        except errors.StoreReadOnly as error:
            raise error.__cause__ or error from None
    assert not media.is_read_only
