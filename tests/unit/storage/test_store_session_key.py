"""``session.key``: made once and whole, never silently made anew, told apart from another one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.paths import session_token
from memory_sqlite.storage import session_key

SPOKEN = [{"role": "user", "content": "The granite key lies under the mat."}]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one agent that remembers one turn."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        memory.remember(session="s", messages=SPOKEN)
    return tmp_path / "data"


def names(data: Path) -> list[str]:
    """Everything there is, but for what a reading connection that closes last cannot take away again."""
    return sorted(str(path) for path in data.rglob("*") if not path.name.endswith(("-wal", "-shm")))


def refused(data: Path, expected: type[errors.MemorySqliteError]) -> None:
    """Opening the known agent, for writing and for reading, and a new agent raise the same error; no key is made."""
    before = names(data)
    for options in ({}, {"read_only": True}):
        with pytest.raises(expected):
            Memory.open(settings=Settings(data_dir=data), **options)
    assert names(data) == before


def test_key_is_32_bytes_of_the_owner_alone(data: Path) -> None:
    """Length, mode, and that it is what tokens are made with."""
    key = data / "session.key"
    assert (key.stat().st_size, stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        assert memory.sessions()[0]["token"] == session_token(key.read_bytes(), "s")


def test_missing_key_beside_agents_is_an_error(data: Path) -> None:
    """A new key would change every token and citation: the loss is told, also to an agent that is new."""
    (data / "session.key").unlink()
    refused(data, errors.SessionKeyMissing)
    with pytest.raises(errors.SessionKeyMissing):
        Memory.open(settings=Settings(data_dir=data, agent="somebody else"))
    assert [path.name for path in (data / "agents").iterdir()] == ["main-0d6e4079e367"]


def test_changed_key_is_an_error(data: Path) -> None:
    """The store keeps the key's fingerprint; another key is another directory's."""
    (data / "session.key").write_bytes(os.urandom(32))
    refused(data, errors.SessionKeyChanged)


def test_restored_key_opens_again(data: Path) -> None:
    """What the hint says to do helps."""
    key = (data / "session.key").read_bytes()
    (data / "session.key").unlink()
    refused(data, errors.SessionKeyMissing)
    (data / "session.key").write_bytes(key)
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        assert memory.search("granite").hits


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 31, b"x" * 33, b"x" * 100_000])
def test_key_of_another_length_is_an_error(data: Path, content: bytes) -> None:
    """It is neither used nor replaced."""
    (data / "session.key").write_bytes(content)
    refused(data, errors.SessionKeyInvalid)
    assert (data / "session.key").read_bytes() == content


def test_key_that_is_not_a_plain_file_is_an_error(data: Path, tmp_path: Path) -> None:
    """A link is not followed, a directory not entered, a pipe not waited for."""
    key = data / "session.key"
    (tmp_path / "elsewhere").write_bytes(key.read_bytes())
    key.unlink()
    key.symlink_to(tmp_path / "elsewhere")
    refused(data, errors.SessionKeyInvalid)
    key.unlink()
    key.mkdir()
    refused(data, errors.SessionKeyInvalid)
    key.rmdir()
    os.mkfifo(key)
    refused(data, errors.SessionKeyInvalid)


@pytest.mark.parametrize("moment", ["os.write", "os.fsync", "os.link"])
def test_crash_while_the_key_is_made(tmp_path: Path, moment: str) -> None:
    """A process that dies at any step leaves no short key and nothing that the next open cannot go on from."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory\n"
        "from memory_sqlite.config import Settings\n"
        f"{moment} = lambda *a, **k: os._exit(9)\n"
        "Memory.open(settings=Settings(data_dir=Path(sys.argv[1])))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], check=False)
    assert done.returncode == 9
    assert not (tmp_path / "data" / "session.key").exists()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        assert memory.remember(session="s", messages=SPOKEN).status == "stored"
    assert (tmp_path / "data" / "session.key").stat().st_size == 32


def test_the_loser_of_a_race_uses_the_winners_key(tmp_path: Path) -> None:
    """Both processes look, neither sees a key, both make one: the first linked is the key of both."""

    class Late(Clock):
        """While this clock gives randomness another process makes the key."""

        def token_bytes(self, count: int) -> bytes:
            (tmp_path / "session.key").write_bytes(b"w" * 32)
            return super().token_bytes(count)

    assert session_key.load_or_create(tmp_path, Late()) == b"w" * 32
    assert [path.name for path in tmp_path.iterdir()] == ["session.key"]
