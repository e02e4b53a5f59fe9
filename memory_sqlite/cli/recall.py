"""``memory-sqlite recall``: the block that a host would put before a prompt."""

from __future__ import annotations

import click

from memory_sqlite.cli.options import TEXT, Command, State, query_text, stated
from memory_sqlite.cli.output import plain
from memory_sqlite.cli.search_options import zone_option
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite recall "what do I like to drink?"
memory-sqlite recall --session agent:main:main --json "which router did we choose?"
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("query", nargs=-1, required=True, type=TEXT)
@click.option("--session", metavar="KEY", type=TEXT, help="Ask as this session: only what it may see.")
@zone_option
@stated
def command(state: State, query: tuple[str, ...], session: str | None, zone: str | None) -> None:
    """Show what would be recalled for QUERY: facts, episodes and notes, framed as untrusted history.

    The block is bounded in hits, characters and time, and empty when nothing is relevant enough: one shared common word
    recalls nothing.
    """
    text = query_text(query)
    with state.open_to_ask() as memory:
        block = memory.recall(text, session=session, zone=zone)
    output = state.output
    output.document({"ok": True, **to_json(block)})
    if block.text:
        output.line(plain(block.text))
    else:
        output.note(_EMPTY[block.reason])
    for warning in block.warnings:
        output.note(f"warning: {warning}")


_EMPTY = {
    "ok": "Nothing to recall.",
    "nothing": "Nothing relevant enough to recall.",
    "timeout": "Recall missed its deadline (auto_recall_timeout_ms); nothing would be injected.",
    "error": "Recall failed; nothing would be injected.",
    "disabled": "Recall is disabled (enabled or auto_recall is false).",
    "cancelled": "Recall was cancelled; nothing would be injected.",
}
