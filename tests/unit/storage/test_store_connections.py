"""How files are opened: what is durable, what is checked, what is wiped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.indexing import vector_filing
from memory_sqlite.storage import change_log, store
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.store import Store


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Store]:
    """A new store."""
    made = store.open_for_writing(tmp_path / "data", "main", Clock())
    yield made
    made.close()


def pragmas(connection: apsw.Connection) -> dict[str, object]:
    names = (
        "journal_mode",
        "synchronous",
        "foreign_keys",
        "secure_delete",
        "temp_store",
        "trusted_schema",
        "query_only",
    )
    return {name: connection.pragma(name) for name in names}


def test_the_store_commits_to_disk(opened: Store) -> None:
    """WAL with a sync at each commit (2 is FULL), foreign keys, deleted text overwritten, nothing spilled to temporary
    files, a busy timeout; the store's truth rests on these."""
    said = pragmas(opened.connection)
    assert said == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "secure_delete": 1,
        "temp_store": 2,
        "trusted_schema": 0,
        "query_only": 0,
    }
    assert opened.connection.pragma("busy_timeout") == limits.BUSY_TIMEOUT_MS


def test_the_index_is_derived_and_overwrites_what_it_deletes(tmp_path: Path) -> None:
    """A commit there need not be on disk (1 is NORMAL): the change log brings it back."""
    path = tmp_path / "index-000001.sqlite"
    connections.create_index(path, None).close()
    connection = connections.open_index(path)
    said = pragmas(connection)
    assert (said["journal_mode"], said["synchronous"], said["secure_delete"]) == ("wal", 1, 1)
    connection.close()


def test_vectors_are_filed_on_disk(tmp_path: Path) -> None:
    """What was paid for is synced at each commit, though the index is derived."""
    path = tmp_path / "index-000001.sqlite"
    connections.create_index(path, None).close()
    connection = vector_filing.open_for_filing(path)
    assert (connection.pragma("journal_mode"), connection.pragma("synchronous")) == ("wal", 2)
    connection.close()


def test_readers_cannot_write(opened: Store) -> None:
    """Not by a statement, not by a temporary table, not by turning the pragma off: the file is opened for reading."""
    with pytest.raises(errors.StoreReadOnly), opened.readers.borrow() as reader:
        reader.execute("INSERT INTO store_info VALUES ('a', 'b')").fetchall()
    with pytest.raises(errors.StoreReadOnly), opened.readers.borrow() as reader:
        reader.pragma("query_only", False)
        reader.execute("INSERT INTO store_info VALUES ('a', 'b')").fetchall()


def test_transaction_is_all_or_nothing(opened: Store) -> None:
    """Whatever ends the block with an error, nothing of it is there, and the next transaction works."""
    for problem in (RuntimeError, KeyboardInterrupt, errors.InvalidArgument):
        with pytest.raises(problem), opened.transaction() as connection:
            change_log.append(connection, "message", 1)
            raise problem("injected")
        assert change_log.newest(opened.connection) == 0
    with opened.transaction() as connection:
        change_log.append(connection, "message", 1)
    assert change_log.newest(opened.connection) == 1


def test_locked_store_is_busy_after_the_timeout(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that waits too long gets a retryable error, and its turn when the other is done."""
    other = apsw.Connection(str(opened.directory / "memory.sqlite"))
    other.execute("BEGIN IMMEDIATE").fetchall()
    opened.connection.set_busy_timeout(50)
    with pytest.raises(errors.StoreBusy) as caught, opened.transaction():
        pass
    assert caught.value.retryable
    other.close()
    with opened.transaction() as connection:
        change_log.append(connection, "message", 1)


def test_changes_are_numbered_and_collapsed(opened: Store) -> None:
    """Numbers only grow, also after the newest row was deleted; of several changes to one target the last counts."""
    with opened.transaction() as connection:
        for kind, target, op in (("message", 1, "put"), ("record", 1, "put"), ("message", 1, "delete")):
            change_log.append(connection, kind, target, op)  # type: ignore[arg-type]
    changes = change_log.since(opened.connection, 0, 100)
    assert [(c.seq, c.kind, c.op) for c in change_log.collapsed(changes)] == [
        (2, "record", "put"),
        (3, "message", "delete"),
    ]
    assert [c.seq for c in change_log.since(opened.connection, 1, 1)] == [2]
    with opened.transaction() as connection:
        connection.execute("DELETE FROM change_log").fetchall()
        change_log.append(connection, "message", 2)
    assert change_log.newest(opened.connection) == 4


def test_user_text_cannot_become_sql(opened: Store) -> None:
    """A misspelt column is an error and not a string, so that no defect can compare a column with its own name."""
    with pytest.raises(apsw.SQLError):
        opened.connection.execute('SELECT "no_such_column" FROM sessions').fetchall()
