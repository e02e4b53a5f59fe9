"""``memory-sqlite get``: read what a hit, a citation or a path names."""

from __future__ import annotations

import click

from memory_sqlite.cli.options import TEXT, Command, State, stated
from memory_sqlite.cli.output import one_line, plain
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite get memory/people.md
memory-sqlite get memory/people.md --from 21 --lines 20
memory-sqlite get "$(memory-sqlite search router --json | jq -r '.hits[0].reference')"
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("reference", type=TEXT)
@click.option("--from", "from_line", type=click.IntRange(min=1), default=1, show_default=True, help="First line.")
@click.option("--lines", type=click.IntRange(min=1), help="How many lines (at most the setting max_read_lines).")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Characters of the first line to leave out.")
@click.option("--session", metavar="KEY", type=TEXT, help="Ask as this session: only what it may see.")
@stated
def command(state: State, reference: str, from_line: int, lines: int | None, offset: int, session: str | None) -> None:
    """Read a note, a record or a stretch of a transcript.

    REFERENCE is what a hit carries as `reference`, or a path such as memory/people.md. A reference that names nothing
    is an answer ("not_found", exit code 0); one that this session may not read is an error.
    """
    with state.open(read_only=True) as memory:
        passage = memory.get(reference, session=session, from_line=from_line, lines=lines, offset=offset)
    output = state.output
    output.document({"ok": True, **to_json(passage)})
    if passage.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
    elif passage.status == "not_found":
        output.note(f"Nothing is known as {one_line(reference)}.")
    elif passage.lines == 0:
        output.note(f"It has no line {passage.from_line}.")
    else:
        output.line(plain(passage.text).removesuffix("\n"))
        if passage.truncated and passage.next_from is not None:
            rest = f" --offset {passage.next_offset}" if passage.next_offset else ""
            output.note(f"There is more: --from {passage.next_from}{rest}")
