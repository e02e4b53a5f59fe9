"""``memory-sqlite support-bundle PATH``: what somebody who helps has to know, and nothing that is remembered."""

from __future__ import annotations

from pathlib import Path

import click

from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.cli.status import size
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite support-bundle bundle.zip
memory-sqlite support-bundle --agent work bundle.zip --json
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("path", type=click.Path())
@click.option("--force", is_flag=True, help="Write over a file of that name.")
@stated
def command(state: State, path: str, force: bool) -> None:
    """Write diagnostics to the zip file PATH, for whoever helps. Works where a memory does not open.

    It holds versions, findings, counts, sizes and states. It holds nothing that was said, noted or asked, no name of a
    session, sender, note, folder or model, no key, no log. Look into it before you send it: it is plain JSON.
    """
    from memory_sqlite.clock import Clock
    from memory_sqlite.doctor import bundle

    target = Path(path).expanduser().absolute()
    with Bars(state.output) as progress:
        report = bundle.write(state.settings, Clock(), target, overwrite=force, progress=progress)
    state.output.document({"ok": True, **to_json(report)})
    state.output.line(f"{one_line(path, 400)}: {len(report.files)} files, {size(report.bytes)}")
