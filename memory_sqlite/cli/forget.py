"""``memory-sqlite forget``: take something out of memory for ever."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from memory_sqlite import errors
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import TEXT, Command, State, stated
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.cli.reports import problems
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.model import (
    to_json,
)

_EXAMPLES = """
memory-sqlite forget --session friday --dry-run
memory-sqlite forget --participant alice --since 2026-05-01 --until 2026-06-01
memory-sqlite forget --reference "$(memory-sqlite search router --json | jq -r '.hits[0].reference')"
memory-sqlite forget --reference memory/people.md#L3-L5
"""
UNFINISHED_EXIT_CODE: Final = errors.StoreBusy.exit_code
"""Something is still in the way, as when a store is busy: the same call, or the next open, goes on."""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--session", "sessions", metavar="KEY", type=TEXT, multiple=True, help="Session key or token.")
@click.option("--participant", "participants", metavar="ID", type=TEXT, multiple=True, help="Who spoke: the sender.")
@click.option("--hook-source", "hook_sources", metavar="NAME", type=TEXT, multiple=True, help="Sessions of a hook.")
@click.option("--record", "records", metavar="ID", type=TEXT, multiple=True, help="Record id (L1, L2 or L3).")
@click.option(
    "--reference", "references", metavar="REF", type=TEXT, multiple=True,
    help="What a hit carries as its reference or citation; also lines of a note.",
)  # fmt: skip
@click.option("--since", metavar="TIME", type=TEXT, help="Only what was said at or after this time (ISO-8601).")
@click.option("--until", metavar="TIME", type=TEXT, help="Only what was said before this time (ISO-8601).")
@click.option("--notes", is_flag=True, help="Also take blocks that repeat the text out of the notes.")
@click.option("--keep-turns", is_flag=True, help="Forget a record only, and keep the turns that said it.")
@click.option("--dry-run", is_flag=True, help="Say exactly what would be forgotten, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@stated
def command(state: State, dry_run: bool, yes: bool, **chosen: Any) -> int:
    """Forget what is named: in the store, in every search index, and in the bytes of the files.

    Names are exact, never prefixes; options may be repeated. What is not known is reported, and is no failure. On a
    terminal the plan is shown and confirmed first. There is no way back: importing the same transcript again brings
    nothing back either, and a script must say --yes. Exit code 75 says: not finished, the next command goes on.
    """
    output = state.output
    with state.open() as memory:
        if not (dry_run or yes) and memory.settings.enabled:
            if output.json or not _is_terminal():
                raise click.UsageError("nobody can be asked: add --yes to forget for ever, or --dry-run")
            _show(output, memory.forget(dry_run=True, **chosen))
            click.confirm("Forget this for ever?", abort=True, err=True)
        report = memory.forget(dry_run=dry_run, **chosen)
    output.document({"ok": True, **to_json(report)})
    _show(output, report)
    return UNFINISHED_EXIT_CODE if report.status == "unfinished" else 0


def _is_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


_DONE: Final = {
    "planned": "Would forget",
    "forgotten": "Forgot",
    "unfinished": "Forgot, but not finished yet:",
}
_OUTCOMES: Final = {
    "planned": "would be changed",
    "removed": "lines taken out",
    "deleted": "deleted",
    "changed": "was edited meanwhile and left alone",
    "gone": "is not there any more",
    "failed": "could not be written",
}


def _show(output: Output, report: ForgetReport) -> None:
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    if report.status == "nothing":
        output.line("Nothing to forget.")
    else:
        output.line(f"{_DONE[report.status]} {_counts(report)}.")
    for note in report.notes:
        output.line(f"{one_line(note.path)}: {_OUTCOMES[note.outcome]}")
    if report.verified:
        output.line(f"Searched the files for {counted(report.searched_for, 'piece')} of it: nothing is left.")
    for held in report.generations:
        if held.held:
            rest = "; nothing of this is in it" if held.erased else ""
            output.note(f"Search index {held.number} is still open somewhere{rest}.")
    _remarks(output, report)


def _counts(report: ForgetReport) -> str:
    parts = [
        (report.sessions, "session"),
        (report.turns, "turn"),
        (report.messages, "message"),
        (report.waiting, "waiting turn"),
        (report.episodes, "episode"),
        (report.scenarios, "scenario"),
        (report.facts, "fact"),
        (len(report.notes), "note"),
    ]
    return ", ".join(counted(number, name) for number, name in parts if number) or "nothing"


def _remarks(output: Output, report: ForgetReport) -> None:
    for named in report.unresolved:
        output.note(f"Nothing is known as {one_line(named)}.")
    if report.mixed_turns:
        output.note(f"{counted(report.mixed_turns, 'turn')} in which others spoke too: a turn goes whole.")
    if report.restated:
        output.note(f"{counted(report.restated, 'fact')} kept, in the words of another turn that said the same.")
    if report.revived:
        output.note(f"{counted(report.revived, 'fact')} in force again, for what had replaced it is forgotten.")
    if report.notes_left:
        output.note(f"{counted(report.notes_left, 'block')} in notes say the same; --notes takes them out.")
    problems(output, report.problems)
    for reason in report.reasons:
        output.note(f"not finished: {reason}")
