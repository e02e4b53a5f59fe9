"""``memory-sqlite backup``: a copy that can be put back, made while others write."""

from __future__ import annotations

from pathlib import Path

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite backup /mnt/disk/memory-2026-07-15
memory-sqlite backup --agent ann ann-backup
memory-sqlite verify ann-backup
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("path", type=click.Path())
@stated
def command(state: State, path: str) -> None:
    """Write a backup of every agent (of one with --agent) to the new directory PATH.

    It holds the stores, session.key and, when encrypted, keyring.json; stores are encrypted as they are here, and the
    key you configured is not in it: keep that elsewhere. Others may write meanwhile. Every copy is checked before PATH
    gets its name; only you may read it. Notes are files already, and the search index is made anew by the first open.
    """
    output, settings = state.output, state.settings
    from memory_sqlite.backup import making
    from memory_sqlite.clock import Clock

    target = Path(path).expanduser().absolute()
    agent = state.given.get("agent")
    with Bars(output) as progress:
        agents = [settings.agent] if agent is not None else None
        report = making.make(settings, target, Clock(), progress, agents=agents)
    output.document({"ok": True, **to_json(report)})
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    output.line(
        f"Backed up {counted(len(report.agents), 'agent')} to {one_line(path)}"
        f" ({report.bytes:,} bytes{', encrypted' if report.encrypted else ''})."
    )
    for key_id in report.key_ids:
        output.line(f"It needs the key {one_line(key_id)}, which is not in it.")
    for problem in report.problems:
        output.note(f"left out {one_line(problem)}")
