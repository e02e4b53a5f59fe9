"""What a worker has open: taken with the first read, kept, and let go of for each reason there is."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from memory_sqlite import errors, paths
from memory_sqlite.generations import files, layout
from memory_sqlite.limits import WORKER_HOLDS_MAX, WORKER_IDLE_S
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.gone import Gone
from memory_sqlite.processes.holds import Holds
from memory_sqlite.storage.connection import open_index_reader


def build(directory: Path, number: int) -> str:
    """A sealed, empty generation; its path."""
    directory.mkdir(exist_ok=True)
    path = paths.generation_file(directory, number)
    connection = files.create(path, None)
    with connection:
        layout.create(connection, {"number": number})
    files.seal(connection, path)
    connection.close()
    return str(path)


def number_in(connection: apsw.Connection) -> object:
    return layout.read_meta(connection)["identity"]["number"]


def test_a_generation_is_held_from_the_first_request_until_it_is_let_go(tmp_path: Path) -> None:
    """The retirer's probe sees it, also between requests; the connection is the same each time."""
    path, holds = build(tmp_path, 7), Holds()
    connection = holds.connection(path, 7)
    assert holds.connection(path, 7) is connection
    assert files.is_held(Path(path))
    assert not files.remove_unless_held(Path(path))
    assert holds.let_go(path)
    assert not holds.let_go(path)
    assert files.remove_unless_held(Path(path))


def test_inv_037_a_worker_never_holds_a_handle_that_can_write(tmp_path: Path) -> None:
    """Opened read-only, so that no statement and no pragma changes that; the file is open for reading alone."""
    path, holds = build(tmp_path, 7), Holds()
    connection = holds.connection(path, 7)
    assert connection.readonly("main")
    connection.pragma("query_only", False)
    with pytest.raises(apsw.ReadOnlyError):
        connection.execute("DELETE FROM meta")


def test_inv_038_a_missing_generation_is_gone_and_nothing_is_made(tmp_path: Path) -> None:
    """The parent asks for the current number then."""
    holds = Holds()
    with pytest.raises(Gone):
        holds.connection(str(tmp_path / "index-000001.sqlite"), 1)
    with pytest.raises(Gone):
        holds.connection(str(tmp_path / "none" / "index-000001.sqlite"), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_generation_that_is_taken_away_is_gone_and_not_held(tmp_path: Path) -> None:
    """Its connection is closed with it."""
    path, holds = build(tmp_path, 7), Holds()
    holds.connection(path, 7)
    files.remove(Path(path))
    with pytest.raises(Gone):
        holds.connection(path, 7)
    assert len(holds) == 0


def test_inv_031_a_file_replaced_under_the_same_path_is_seen(tmp_path: Path) -> None:
    """By device and inode; the old connection is closed."""
    path, other = build(tmp_path, 7), build(tmp_path / "other", 9)
    holds = Holds()
    first = holds.connection(path, 7)
    assert number_in(first) == 7
    files.remove(Path(path))
    Path(other).rename(path)
    assert number_in(holds.connection(path, 7)) == 9
    with pytest.raises(apsw.ConnectionClosedError):
        first.execute("SELECT 1")


def test_inv_030_a_kept_connection_sees_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    """Never a read transaction between requests."""
    path, holds = build(tmp_path, 7), Holds()
    connection = holds.connection(path, 7)
    writer = apsw.Connection(path)
    writer.execute("BEGIN IMMEDIATE")
    layout.write_meta(writer, "applied_seq", 5)
    assert layout.read_meta(holds.connection(path, 7))["applied_seq"] == 0
    writer.execute("COMMIT")
    assert layout.read_meta(holds.connection(path, 7))["applied_seq"] == 5
    assert not connection.in_transaction
    writer.close()


def test_the_older_generation_of_an_agent_is_let_go_when_a_newer_is_asked_for(tmp_path: Path) -> None:
    """Of this agent alone; an older one that is asked for again does not push out the newer."""
    older, newer, other = build(tmp_path / "a", 1), build(tmp_path / "a", 2), build(tmp_path / "b", 1)
    holds = Holds()
    for path, number in ((older, 1), (other, 1), (newer, 2)):
        holds.connection(path, number)
    assert not files.is_held(Path(older))
    assert files.is_held(Path(newer)) and files.is_held(Path(other))
    holds.connection(older, 1)
    assert files.is_held(Path(newer))


def test_inv_024_open_generations_are_bounded_and_the_least_used_goes(tmp_path: Path) -> None:
    """One worker serves many agents with few descriptors."""
    made = [build(tmp_path / str(n), 1) for n in range(WORKER_HOLDS_MAX + 1)]
    holds = Holds()
    for path in (*made[:-1], made[0], made[-1]):
        holds.connection(path, 1)
    assert len(holds) == WORKER_HOLDS_MAX
    assert files.is_held(Path(made[0])) and not files.is_held(Path(made[1]))


def test_what_was_not_used_for_long_is_let_go(tmp_path: Path) -> None:
    """And what was used since is kept."""
    now = [0.0]
    used, unused = build(tmp_path / "a", 1), build(tmp_path / "b", 1)
    holds = Holds(clock=lambda: now[0])
    holds.connection(used, 1)
    holds.connection(unused, 1)
    now[0] = WORKER_IDLE_S - 1
    holds.connection(used, 1)
    holds.let_go_idle()
    assert len(holds) == 2
    now[0] = WORKER_IDLE_S
    holds.let_go_idle()
    assert not files.is_held(Path(unused)) and files.is_held(Path(used))


@pytest.mark.parametrize("name", ["memory.sqlite", "index-000002.sqlite", "index-1.sqlite", "session.key"])
def test_a_worker_opens_nothing_but_the_generation_that_is_named(tmp_path: Path, name: str) -> None:
    """Number and file must fit; the store is no generation."""
    Path(build(tmp_path, 1)).rename(tmp_path / name)
    with pytest.raises(WireError):
        Holds().connection(str(tmp_path / name), 1)


def test_a_relative_path_is_refused() -> None:
    """A worker has no working directory of its own."""
    with pytest.raises(WireError):
        Holds().connection("index-000001.sqlite", 1)


def test_a_file_that_is_no_generation_is_unavailable_and_not_held(tmp_path: Path) -> None:
    """Damaged and empty files are told apart from absent ones: asking for the current number would not help."""
    damaged, empty = tmp_path / "index-000001.sqlite", tmp_path / "index-000002.sqlite"
    damaged.write_bytes(b"no database at all" * 100)
    empty.touch()
    holds = Holds()
    for number, path in ((1, damaged), (2, empty)):
        with pytest.raises(errors.IndexUnavailable):
            holds.connection(str(path), number)
    assert len(holds) == 0


@pytest.mark.parametrize("error", [apsw.BusyError, apsw.LockedError, apsw.CantOpenError])
def test_a_reader_that_loses_the_race_with_the_retirer_is_told_gone(tmp_path: Path, error: type[apsw.Error]) -> None:
    """What SQLite says while the file is being taken away; the parent decides by the current number."""
    path = build(tmp_path, 1)

    def losing(_: Path, key: object) -> apsw.Connection:
        raise error("in a race")

    with pytest.raises(Gone):
        Holds(opener=losing).connection(path, 1)


def test_a_file_that_changes_while_it_is_opened_is_gone(tmp_path: Path) -> None:
    """Its identity would be that of another file."""
    path, other = build(tmp_path, 1), build(tmp_path / "other", 1)

    def swapping(place: Path, key: object) -> apsw.Connection:
        connection = open_index_reader(place)
        files.remove(place)
        Path(other).rename(place)
        return connection

    holds = Holds(opener=swapping)
    with pytest.raises(Gone):
        holds.connection(path, 1)
    assert len(holds) == 0


def test_closing_lets_go_of_everything(tmp_path: Path) -> None:
    """Nothing stays held."""
    holds, made = Holds(), [build(tmp_path / name, 1) for name in "ab"]
    for path in made:
        holds.connection(path, 1)
    holds.close()
    assert not any(files.is_held(Path(path)) for path in made)
