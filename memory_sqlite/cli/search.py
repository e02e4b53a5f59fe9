"""``memory-sqlite search``: find notes, facts and messages."""

from __future__ import annotations

from typing import Any

import click

from memory_sqlite.cli import hits
from memory_sqlite.cli.options import TEXT, Command, State, query_text, stated
from memory_sqlite.cli.search_options import asked, search_options
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite search router VLAN
memory-sqlite search "what did Mia say about the harbour?" --source sessions -n 3
memory-sqlite search 喜欢 --layer L3 --json
memory-sqlite search --since 2026-01-01 --sort newest invoice
memory-sqlite search -- --no-verify              a query that begins with a dash
echo "a long question" | memory-sqlite search -  the query from standard input
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("query", nargs=-1, required=True, type=TEXT)
@click.option("--session", metavar="KEY", type=TEXT, help="Ask as this session: only what it may see.")
@search_options
@click.option("--explain", is_flag=True, help="Show what made up each score.")
@stated
def command(state: State, query: tuple[str, ...], **options: Any) -> None:
    """Find notes, facts and messages that match QUERY.

    All words are tried first, then as many as possible. User text is never query syntax. Each hit shows its rank, its
    score from 0 to 1, a citation that `get` understands, the time of the event and the passage around the match.
    """
    text = query_text(query)
    with state.open_to_ask() as memory:
        page = memory.search(text, **asked(options), explain=options["explain"])
    output = state.output
    output.document({"ok": True, **to_json(page)})
    hits.show(output, page.hits)
    if page.disabled:
        output.note("Memory is disabled (enabled = false).")
    elif not page.hits:
        output.line("No match.")
    if page.withheld:
        output.note(f"{hits.counted(page.withheld, 'match', 'matches')} may not be seen by this session.")
    if page.stale and not page.warnings:  # a warning says why, and what to do
        output.note("Some changed notes are not indexed yet; run `memory-sqlite index`.")
    if page.coverage == "partial":
        output.note("Not everything was searched.")
    for warning in page.warnings:
        output.note(f"warning: {warning}")
