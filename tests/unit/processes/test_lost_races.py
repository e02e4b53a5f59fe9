"""A reader that opens a generation while it is taken away: it is told so, in whatever words SQLite says it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from memory_sqlite import errors
from memory_sqlite.processes.gone import Gone
from memory_sqlite.processes.holds import Holds
from memory_sqlite.storage.failures import translated_index


def _fstat_failed() -> apsw.IOError:
    error = apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_IOERR_FSTAT  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    "said", [apsw.BusyError("locked"), apsw.CantOpenError("no file"), _fstat_failed(), FileNotFoundError("gone")]
)
def test_a_lost_race_is_gone_not_damage(tmp_path: Path, said: Exception) -> None:
    """Translated once, twice or not at all: the parent asks for the current number again instead of giving up."""
    path = tmp_path / "index-000001.sqlite"
    path.touch()

    def opener(place: Path, key: object) -> apsw.Connection:
        with translated_index():
            raise said

    with pytest.raises(Gone):
        Holds(opener).connection(str(path), 1)


def test_damage_of_a_file_that_is_there_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "index-000001.sqlite"
    path.touch()

    def opener(place: Path, key: object) -> apsw.Connection:
        with translated_index():
            raise apsw.CorruptError("malformed")

    with pytest.raises(errors.IndexUnavailable):
        Holds(opener).connection(str(path), 1)


def test_any_failure_of_a_file_that_is_gone_since_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "index-000001.sqlite"
    path.touch()

    def opener(place: Path, key: object) -> apsw.Connection:
        place.unlink()
        with translated_index():
            raise apsw.IOError("disk I/O error")

    with pytest.raises(Gone):
        Holds(opener).connection(str(path), 1)
