"""``memory-sqlite prune``: delete what is older than it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from memory_sqlite.cli.forget import UNFINISHED_EXIT_CODE
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.cli.reports import SHOWN
from memory_sqlite.model import to_json

if TYPE_CHECKING:
    from memory_sqlite.retention.reports import PruneReport

_EXAMPLES = """
memory-sqlite prune --dry-run
memory-sqlite prune
MEMORY_SQLITE_RETENTION_DAYS=365 memory-sqlite prune --dry-run --json
"""
_DONE: Final = {"planned": "Would expire", "pruned": "Expired", "unfinished": "Expired, but not finished yet:"}
_CLOCK: Final = {
    "ahead": "the clock may have jumped ahead: nothing was recorded for more than 30 days before now",
    "behind": "the clock is behind: an earlier run of retention saw a later time",
}


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--dry-run", is_flag=True, help="Say exactly what would expire, and do nothing.")
@click.option("--trust-clock", is_flag=True, help="Go on although the clock may have jumped.")
@stated
def command(state: State, dry_run: bool, trust_clock: bool) -> int:
    """Delete what is older than it is kept: in the store, in every search index, and in the bytes of the files.

    How long that is say retention_days and retention_days_l0 to _l3. The age of a session counts from the later of its
    last activity and its import. Sessions that are held, pinned or have a turn under way stay; facts and notes do
    too. What expired does not come back by an import. A memory that serves a host does all this by itself, daily.
    Exit code 75 says: not finished, or nothing done because of the clock.
    """
    output = state.output
    with Bars(output) as progress, state.open(progress=progress) as memory:
        report = memory.prune(dry_run=dry_run, trust_clock=trust_clock, progress=progress)
    output.document({"ok": True, **to_json(report)})
    _show(output, report)
    return UNFINISHED_EXIT_CODE if report.status in ("unfinished", "clock") else 0


def _show(output: Output, report: PruneReport) -> None:
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    if report.clock != "ok":
        output.note(f"{_CLOCK[report.clock]}. Look at the date; --trust-clock goes on.")
    if report.status == "clock":
        output.line("Nothing was done.")
        return
    if report.status == "nothing":
        output.line("Nothing is too old." if any(days is not None for days in report.days.values()) else _for_ever())
    else:
        output.line(f"{_DONE[report.status]} {_counts(report)}.")
    for one in report.expired[:SHOWN]:
        rest = "with everything in it" if one.gone else ", ".join(one.layers)
        output.line(f"  {one_line(one.session)}: last active or imported {one.last_at[:10]}, {rest}")
    if len(report.expired) > SHOWN:
        output.note(f"… and {len(report.expired) - SHOWN} more; --json lists them.")
    _remarks(output, report)


def _for_ever() -> str:
    return "Everything is kept for ever (retention_days = none)."


def _counts(report: PruneReport) -> str:
    parts = [
        (report.sessions, "session"),
        (report.turns, "turn"),
        (report.messages, "message"),
        (report.waiting, "waiting turn"),
        (report.episodes, "episode"),
        (report.scenarios, "scenario"),
        (report.facts, "fact"),
        (report.day_files, "day file"),
    ]
    return ", ".join(counted(number, name) for number, name in parts if number) or "nothing"


def _remarks(output: Output, report: PruneReport) -> None:
    if report.facts_kept:
        output.note(f"{counted(report.facts_kept, 'fact')} stay, without the turn that said it.")
    kept = [(report.held, "held"), (report.pinned, "pinned"), (report.running, "with a turn under way")]
    for number, why in kept:
        if number:
            output.note(f"{counted(number, 'session')} as old and kept: {why}.")
    if report.old_notes:
        output.note(f"{counted(len(report.old_notes), 'dated note')} as old; notes are yours and never expire.")
    if report.verified:
        output.line(f"Searched the files for {counted(report.searched_for, 'piece')} of it: nothing is left.")
    for reason in report.reasons:
        output.note(f"not finished: {reason}")
