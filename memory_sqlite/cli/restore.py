"""``memory-sqlite restore``: put a backup back, into an empty place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.clock import iso
from memory_sqlite.model import to_json

if TYPE_CHECKING:
    from memory_sqlite.backup.reports import RestoreReport

_EXAMPLES = """
memory-sqlite restore /mnt/disk/memory-2026-07-15 --data-dir ~/memory-restored
memory-sqlite restore backup --data-dir new --tombstones-from ~/memory-broken
memory-sqlite restore backup --data-dir new --agent ann
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("backup", type=click.Path())
@click.option(
    "--tombstones-from", "places", metavar="DIR", multiple=True, type=click.Path(),
    help="The data directory that was there before, or a later backup: what it has forgotten is forgotten again.",
)  # fmt: skip
@click.option("--revive", is_flag=True, help="Bring back also what was forgotten since the backup was made.")
@stated
def command(state: State, backup: str, places: tuple[str, ...], revive: bool) -> None:
    """Make the data directory anew from BACKUP; what is at its place already is never touched.

    --data-dir must name a place that is empty or not there yet; then the data directory that is configured otherwise is
    looked into for what was forgotten since, as are those that --tombstones-from names. Everything is checked before
    the directory gets its name. The search index is built by the first command; retention waits for the next prune.
    """
    output, settings = state.output, state.settings
    from memory_sqlite import config
    from memory_sqlite.backup import restoring
    from memory_sqlite.clock import Clock
    from memory_sqlite.storage import store as stores

    target = settings.data_dir
    looked = [Path(place).expanduser().absolute() for place in places]
    usual = config.load(file=state.given.get("config"), arguments={})[0].data_dir
    if usual not in (target, *looked) and stores.agents(usual):
        looked.append(usual)
    source = Path(backup).expanduser().absolute()
    agents = [settings.agent] if state.given.get("agent") is not None else None
    with Bars(output) as progress:
        report = restoring.restore(
            source, settings, Clock(), progress, agents=agents, tombstones_from=looked, revive=revive
        )
    output.document({"ok": True, **to_json(report)})
    if report.created_at is None:
        output.note("Memory is disabled (enabled = false).")
        return
    as_of = iso(report.created_at)
    output.line(
        f"Restored {counted(len(report.agents), 'agent')} from {one_line(backup)} to {one_line(str(target))},"
        f" as of {as_of}."
    )
    _forgotten(output, report)
    for problem in report.problems:
        output.note(f"could not be looked into: {one_line(problem)}")


def _forgotten(output: Output, report: RestoreReport) -> None:
    for one in report.forgotten_again:
        if one.tombstones:
            output.line(
                f"{one_line(one.agent)}: forgot again {counted(one.turns, 'turn')} and"
                f" {counted(one.records, 'record')} ({counted(one.tombstones, 'tombstone')})."
            )
    for back in report.came_back:
        output.note(
            f"{one_line(back.agent)}: came back: {one_line(back.session)}, {counted(back.turns, 'turn')},"
            f" {counted(back.records, 'record')}."
        )
    if report.came_back_more:
        output.note(f"and {counted(report.came_back_more, 'session')} more.")
    for agent, at in report.unknown_since.items():
        output.note(
            f"{one_line(agent)}: what was forgotten after {iso(at)} has come back; no directory says what that is."
        )
