"""What a query may read and do, and what it may not, asked of a real store and its index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.clock import FixedClock
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.query import opening, views
from memory_sqlite.query.permitted import Permitted
from memory_sqlite.query.reading import Reading
from memory_sqlite.query.running import Asked, run
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate

from .query_kit import Answer


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a turn, a fact that superseded another, a forgotten session and a note."""
    place = tmp_path_factory.mktemp("permitted")
    (place / "notes" / "memory").mkdir(parents=True)
    (place / "notes" / "memory" / "a.md").write_text("# Harbour\n\nThe granite pier is closed.\n")
    with Memory.open(place / "data", workspace=place / "notes", clock=FixedClock()) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "My favourite tea is oolong."}], run_id="1")
        memory.remember(session="s", messages=[{"role": "user", "content": "My favourite tea is sencha."}], run_id="2")
        memory.remember(session="gone", messages=[{"role": "user", "content": "I was never here."}])
        memory.forget(sessions=["gone"])
        memory.index()
    yield paths.agent_directory(place / "data", "main") / paths.STORE_FILE


def test_every_view_answers(store: Path) -> None:
    """Superseded facts are records and not facts; what was forgotten is only counted; notes and chunks are there."""
    count = {name: Answer(f"SELECT * FROM {name}", store=store) for name in views.statements(with_index=True)}
    assert [row[0] for row in count["sessions"].rows] == ["s"]
    assert len(count["messages"].rows) == 2
    facts = Answer("SELECT content, time, time_ms FROM facts", store=store).rows
    assert [row[0] for row in facts] == ["My favourite tea is sencha"]
    assert facts[0][1].startswith("2026-07-15T") and facts[0][1].endswith("Z")
    old = Answer("SELECT r.status, n.content FROM records r JOIN records n ON n.id = r.superseded_by", store=store)
    assert old.rows == [("superseded", "My favourite tea is sencha")]
    assert ("message",) in Answer("SELECT kind FROM forgotten", store=store).rows
    assert Answer("SELECT path, title FROM notes", store=store).rows == [("memory/a.md", "Harbour")]
    assert Answer("SELECT count(*) FROM chunks WHERE text LIKE '%granite%'", store=store).rows == [(1,)]
    assert not any("never here" in str(answer.rows) for answer in count.values())


REFUSED = [
    "SELECT * FROM store_info",
    "SELECT value FROM main.store_info",
    "SELECT count(*) FROM main.store_info",
    "WITH messages AS (SELECT value FROM main.store_info) SELECT * FROM messages",
    "WITH facts AS MATERIALIZED (SELECT key FROM main.store_info) SELECT f.key FROM facts f, facts g",
    "SELECT value FROM store_info",
    "SELECT subject FROM tombstones",
    "SELECT count(*) FROM documents",
    "SELECT term FROM lexical_vocabulary",
    "SELECT 1 FROM store_info NATURAL JOIN store_info AS other",
    "SELECT 1 FROM (VALUES ('x')) AS guess NATURAL JOIN store_info",
    "SELECT 1 FROM (SELECT 'x' AS key) guess NATURAL JOIN main.store_info",
    "SELECT 1 FROM (SELECT 'x' AS key) guess JOIN \"Main\" . store_info USING (key)",
    "SELECT 1 FROM (SELECT 'x' AS key) guess LEFT JOIN 'main'.store_info USING (key)",
    "SELECT 1 FROM (SELECT x'00' AS text_digest) guess JOIN main.messages USING (text_digest)",
    "SELECT 1 FROM (SELECT x'00' AS subject) guess NATURAL JOIN tombstones",
    "SELECT 1 FROM (SELECT 1 AS block) guess NATURAL JOIN search_index.lexical_data",
    "SELECT 1 FROM (SELECT 1 AS block) guess NATURAL JOIN lexical_data",
    "SELECT 1 FROM (SELECT 'x' AS name) guess NATURAL JOIN sqlite_master",
    "SELECT 1 FROM (SELECT 'x' AS name) guess NATURAL JOIN 'sqlite_schema'",
    "SELECT 1 FROM (SELECT 'x' AS name) guess NATURAL JOIN temp.[sqlite_temp_schema]",
    "SELECT 1 FROM (SELECT 'x' AS name) guess NATURAL JOIN dbstat",
    "SELECT 1 FROM (SELECT 'main' AS name) guess NATURAL JOIN pragma_database_list",
    "SELECT text_digest FROM main.messages",
    "SELECT subject FROM main.tombstones",
    "SELECT * FROM search_index.meta",
    "SELECT * FROM search_index.lexical_data",
    "SELECT * FROM search_index.lexical WHERE lexical MATCH 'granite'",
    "SELECT term FROM search_index.lexical_vocabulary",
    "SELECT vector FROM search_index.vectors",
    "SELECT sql FROM sqlite_schema",
    "SELECT sql FROM search_index.sqlite_master",
    "SELECT sql FROM sqlite_temp_schema",
    "SELECT * FROM dbstat",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('x')",
    "SELECT sqlite3mc_codec_data('raw_key')",
    "SELECT sqlite3mc_config('cipher')",
    "SELECT fts5(1)",
    "SELECT sqlite_log(1, 'x')",
    "PRAGMA journal_mode = delete",
    "PRAGMA query_only = 0",
    "PRAGMA key = 'x'",
    "PRAGMA rekey = 'x'",
    "PRAGMA database_list",
    "WITH x AS (SELECT 1) DELETE FROM main.messages",
    "WITH x AS (SELECT 1) INSERT INTO main.store_info SELECT 1, 2",
    "WITH x AS (SELECT 1) UPDATE main.messages SET text = 'y'",
    "EXPLAIN DELETE FROM main.messages",
    "EXPLAIN ATTACH 'x' AS y",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(store: Path, sql: str) -> None:
    """Whatever it is named after: tables that no view reads, the schema, functions and settings that do more than
    compute, anything that writes."""
    before = store.read_bytes()  # nobody has it open here
    with pytest.raises(errors.QueryRefused):
        Answer(sql, store=store)
    assert store.read_bytes() == before


def test_a_statement_that_writes_is_refused_by_each_fence(store: Path) -> None:
    """Behind the first word and the authorizer the connection itself cannot write, attach or load."""
    connection, permitted, has_index = opening.open_for_query(store, None)
    try:
        assert has_index
        assert connection.readonly("main") and connection.readonly(views.INDEX)
        assert connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
        for sql in (
            "INSERT INTO main.store_info VALUES ('a', 'b')",
            "CREATE TEMP TABLE t (x)",
            "DELETE FROM search_index.chunks",
        ):
            with pytest.raises(apsw.ReadOnlyError):
                connection.execute(sql)
        with pytest.raises(apsw.SQLError, match="too many attached"):
            connection.execute("ATTACH ':memory:' AS other")
        with pytest.raises(apsw.SQLError, match="not authorized"):
            connection.execute("SELECT load_extension('x')")
        permitted.set()
        with pytest.raises(apsw.AuthError):
            connection.execute("ATTACH ':memory:' AS other")
        with pytest.raises(apsw.AuthError):
            connection.execute("VACUUM INTO 'x'").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM messages",
        "SELECT count(*) FROM (SELECT 1 FROM messages)",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT count(*) FROM c",
        "SELECT e.value FROM records, json_each(keywords) e",
        "SELECT role, row_number() OVER (ORDER BY time_ms) FROM messages",
        "VALUES (1), (2)",
        "PRAGMA table_info(messages)",
        "SELECT name FROM pragma_table_info('facts')",
        "SELECT m.text FROM messages m JOIN record_turns USING (session, turn) JOIN sessions USING (session)",
        "WITH documents AS (SELECT 1 AS a), meta AS (SELECT 2 AS b) SELECT a, b AS lexical FROM documents, meta",
        "SELECT s.main, s.main FROM (SELECT 'main' AS main) s",
        "EXPLAIN QUERY PLAN SELECT text FROM messages",
        "SELECT date(time), group_concat(role) FROM messages GROUP BY 1 HAVING count(*) > 0",
    ],
)
def test_allowed(store: Path, sql: str) -> None:
    """What only reads and computes is answered."""
    assert Answer(sql, store=store).rows


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT tpye FROM messages", "no such column: tpye"),
        ("SELECT * FROM mesages", "no such table: mesages"),
        ("SELECT 'granite' 'basalt' FROM messages WHERE", "incomplete input"),
        ("SELECT ?", "parameter|fit"),
        ("SELECT :a", "parameter"),
        ("SELECT 1 LIMIT 'x'", "fit"),
        ("SELECT 1 FROM jsonl", "pattern"),
        ("SELECT 1 FROM transcript", "pattern"),
        (f"SELECT {'+'.join(['1'] * 500)}", "SQLite|Expression"),
        (f"SELECT {','.join(['1'] * 600)}", "too many"),
        (" UNION ALL ".join(["SELECT 1"] * 60), "too many"),
    ],
)
def test_invalid(store: Path, sql: str, message: str) -> None:
    """Said in words that name columns and quote no value."""
    with pytest.raises(errors.QueryInvalid, match=message) as said:
        Answer(sql, {} if ":a" in sql else (), store=store)
    assert "granite" not in said.value.message


@pytest.mark.parametrize("sql", ["SELECT CAST(x'ff' AS TEXT)", "SELECT char(55296)", "SELECT unistr('\\ud800')"])
def test_a_text_that_is_none(store: Path, sql: str) -> None:
    """SQLite makes it of bytes; the store is not to blame."""
    with pytest.raises(errors.QueryInvalid, match="not Unicode"):
        Answer(sql, store=store)


def test_a_module_without_a_table_cannot_be_called(store: Path) -> None:
    """Those that SQLite has built in, also the one that reads memory at an address."""
    for sql in ("SELECT count(*) FROM carray(1, 1)", "SELECT 1 FROM (SELECT 1 AS value) NATURAL JOIN carray(1, 1)"):
        with pytest.raises(errors.QueryInvalid):
            Answer(sql, store=store)


def test_without_a_store_the_hint_says_so() -> None:
    with pytest.raises(errors.QueryInvalid) as said:
        Answer("SELECT * FROM messages")
    assert "no memory here" in str(said.value.hint)


def test_without_an_index_notes_are_empty_and_it_is_said(tmp_path: Path) -> None:
    """The views are there with the same columns."""
    with Memory.open(tmp_path / "data") as memory:
        directory = paths.agent_directory(tmp_path / "data", memory.agent)
    for file in directory.glob("index-*"):
        file.unlink()
    answer = Answer(
        "SELECT (SELECT count(*) FROM notes), (SELECT count(text) FROM chunks)", store=directory / "memory.sqlite"
    )
    assert answer.rows == [(0, 0)]
    assert any("no search index" in said for said in answer.summary.remarks)
    names = [Answer(f"SELECT * FROM {view}", store=directory / "memory.sqlite").columns for view in views.INDEX_VIEWS]
    assert names[0][0] == "path" and "tokens" in names[1]


def test_an_encrypted_store(tmp_path: Path) -> None:
    """With its key it answers; without, it is an error of its own kind, not a query's."""
    key = FileKey("aegis", bytes(range(32)), "k")
    path = tmp_path / "memory.sqlite"
    path.touch()
    connection = connections.open_store(path, key)
    migrate.migrate(connection)
    connection.close()
    names: list[tuple[str, ...]] = []
    rows: list[tuple[object, ...]] = []
    reading = Reading(60.0, lambda _done: None, redact=True)
    asked = Asked("SELECT count(*) FROM messages", (), 9, None)
    run(asked, path, key, reading, names.append, lambda batch, _size: rows.extend(batch))
    assert rows == [(0,)]
    with pytest.raises(errors.MemorySqliteError) as said:
        run(asked, path, None, reading, names.append, lambda batch, _size: None)
    assert not isinstance(said.value, errors.QueryInvalid)


def test_the_list_of_columns_is_what_the_views_read() -> None:
    """Nothing is on it that could be read before a view was allowed."""
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE TABLE a (x, y); CREATE TABLE b (z); CREATE TEMP VIEW v AS SELECT x FROM main.a"
    ).fetchall()
    permitted = Permitted(connection)
    permitted.allow_views(("v",))
    permitted.set()
    assert connection.execute("SELECT count(*), max(x) FROM v").fetchall() == [(0, None)]
    for sql in (
        "SELECT y FROM a",
        "SELECT z FROM b",
        "SELECT count(*) FROM b",
        "WITH v AS (SELECT y FROM a) SELECT * FROM v",
    ):
        with pytest.raises(apsw.AuthError):
            connection.execute(sql)
    connection.close()
