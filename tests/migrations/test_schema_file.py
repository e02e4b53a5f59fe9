"""The schema of the store: what the numbered scripts make is what ``schema.sql`` says, and old stores still open."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.paths import agent_directory
from memory_sqlite.storage import migrate

FIXTURES = Path(__file__).parent.parent / "fixtures" / "stores"
FIXTURE_KEY = bytes(range(32))
"""``session.key`` beside which the frozen stores were made."""


def schema_of(connection: apsw.Connection) -> set[tuple[object, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'sqlite_stat1'"))


def marks_of(connection: apsw.Connection) -> tuple[object, object]:
    return connection.pragma("application_id"), connection.pragma("user_version")


def fresh() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.transaction_mode = "IMMEDIATE"
    assert migrate.migrate(connection) == migrate.latest()
    return connection


def frozen(version: int, data_dir: Path) -> Path:
    """A store of an old version, made from its dump under the key it was made with."""
    data_dir.mkdir(mode=0o700)
    (data_dir / "session.key").write_bytes(FIXTURE_KEY)
    path = agent_directory(data_dir, "main") / "memory.sqlite"
    path.parent.mkdir(parents=True)
    connection = apsw.Connection(str(path))
    connection.execute((FIXTURES / f"version_{version}.sql").read_text(encoding="utf-8")).fetchall()
    connection.close()
    return path


def test_schema_file_is_what_the_migrations_make() -> None:
    """``schema.sql`` is the file to read: applying it gives tables, indexes and marks of a new store, word by word."""
    read = apsw.Connection(":memory:")
    text = (resources.files("memory_sqlite.migrations") / "schema.sql").read_text(encoding="utf-8")
    read.execute(text).fetchall()
    made = fresh()
    assert schema_of(read) == schema_of(made)
    assert marks_of(read) == marks_of(made) == (migrate.APPLICATION_ID, migrate.latest())


def test_every_table_is_strict() -> None:
    """A column that takes any type would let a defect store what no reader expects."""
    tables = (
        fresh()
        .execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'")
        .fetchall()
    )
    assert len(tables) >= 10
    assert [name for name, strict in tables if not strict] == []


def test_every_foreign_key_has_an_index() -> None:
    """Deleting a session or turn looks each child up; without an index that is a scan for every deleted row."""
    connection = fresh()
    missing = []
    for (table,) in connection.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"):
        keys = {row[0] for row in connection.execute('SELECT "from" FROM pragma_foreign_key_list(?)', (table,))}
        leading = {
            connection.execute("SELECT name FROM pragma_index_info(?) WHERE seqno = 0", (index,)).get
            for (index,) in connection.execute("SELECT name FROM pragma_index_list(?)", (table,)).fetchall()
        }
        missing += [(table, key) for key in keys - leading]
    assert missing == []


def test_migrating_twice_does_nothing() -> None:
    """The second open of a store runs no script."""
    connection = fresh()
    assert migrate.migrate(connection) == 0


@pytest.mark.parametrize("version", range(1, migrate.latest() + 1))
def test_frozen_store_opens_and_equals_a_fresh_schema(version: int, tmp_path: Path) -> None:
    """A store as an old version left it opens: its schema becomes a fresh one's, and what it remembers is found."""
    path = frozen(version, tmp_path / "data")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        status = memory.status()
        assert (status["sessions"], status["turns"], status["messages"]) == (2, 3, 5)
        assert status["records"] == {"L1": 3, "L2": 0, "L3": 1}
        assert status["superseded"] == 1
        assert {hit.message_id for hit in memory.search("granite hall", sources=("sessions",)).hits} == {"5"}
        again = memory.remember(
            session="direct:ann", run_id="r1", messages=[{"role": "user", "content": "other words"}]
        )
        assert again.status == "duplicate"
        assert [(one.session, one.kind, one.reason) for one in memory.holds()] == (
            [("group:hall", "legal", "case 114")] if version >= 3 else []
        )
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    assert schema_of(connection) == schema_of(fresh())
    assert connection.pragma("integrity_check") == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_check_reads_one_snapshot(tmp_path: Path) -> None:
    """A process that looks at a new file while another makes the schema sees all of it or none: half of it would be
    somebody else's database."""
    path = tmp_path / "memory.sqlite"
    maker, looker = apsw.Connection(str(path)), apsw.Connection(str(path))
    maker.transaction_mode = "IMMEDIATE"
    maker.pragma("journal_mode", "wal")
    made: list[int] = []

    def in_between(cursor: object, sql: str, bindings: object) -> bool:
        if "application_id" in sql.lower() and not made:
            made.append(migrate.migrate(maker))
        return True

    looker.exec_trace = in_between
    assert migrate.check(looker) == 0
    assert made == [migrate.latest()]
    assert migrate.check(looker) == migrate.latest()
    maker.close()
    looker.close()


def test_failed_script_leaves_the_store_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """C080, first part: a script that fails half way is rolled back whole, and runs when the fault is gone."""
    connection = fresh()
    before = schema_of(connection), marks_of(connection)
    number = migrate.latest() + 1
    monkeypatch.setattr(migrate, "latest", lambda: number)
    good = "CREATE TABLE later (a INTEGER) STRICT;"
    monkeypatch.setattr(migrate, "scripts", lambda: ((number, good + "CREATE TABLE sessions (a INTEGER) STRICT;"),))
    with pytest.raises(apsw.SQLError):
        migrate.migrate(connection)
    assert (schema_of(connection), marks_of(connection)) == before
    monkeypatch.setattr(migrate, "scripts", lambda: ((number, good),))
    assert migrate.migrate(connection) == 1
    assert migrate.migrate(connection) == 0
    assert marks_of(connection)[1] == number
