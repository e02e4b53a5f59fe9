"""``memory-sqlite reset``: drop every derived file and build the search index anew."""

from __future__ import annotations

import sys

import click

from memory_sqlite.cli import reports, vectors
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
@click.option("--keep-vectors/--drop-vectors", default=None, help="Default: keep them if some were paid for.")
@stated
def command(state: State, yes: bool, keep_vectors: bool | None) -> None:
    """Drop every search index of this agent and build one from the store and the notes, which are not touched.

    For a damaged index, or to have the room of old ones back first; `index --full` does it without a gap. On a terminal
    it asks first; a script must say --yes. An index that another process reads stays until it is closed.
    Vectors of texts that have not changed can be kept; those of a damaged index cannot.
    """
    output = state.output
    with state.open(read_only=True) as memory:  # a mistyped agent is an error, not a new one
        drops = keep_vectors is False and state.settings.enabled
        paid = vectors.paid(memory.status()["vectors"]) if drops else 0
    if paid:
        output.note(f"{counted(paid, 'vector')} that cost money would be dropped and have to be paid for again.")
    if not yes and state.settings.enabled:
        if output.json or not _is_terminal():
            raise click.UsageError("nobody can be asked: add --yes to drop the search index and build it anew")
        click.confirm("Drop the search index and build it anew?", abort=True, err=True)
    with Bars(output) as progress, state.open(progress=progress) as memory:
        report = memory.reset(keep_vectors=keep_vectors, progress=progress)
    output.document({"ok": True, **to_json(report)})
    if report.index is None:
        output.note("Memory is disabled (enabled = false).")
        return
    built = f"built index {report.index.generation} in {report.index.seconds:.1f} s"
    output.line(f"Dropped {counted(len(report.dropped), 'index file')}; {built}.")
    if report.vectors_kept:
        output.line(f"Kept {counted(report.vectors_kept, 'vector')}.")
    vectors.told(output, report.index.vectors)
    for number in report.held:
        output.note(f"Search index {number} is still open somewhere; it goes when it is closed.")
    reports.problems(output, report.index.problems)


def _is_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
