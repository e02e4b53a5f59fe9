"""``memory-sqlite query``: SQL over this memory and over JSONL files, for people and scripts; it only reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memory_sqlite import errors, limits
from memory_sqlite.cli import query_output
from memory_sqlite.cli.options import TEXT, Command, State, query_text, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.query_output import FORMATS

if TYPE_CHECKING:
    from memory_sqlite.query.result import QueryResult, Row

_EXAMPLES = """
memory-sqlite query "SELECT session, count(*) FROM messages GROUP BY 1 ORDER BY 2 DESC"
memory-sqlite query "SELECT content FROM facts WHERE content LIKE :word" -p word=%tea%
memory-sqlite query "SELECT file, line, type FROM jsonl('~/.claude/projects/**/*.jsonl') WHERE raw LIKE '%error%'"
memory-sqlite query "SELECT role, tool, text FROM transcript('~/.codex/sessions/**/*.jsonl')" -f jsonl --limit 100000
memory-sqlite query --explain "SELECT line FROM jsonl('log.jsonl') WHERE level = 'error'"
memory-sqlite query            a shell, with Tab for names
"""

_MIB = limits.MIB
Run = Callable[..., "QueryResult"]


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("sql", nargs=-1, type=TEXT)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE", type=TEXT, help="Value of :NAME.")
@click.option(
    "--limit", type=click.IntRange(*limits.QUERY_ROWS[:2]), default=limits.QUERY_ROWS[2], show_default=True,
    help="Rows to give; it is said when there are more.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(*limits.QUERY_TIMEOUT_S[:2]), default=limits.QUERY_TIMEOUT_S[2],
    show_default=True, help="Seconds a query may run.",
)  # fmt: skip
@click.option(
    "--memory", type=click.IntRange(limits.QUERY_MEMORY_BYTES[0] // _MIB, limits.QUERY_MEMORY_BYTES[1] // _MIB),
    default=limits.QUERY_MEMORY_BYTES[2] // _MIB, show_default=True, help="MiB that SQLite may take.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Show the plan and what is pushed down to the files; run nothing.")
@stated
def command(state: State, sql: tuple[str, ...], form: str, parameters: tuple[str, ...], **options: Any) -> None:
    """Ask in SQL: the views of this memory, JSONL files, and transcripts of OpenClaw, Claude Code and Codex.

    The views are sessions, turns, messages, records, facts, notes, chunks, recalls and a few more; docs/query.md lists
    their columns. Every query only reads, in a process of its own, within --limit, --timeout and --memory. You are the
    operator here: everything is seen, whoever said it. Without SQL this is a shell on a terminal, and reads the
    statement from standard input elsewhere; `-` always does.
    """
    values = dict(_parameter(one) for one in parameters)
    bounds = {
        "max_rows": options["limit"],
        "timeout_s": options["timeout"],
        "memory_bytes": options["memory"] * _MIB,
    }
    is_shell = not sql and not state.output.json and sys.stdin is not None and sys.stdin.isatty()
    text = "" if is_shell else query_text(sql or ("-",))
    with _asked(state) as run:
        if is_shell:
            _shell(state, run, values, bounds)
        else:
            _one(state, run, text, form, values, bounds, options["explain"])


def _one(
    state: State, run: Run, sql: str, form: str, values: dict[str, str], bounds: dict[str, Any], explain: bool
) -> None:
    output = state.output
    take = None if output.json or explain else query_output.streamed(form, output)
    result = run(sql, values or None, explain=explain, on_rows=take, **bounds)
    output.document(query_output.document(result))
    if result.disabled:
        output.note("Memory is disabled (enabled = false).")
        return
    if explain:
        for line in result.plan:
            output.line(one_line(line, 1_000) if not line.startswith(" ") else line)
    else:
        query_output.whole(form, result, output)
    if result.truncated:
        output.note("There are more rows; --limit says how many are given.")
    for warning in result.warnings:
        output.note(f"warning: {warning}")


def _shell(state: State, run: Run, values: dict[str, str], bounds: dict[str, Any]) -> None:
    from memory_sqlite.cli.query_shell import Shell, use_readline

    known: dict[str, list[str]] = {}

    def names() -> dict[str, list[str]]:
        if not known:
            known.update(_names(run))
        return known

    def ask(sql: str, explain: bool) -> None:
        _one(state, run, sql, shell.form, values, bounds, explain)

    shell = Shell(ask, names, state.output)
    use_readline(names)
    shell.run()


def _names(run: Run) -> dict[str, list[str]]:
    """Views and their columns; none where there is no memory."""
    from memory_sqlite.query.views import INDEX_VIEWS, STORE_VIEWS

    found: dict[str, list[str]] = {}
    views = [*STORE_VIEWS, *INDEX_VIEWS]
    parts = [f"SELECT '{view}', name FROM pragma_table_info('{view}')" for view in views]
    try:
        rows = run(" UNION ALL ".join(parts), max_rows=limits.QUERY_ROWS[2]).rows
    except errors.MemorySqliteError:
        rows = ()
    for view, column in rows:
        found.setdefault(str(view), []).append(str(column))
    return found


@contextmanager
def _asked(state: State) -> Iterator[Run]:
    """What answers a query: the memory, or files alone where there is none."""
    try:
        memory = state.open(read_only=True)
    except errors.UnknownAgent:
        from memory_sqlite.query.asking import Asker

        asker = Asker(None, None)
        try:
            yield _files_only(asker, state)
        finally:
            asker.close()
        return
    with memory:
        yield memory.query


def _files_only(asker: Any, state: State) -> Run:
    from memory_sqlite.query import collecting

    def run(
        sql: str,
        parameters: Any = None,
        *,
        max_rows: int,
        timeout_s: float = limits.QUERY_TIMEOUT_S[2],
        memory_bytes: int = limits.QUERY_MEMORY_BYTES[2],
        explain: bool = False,
        on_rows: Callable[[tuple[str, ...], list[Row]], None] | None = None,
    ) -> QueryResult:
        question = collecting.Question(sql, parameters, max_rows, timeout_s, memory_bytes, explain)
        return collecting.ask(asker, question, state.settings, on_rows, None, None)

    return run


def _parameter(said: str) -> tuple[str, str]:
    name, equals, value = said.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter("give it as NAME=VALUE", param_hint="--parameter")
    return name, value
