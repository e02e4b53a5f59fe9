"""What is told from a statement's text: one statement, begun with a word that reads, its JSONL tables found."""

from __future__ import annotations

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.query.sql_text import JsonlTable, statement, tokens
from memory_sqlite.query.wording import complaint


@pytest.mark.parametrize(
    ("sql", "parameters", "made", "tables"),
    [
        ("SELECT 1", (), "SELECT 1", []),
        (
            "SELECT * FROM jsonl('a')",
            (),
            "SELECT * FROM \"jsonl$1\"('a') AS jsonl",
            [JsonlTable("jsonl$1", "a")],
        ),
        (
            "SELECT * FROM JSONL ( 'it''s' ) AS j JOIN jsonl('b', 'x') k WHERE 1",
            (),
            "SELECT * FROM \"jsonl$1\" ( 'it''s' ) AS j JOIN \"jsonl$2\"('b', 'x') k WHERE 1",
            [JsonlTable("jsonl$1", "it's"), JsonlTable("jsonl$2", "b", "x")],
        ),
        (
            "SELECT * FROM jsonl('a') x, jsonl('a') WHERE 1",
            (),
            "SELECT * FROM \"jsonl$1\"('a') x, \"jsonl$1\"('a') AS jsonl WHERE 1",
            [JsonlTable("jsonl$1", "a")],
        ),
        ("SELECT ?, * FROM jsonl(?)", (1, "p"), 'SELECT ?, * FROM "jsonl$1"(?) AS jsonl', [JsonlTable("jsonl$1", "p")]),
        ("SELECT * FROM jsonl(?1)", ("p",), 'SELECT * FROM "jsonl$1"(?1) AS jsonl', [JsonlTable("jsonl$1", "p")]),
        ("SELECT * FROM jsonl(:f)", {"f": "p"}, 'SELECT * FROM "jsonl$1"(:f) AS jsonl', [JsonlTable("jsonl$1", "p")]),
        (
            "SELECT ?2 FROM jsonl(?)",
            ("p", "q", "r"),
            'SELECT ?2 FROM "jsonl$1"(?) AS jsonl',
            [JsonlTable("jsonl$1", "r")],
        ),
        (
            "SELECT * FROM jsonl(?, ?)",
            ("p", "c"),
            'SELECT * FROM "jsonl$1"(?, ?) AS jsonl',
            [JsonlTable("jsonl$1", "p", "c")],
        ),
        (f"SELECT * FROM jsonl(?{'9' * 5_000})", ("p",), f"SELECT * FROM jsonl(?{'9' * 5_000})", []),
        ("SELECT 'jsonl(''a'')', \"jsonl\" -- jsonl('b')\n", (), "SELECT 'jsonl(''a'')', \"jsonl\"", []),
        ("SELECT * FROM f, jsonl(f.path)", (), "SELECT * FROM f, jsonl(f.path)", []),
        ("SELECT * FROM x.jsonl('a')", (), "SELECT * FROM x.jsonl('a')", []),
        ("SELECT jsonl, 1 ; ; ", (), "SELECT jsonl, 1", []),
    ],
)
def test_only_calls_with_a_known_pattern_become_tables(
    sql: str, parameters: object, made: str, tables: list[JsonlTable]
) -> None:
    """Names in quotes, comments and after a dot stay; a table without a name of its own is called ``jsonl``."""
    found = statement(sql, parameters)  # type: ignore[arg-type]
    assert (found.sql, list(found.tables)) == (made, tables)


@pytest.mark.parametrize("sql", ["", " ; ", "-- only this", "SELECT 1; SELECT 2", "SELECT '\0'"])
def test_what_is_not_one_statement_is_invalid(sql: str) -> None:
    with pytest.raises(errors.QueryInvalid):
        statement(sql)
    with pytest.raises(errors.QueryInvalid):
        statement("SELECT " + "1," * limits.QUERY_SQL_MAX_CHARS)


@pytest.mark.parametrize(
    "sql", ["VACUUM INTO 'x'", "attach 'x' as y", "INSERT INTO x VALUES (1)", "BEGIN", "DELETE FROM x", "REINDEX"]
)
def test_what_does_not_begin_like_a_question_is_refused(sql: str) -> None:
    """Before SQLite sees it: ``VACUUM INTO`` writes a file and asks its authorizer late."""
    with pytest.raises(errors.QueryRefused):
        statement(sql)


@pytest.mark.parametrize("sql", ["SELECT * FROM main . x", "SELECT a.b FROM 'Search_Index'.x a", "SELECT [main].x.y"])
def test_names_of_databases_are_refused(sql: str) -> None:
    """What they lead to is behind the views; as the name of a column or in a text they are only words."""
    with pytest.raises(errors.QueryRefused):
        statement(sql)
    assert statement("SELECT a.main, 'main.x' FROM search_index a").tables == ()


def test_semicolons_in_quotes_and_comments_end_nothing() -> None:
    assert statement("SELECT ';' /* ; */ AS \"a;b\" -- ;").sql == "SELECT ';' /* ; */ AS \"a;b\""
    assert statement("SELECT 'begun; and on").sql == "SELECT 'begun; and on"
    assert [token.text for token in tokens("SELECT [a;b], `c``;`")] == ["SELECT", "[a;b]", ",", "`c``;`"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no such column: tpye", "no such column: tpye"),
        ("no such table: jsonl$3", "no such table: jsonl"),
        ('near "FORM": syntax error', "near FORM: syntax error"),
        ("near \"'granite'\": syntax error", "near …: syntax error"),
        ("no such column: my granite", "SQLite does not accept the SQL"),
        ('unrecognized token: "\'granite"', "SQLite does not accept the SQL"),
        ("incomplete input", "incomplete input"),
        ("wrong number of arguments to function max()", "wrong number of arguments to function max()"),
    ],
)
def test_complaints_quote_names_and_no_values(said: str, shown: str) -> None:
    """Literals of a statement can be words of a memory: they are in no message."""
    assert complaint(said) == shown
