"""``memory-sqlite index``: bring the search index up to date."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace

import click

from memory_sqlite.cli import reports, vectors
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite --workspace ~/notes index
memory-sqlite index --full
memory-sqlite index --yes
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--full", "--force", "full", is_flag=True, help="Build a new index beside the current one, publish it.")
@click.option("--yes", is_flag=True, help="Send any amount of text to an embedding provider that charges.")
@stated
def command(state: State, full: bool, yes: bool) -> None:
    """Read new and changed notes and whatever the store has gained, and make it searchable.

    Interrupting it loses nothing: the next run goes on. The index is derived: deleting it costs time, not memory.
    Vectors follow, where an embedding provider is set. Before much text goes to one that charges, a terminal is asked;
    a script must say --yes.
    """
    output = state.output
    with ExitStack() as open_now:
        with Bars(output) as progress:
            memory = open_now.enter_context(state.open(progress=progress))
            report = memory.index(full=full, spend=yes, progress=progress)
        if vectors.may_be_sent(report.vectors, asks=not output.json and _is_terminal()):
            with Bars(output) as progress:
                report = replace(report, vectors=memory.index(spend=True, progress=progress).vectors)
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
    vectors.told(output, report.vectors)
    reports.problems(output, report.problems)


def _is_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
