"""``memory-sqlite reset``: drop every derived file and build the search index anew."""

from __future__ import annotations

import sys

import click

from memory_sqlite.cli import reports
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite reset
memory-sqlite --agent main reset --yes --json
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--yes", is_flag=True, help="Do not ask.")
@stated
def command(state: State, yes: bool) -> None:
    """Drop every search index of this agent and build one from the store and the notes, which are not touched.

    For a damaged index, or to have the room of old ones back first; `index --full` does it without a gap. On a terminal
    it asks first; a script must say --yes. An index that another process reads stays until it is closed.
    """
    output = state.output
    state.open(read_only=True).close()  # a mistyped agent is an error, not a new one
    if not yes and state.settings.enabled:
        if output.json or not _is_terminal():
            raise click.UsageError("nobody can be asked: add --yes to drop the search index and build it anew")
        click.confirm("Drop the search index and build it anew?", abort=True, err=True)
    with Bars(output) as progress, state.open(progress=progress) as memory:
        report = memory.reset(progress=progress)
    output.document({"ok": True, **to_json(report)})
    if report.index is None:
        output.note("Memory is disabled (enabled = false).")
        return
    built = f"built index {report.index.generation} in {report.index.seconds:.1f} s"
    output.line(f"Dropped {counted(len(report.dropped), 'index file')}; {built}.")
    for number in report.held:
        output.note(f"Search index {number} is still open somewhere; it goes when it is closed.")
    reports.problems(output, report.index.problems)


def _is_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
