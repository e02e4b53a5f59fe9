"""Who may read the files, and what happens where nothing may be written."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

OPEN = (
    "import json, os, stat, sys\n"
    "from pathlib import Path\n"
    "os.umask(int(sys.argv[2], 8))\n"
    "from memory_sqlite import Memory\n"
    "from memory_sqlite.config import Settings\n"
    "data = Path(sys.argv[1])\n"
    "with Memory.open(settings=Settings(data_dir=data)) as memory:\n"
    "    memory.remember(session='s', messages=[{'role': 'user', 'content': 'I love granite.'}])\n"
    "    memory.search('granite')\n"
    "    memory.index(full=True)\n"
    "    memory.search('granite')\n"
    "    top = data.parent.parent\n"
    "    print(json.dumps({str(p.relative_to(top)): stat.S_IMODE(p.lstat().st_mode) for p in top.rglob('*')}))\n"
)


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_case_C124_files_are_the_owners_alone(tmp_path: Path, umask: str) -> None:
    """C124, the half about store and index: whatever the umask, directories are 0700 and files 0600, ``-wal`` and
    ``-shm`` too, and so is a parent directory that had to be made. Backups, exports and rotation come later."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(tmp_path / "top" / "share" / "data"), umask],
        capture_output=True,
        text=True,
        check=True,
    )
    modes: dict[str, int] = json.loads(done.stdout)
    directories = {name for name in modes if any(other.startswith(name + "/") for other in modes)}
    assert {name: oct(mode) for name, mode in modes.items() if mode != (0o700 if name in directories else 0o600)} == {}
    names = {Path(name).name for name in modes}
    assert {"memory.sqlite", "memory.sqlite-wal", "memory.sqlite-shm", "session.key"} <= names
    assert {"index-000002.sqlite", "index-000002.sqlite-wal", "index-000002.sqlite-shm"} <= names


def test_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    """A data directory that the owner made is the owner's: nothing changes its mode."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    with Memory.open(settings=Settings(data_dir=data)):
        pass
    assert stat.S_IMODE(data.stat().st_mode) == 0o755


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that another user can reach (pytest's own is closed to others)."""
    place = Path(tempfile.mkdtemp(prefix="memory-sqlite-test-"))
    place.chmod(0o755)
    yield place
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place)


UNPRIVILEGED = (
    "import difflib, os, sys, tempfile\n"
    "from pathlib import Path\n"
    "from memory_sqlite import Memory, errors\n"
    "from memory_sqlite.config import Settings\n"
    # once elsewhere: the other user may not be able to read the places that modules are loaded from
    "with tempfile.TemporaryDirectory() as first:\n"
    "    with Memory.open(first + '/data') as memory:\n"
    "        memory.remember(session='s', messages=[{'role': 'user', 'content': 'granite'}])\n"
    "    with Memory.open(first + '/data', read_only=True) as memory:\n"
    "        memory.search('granite')\n"
    "if os.geteuid() == 0:\n"
    "    os.setgid(65534); os.setuid(65534)\n"
    "def attempt(name, call):\n"
    "    try:\n"
    "        print(name, call())\n"
    "    except errors.MemorySqliteError as error:\n"
    "        print(name, error.code)\n"
    "settings = Settings(data_dir=Path(sys.argv[1]))\n"
    "attempt('write', lambda: Memory.open(settings=settings).close())\n"
    "def read():\n"
    "    memory = Memory.open(settings=settings, read_only=True)\n"
    "    return [hit.excerpt for hit in memory.search('granite').hits][:1]\n"
    "attempt('read', read)\n"
)


def hashes(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def give(place: Path) -> None:
    """To the user the child becomes, when this one may give at all."""
    if os.geteuid() == 0:
        for path in [place, *place.rglob("*")]:
            os.chown(path, 65534, 65534)


def attempts(data: Path) -> dict[str, str]:
    done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, str(data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_read_only_directory_refuses_a_new_store(shared: Path) -> None:
    """A place where nothing may be made: a typed error, and nothing is there afterwards."""
    give(shared)
    shared.chmod(0o555)
    assert attempts(shared / "data") == {"write": "store_read_only", "read": "unknown_agent"}
    assert list(shared.iterdir()) == []


def test_case_C074_read_only_store_is_said_to_be_read_only(shared: Path) -> None:
    """C074: nothing is changed, a search answers, and no message calls the store damaged."""
    data = shared / "data"
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    give(shared)
    for path in data.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    data.chmod(0o555)
    before = hashes(data)
    found = attempts(data)
    assert found["write"] == "store_read_only"
    assert found["read"] == "['user: granite']"
    assert hashes(data) == before


def test_unreadable_key_is_not_a_missing_key(shared: Path) -> None:
    """A key that may not be read is its own error: nobody is told to make a new one."""
    data = shared / "data"
    with Memory.open(settings=Settings(data_dir=data)):
        pass
    give(shared)
    (data / "session.key").chmod(0)
    assert attempts(data) == {"write": "session_key_invalid", "read": "session_key_invalid"}


def test_read_only_open_writes_nothing(tmp_path: Path) -> None:
    """Reading makes no store, and every writing call on a memory opened for reading is refused by name."""
    settings = Settings(data_dir=tmp_path / "data")
    with pytest.raises(errors.UnknownAgent):
        Memory.open(settings=settings, read_only=True)
    assert not (tmp_path / "data").exists()
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    with Memory.open(settings=settings, read_only=True) as memory:
        assert memory.search("granite").hits
        for call in (
            lambda: memory.remember(session="s", messages=[{"role": "user", "content": "marble"}]),
            lambda: memory.index(full=True),
        ):
            with pytest.raises(errors.StoreReadOnly):
                call()
        assert memory.status()["turns"] == 1


def test_unknown_agent_names_the_nearest(tmp_path: Path) -> None:
    """A typing error in the agent's name is answered with the name that was meant."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", agent="research")):
        pass
    with pytest.raises(errors.UnknownAgent) as caught:
        Memory.open(settings=Settings(data_dir=tmp_path / "data", agent="reserch"), read_only=True)
    assert "research" in caught.value.hint
