"""``memory-sqlite query``: its forms, its document, its shell, and what it does where there is no memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import Memory, errors
from memory_sqlite.cli import query_output
from memory_sqlite.cli.app import root
from memory_sqlite.cli.output import Output
from memory_sqlite.cli.query_shell import Shell, completions, is_complete
from memory_sqlite.query.result import QueryResult

DOCUMENT = [
    "ok", "columns", "rows", "row_count", "truncated", "plan", "warnings", "files", "bytes_read", "seconds", "disabled",
]  # fmt: skip
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202eback \x9b2J |pipe <b> \nline"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without a memory yet."""
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, ["query", *words], input=stdin)


def test_files_without_a_memory(place: Path) -> None:
    """JSONL files need none, and none is made; a view is an error that says so."""
    (place / "x.jsonl").write_text('{"n":1}\n{"n":2}\n')
    assert call("SELECT sum(n) AS s FROM jsonl('x.jsonl')", "-f", "jsonl").stdout == '{"s":3}\n'
    missing = call("SELECT * FROM sessions")
    assert missing.exit_code == errors.QueryInvalid.exit_code
    assert "There is no memory here" in missing.stderr
    assert not (place / "data").exists()


def test_the_document(place: Path) -> None:
    """Its fields are frozen; bytes and infinities have a form in JSON."""
    document = json.loads(call("SELECT 1 AS a, x'00' AS b, 9e999 AS c, -9e999 AS d, NULL AS e", "--json").stdout)
    assert list(document) == DOCUMENT
    assert document["columns"] == ["a", "b", "c", "d", "e"]
    assert document["rows"] == [[1, {"base64": "AA=="}, "Infinity", "-Infinity", None]]
    assert (document["row_count"], document["truncated"], document["plan"]) == (1, False, [])
    failed = call("SELECT nothing", "--json")
    assert json.loads(failed.stdout)["error"]["code"] == "query_invalid"
    plan = json.loads(call("SELECT 1", "--explain", "--json").stdout)
    assert plan["plan"] and plan["rows"] == []


def test_forms(place: Path) -> None:
    """Each says the same rows; hostile text reaches no terminal and breaks no form."""
    sql = "SELECT :h AS text, 2 AS text, NULL AS n UNION ALL SELECT 'b', 3, 1.5"
    given = ("-p", f"h={HOSTILE}")
    table, as_json, lines, as_csv, markdown = (call(sql, *given, "-f", form).stdout for form in query_output.FORMATS)
    assert json.loads(as_json) == [
        {"text": HOSTILE, "text_2": 2, "n": None}, {"text": "b", "text_2": 3, "n": 1.5},
    ]  # fmt: skip
    assert [json.loads(line) for line in lines.splitlines()] == json.loads(as_json)
    assert list(csv.reader(io.StringIO(as_csv))) == [["text", "text", "n"], [HOSTILE, "2", ""], ["b", "3", "1.5"]]
    assert "(2 rows)" in table
    for shown in (table, as_json, lines, markdown):
        assert not set(shown) & set("\x1b\x9b\x07\u202e")
    assert markdown.splitlines()[0] == "| text | text | n |"
    assert len(markdown.splitlines()) == 4
    assert "\\|pipe &lt;b>" in markdown


def test_markdown_shows_text_as_it_is(place: Path) -> None:
    """No link, image, markup or entity of a stored text is one in the page: an image would be fetched."""
    shown = call('SELECT :t AS "a_b"', "-p", "t=![x](//e.x/?q) `c` *b* _i_ ~s~ &lt; \\|", "-f", "markdown").stdout
    assert shown.splitlines()[0] == r"| a\_b |"
    assert shown.splitlines()[2] == r"| !\[x\](//e.x/?q) \`c\` \*b\* \_i\_ \~s\~ &amp;lt; \\\| |"


def test_csv_on_a_terminal_is_cleaned(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In a file it is exact."""
    take = query_output.streamed("csv", Output(json=False))
    assert take is not None
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    take(("a",), [(HOSTILE,)])
    assert not set(capsys.readouterr().out) & set("\x1b\x9b\x07\u202e")


def test_the_table_of_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Drawn by rich, which takes nothing of the text for markup."""
    monkeypatch.setattr(Output, "styled", property(lambda _self: True))
    rows = (("[red]granite[/red]", 12), (HOSTILE, None))
    query_output.whole("table", QueryResult(("text", "n"), rows, 2), Output(json=False))
    shown = capsys.readouterr().out
    assert "[red]granite[/red]" in shown and "NULL" in shown and "(2 rows)" in shown
    assert "\x9b" not in shown and "\x1b]0" not in shown


def test_heads_without_rows(place: Path) -> None:
    for form, head in (("table", "a  b"), ("csv", "a,b"), ("markdown", "| a | b |"), ("json", "[]")):
        assert call("SELECT 1 AS a, 2 AS b WHERE 0", "-f", form).stdout.startswith(head), form
    assert call("SELECT 1 WHERE 0", "-f", "jsonl").stdout == ""


def test_limits_of_the_command_line(place: Path) -> None:
    """Rows left out are a note on the error stream; a query out of time is an error."""
    sql = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    some = call(sql, "--limit", "3", "-f", "csv")
    assert (some.exit_code, some.stdout) == (0, "x\n1\n2\n3\n")
    assert "--limit" in some.stderr
    late = call(f"SELECT count(*) FROM ({sql})", "--timeout", "0.1")
    assert late.exit_code == errors.QueryLimit.exit_code
    assert "--timeout" in late.stderr
    assert call("SELECT 1", "--memory", "1").exit_code == 2
    assert call("SELECT 1", "-p", "no-name").exit_code == 2


def test_sql_from_standard_input(place: Path) -> None:
    """With ``-``, and without SQL where there is no terminal."""
    for words in (["-"], []):
        assert call(*words, "-f", "jsonl", stdin="SELECT 5 AS five;\n").stdout == '{"five":5}\n'
    assert call(stdin="").exit_code == errors.QueryInvalid.exit_code


def test_explain(place: Path) -> None:
    (place / "x.jsonl").write_text('{"level":"error"}\n')
    shown = call("SELECT line FROM jsonl('x.jsonl') WHERE level = 'error'", "--explain").stdout
    assert "SCAN jsonl" in shown and "skipped before they are parsed" in shown


def test_a_disabled_memory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQLITE_ENABLED", "false")
    assert json.loads(call("SELECT 1", "--json").stdout)["disabled"] is True
    assert "disabled" in call("SELECT 1").stderr


# --- the shell -----------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(memory: Memory, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[str, str]]]:
    """A shell over a memory, fed with lines; gives what it printed and complained."""

    def run(*lines: str | type[BaseException]) -> tuple[str, str]:
        waiting = list(lines)

        def read(_prompt: str) -> str:
            if not waiting:
                raise EOFError
            line = waiting.pop(0)
            if isinstance(line, str):
                return line
            raise line

        def ask(sql: str, explain: bool) -> None:
            take = None if explain else query_output.streamed(made.form, output)
            result = memory.query(sql, explain=explain, on_rows=take)
            if explain:
                output.line(result.plan[0])
            else:
                query_output.whole(made.form, result, output)

        output = Output(json=False)
        made = Shell(ask, lambda: {"messages": ["role", "text"]}, output, read)
        made.run()
        printed = capsys.readouterr()
        return printed.out, printed.err

    yield run


def test_statements_over_several_lines(shell: Callable[..., tuple[str, str]]) -> None:
    """A semicolon in quotes ends nothing; Ctrl-C drops what was begun."""
    out, err = shell("SELECT 'a;", "b' AS ab", ";", "SELECT nonsense", KeyboardInterrupt, "SELECT 7 AS seven;")
    assert "a; b" in out and "seven" in out and err == ""


def test_what_fails_is_said_and_the_shell_goes_on(shell: Callable[..., tuple[str, str]]) -> None:
    out, err = shell("ATTACH 'x' AS y;", "SELECT nope;", "PRAGMA journal_mode;", "SELECT 8 AS eight;")
    assert "only reads" in err and "no such column: nope" in err and "PRAGMA" in err
    assert "eight" in out


def test_commands_of_the_shell(shell: Callable[..., tuple[str, str]]) -> None:
    out, err = shell(".help", ".views", ".columns messages", ".format jsonl", "SELECT 9 AS nine;", ".explain SELECT 1")
    assert ".quit" in out and "role, text" in out and '{"nine":9}' in out and "SCAN" in out and err == ""
    out, err = shell(".open x", ".output x", ".shell ls", ".format odd", ".quit", "SELECT 1 AS never;")
    assert err.count("not known like this") == 4
    assert "never" not in out


def test_no_command_of_the_shell_opens_or_writes(shell: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    """Those of SQLite's own shell that do are not known."""
    before = sorted(path.name for path in tmp_path.rglob("*"))
    words = (".read x", ".save x", ".backup x", ".import x y", ".once x", ".log x", ".load x", ".system ls", ".cd x")
    _, err = shell(*words)
    assert err.count("not known like this") == len(words)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.suffix not in (".sqlite-shm", ".sqlite-wal")) == [
        name for name in before if not name.endswith(("-shm", "-wal"))
    ]


def test_completion() -> None:
    """Views, columns, words of SQL; the shell's own commands after a dot."""
    names = {"messages": ["message_id", "text"]}
    assert completions("mess", names) == ["messages", "message_id"]
    assert "SELECT" in completions("sel", names)
    assert completions(".f", names) == [".format"]
    assert "jsonl('" in completions("js", names)
    assert [is_complete(text) for text in ("SELECT 1;", "SELECT 1", "SELECT ';'", "-- ;", "SELECT 1; -- x")] == [
        True, False, False, False, True,
    ]  # fmt: skip


def test_names_for_completion_come_from_the_memory(memory: Memory) -> None:
    from memory_sqlite.cli.query import _names

    def run(sql: str, **more: Any) -> QueryResult:
        return memory.query(sql, **more)

    names = _names(run)
    assert "text" in names["messages"] and "tokens" in names["chunks"]
