"""``memory-sqlite index``: bring the search index up to date."""

from __future__ import annotations

import click

from memory_sqlite.cli import reports
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite --workspace ~/notes index
memory-sqlite index --full
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--full", "--force", "full", is_flag=True, help="Build a new index beside the current one, publish it.")
@stated
def command(state: State, full: bool) -> None:
    """Read new and changed notes and whatever the store has gained, and make it searchable.

    Interrupting it loses nothing: the next run goes on. The index is derived: deleting it costs time, not memory.
    """
    with Bars(state.output) as progress, state.open(progress=progress) as memory:
        report = memory.index(full=full, progress=progress)
    output = state.output
    output.document({"ok": True, **to_json(report)})
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    if full:
        held = f"{counted(report.chunks, 'passage')}, with those of {counted(report.added, 'note')}"
        output.line(f"Built index {report.generation} in {report.seconds:.1f} s: {held}.")
    else:
        notes = f"notes: {report.added} added, {report.changed} changed, {report.removed} removed"
        written = f"{counted(report.chunks, 'passage')} written"
        output.line(f"Indexed in {report.seconds:.1f} s: {notes}, {report.unchanged} unchanged; {written}.")
    reports.problems(output, report.problems)
