"""``memory-sqlite export``: take everything along, in one file that people and programs can read."""

from __future__ import annotations

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite export memory.jsonl
memory-sqlite export --agent ann ann.jsonl.gz
memory-sqlite import memory.jsonl --agent copy
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("path", type=click.Path())
@click.option("--force", is_flag=True, help="Write over a file of that name.")
@stated
def command(state: State, path: str, force: bool) -> None:
    """Write everything that was said and remembered to the file PATH, as JSONL (gzip where it ends in .gz).

    One line a row, with what was superseded, pinned and forgotten, and a checksum at the end. Only you may read the
    file. Notes are files already, and the search index is made anew: neither is in it.
    """
    output = state.output
    with Bars(output) as progress, state.open(read_only=True) as memory:
        report = memory.export(path, overwrite=force, progress=progress)
    output.document({"ok": True, **to_json(report)})
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    counts = report.counts
    output.line(
        f"Exported {counted(counts['session'], 'session')}, {counted(counts['turn'], 'turn')},"
        f" {counted(counts['message'], 'message')} and {counted(counts['record'], 'record')}"
        f" to {one_line(path)} ({report.bytes:,} bytes)."
    )
