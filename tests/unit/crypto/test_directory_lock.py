"""The lock of a data directory: many beside each other, or one alone; it ends with its process."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.crypto import directory_lock

OTHER = """
import sys
from pathlib import Path
from memory_sqlite.crypto import directory_lock
held = getattr(directory_lock, sys.argv[2])(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_many_beside_each_other_or_one_alone(tmp_path: Path) -> None:
    """In one process as between processes; nothing is left in the directory."""
    one, two = directory_lock.hold(tmp_path), directory_lock.hold(tmp_path)
    with pytest.raises(errors.DirectoryInUse):
        directory_lock.alone(tmp_path)
    one.close()
    one.close()
    with pytest.raises(errors.DirectoryInUse):
        directory_lock.alone(tmp_path)
    two.close()
    alone = directory_lock.alone(tmp_path)
    with pytest.raises(errors.DirectoryInUse, match="being changed"):
        directory_lock.hold(tmp_path, wait_s=0.0)
    alone.share()
    directory_lock.hold(tmp_path, wait_s=0.0).close()
    alone.close()
    directory_lock.alone(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_taking_it_alone(tmp_path: Path) -> None:
    """Only when nobody else has it; who is refused has nothing any more and must look again."""
    one, two = directory_lock.hold(tmp_path), directory_lock.hold(tmp_path)
    with pytest.raises(errors.DirectoryInUse):
        one.take_alone()
    two.take_alone()
    with pytest.raises(errors.DirectoryInUse):
        directory_lock.hold(tmp_path, wait_s=0.0)
    two.close()


@pytest.mark.parametrize(("theirs", "mine"), [("hold", "alone"), ("alone", "hold")])
def test_it_ends_with_its_process_however_that_ends(tmp_path: Path, theirs: str, mine: str) -> None:
    """A killed process holds nothing; who waits goes on."""
    child = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path), theirs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(errors.DirectoryInUse):
        getattr(directory_lock, mine)(tmp_path, 0.0)
    child.kill()
    child.communicate()
    getattr(directory_lock, mine)(tmp_path, 60.0).close()


def test_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening is not refused for it; changing keys is, for nobody can tell who has the directory open."""

    def without(descriptor: int, how: int) -> Any:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", without)
    directory_lock.hold(tmp_path).close()
    with pytest.raises(errors.FileSystemUnsuitable):
        directory_lock.alone(tmp_path)
    with pytest.raises(errors.StoreReadOnly):
        directory_lock.hold(tmp_path / "absent")
