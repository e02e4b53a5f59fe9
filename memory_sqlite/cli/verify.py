"""``memory-sqlite verify``: prove a backup, or the stores of a data directory."""

from __future__ import annotations

from pathlib import Path

import click

from memory_sqlite import errors
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite verify /mnt/disk/memory-2026-07-15
memory-sqlite verify ~/.local/share/memory-sqlite --json
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("path", type=click.Path())
@stated
def command(state: State, path: str) -> int:
    """Prove the backup, or the data directory, at PATH: every file and every row that its manifest names.

    Nothing is changed. An encrypted one can only be proved with its key. Exit code 65 says that something is wrong;
    every problem is listed. The search index is derived and not looked at: `memory-sqlite doctor` does that.
    """
    output, settings = state.output, state.settings
    from memory_sqlite.backup import verifying
    from memory_sqlite.clock import Clock

    with Bars(output) as progress:
        report = verifying.verify(Path(path).expanduser().absolute(), settings, Clock(), progress)
    sound = report.status != "damaged"
    document = {"ok": sound, **to_json(report)}
    if not sound:
        broken = errors.BackupInvalid if report.kind == "backup" else errors.StoreDamaged
        document["error"] = {
            "code": broken.code,
            "message": report.problems[0],
            "hint": broken.default_hint,
            "retryable": broken.retryable,
        }
    output.document(document)
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return 0
    for problem in report.problems:
        output.complain(f"memory-sqlite: {one_line(problem)}")
    checked = f"{counted(len(report.agents), 'agent')}, {counted(report.files, 'file')}, {report.bytes:,} bytes"
    if not sound:
        output.line(
            f"Damaged: {counted(len(report.problems), 'problem')}. Sound are {counted(len(report.agents), 'agent')}."
        )
        return errors.BackupInvalid.exit_code
    what = "The backup is" if report.kind == "backup" else "The stores are"
    output.line(f"{what} sound: {checked}{', encrypted' if report.encrypted else ''}.")
    return 0
