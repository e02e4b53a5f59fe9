"""Import reports and problems as lines for people. Called by index, import and quickstart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.model import Expiry, ImportReport, SourceProblem

if TYPE_CHECKING:
    from memory_sqlite.interop.jsonl_reports import ExportImportReport

SHOWN: Final = 20
"""More problems than a screen holds are in the JSON document."""


def problems(output: Output, found: Sequence[SourceProblem]) -> None:
    """Where and why something could not be read, one line each, the first few."""
    for problem in found[:SHOWN]:
        place = one_line(problem.path) + (f":{problem.line}" if problem.line is not None else "")
        output.note(f"skipped {place}: {one_line(problem.reason)}")
    if len(found) > SHOWN:
        output.note(f"… and {len(found) - SHOWN} more; --json lists them all.")


def imported(output: Output, report: ImportReport) -> None:
    """What an import did, and what it could not read."""
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    output.line(
        f"{'Would import' if report.dry_run else 'Imported'} {counted(report.turns_stored, 'turn')}"
        f" of {counted(report.sessions, 'session')} from {counted(report.files, 'file')} in {report.seconds:.1f} s"
        f" ({report.turns_known} already known,"
        f" {counted(report.messages, 'message')}, {counted(report.facts, 'fact')})."
    )
    if report.forgotten:
        output.note(f"{counted(report.forgotten, 'turn')} left out, for they were forgotten.")
    if report.unknown_sessions:
        output.note(
            f"{counted(report.unknown_sessions, 'session')} of unknown chat type: only they and you see them."
            " Are they your own direct chats? Then import with --chat-type direct --owner."
        )
    if report.unchanged:
        output.note(f"{counted(report.unchanged, 'file')} unchanged since the last import.")
    if report.shortened:
        output.note(f"{counted(report.shortened, 'message')} shortened to max_record_bytes.")
    if report.redactions:
        output.note(f"{counted(report.redactions, 'secret')} masked.")
    if report.refused:
        output.note(f"{counted(report.refused, 'line')} could not be read.")
    expiring(output, report.expires)
    problems(output, report.problems)


def expiring(output: Output, expires: Expiry | None) -> None:
    """Until when what was imported is kept, so that nobody learns it from what is missing."""
    if expires is None or not expires.sessions:
        return
    if expires.first_at is None or expires.last_at is None:
        output.note("Kept for ever (retention is off, or everything here is held).")
        return
    first, last = expires.first_at[:10], expires.last_at[:10]
    until = f"from {first} to {last}" if first != last else f"on {first}"
    facts = expires.days.get("L3")
    output.note(
        f"Conversations expire {until} if nothing more is said in them; facts"
        f" {'stay' if facts is None else f'after {facts} days'}."
        " `memory-sqlite hold SESSION --pin` keeps one; retention_days keeps all longer."
    )


def imported_export(output: Output, report: ExportImportReport) -> None:
    """What an import of an export did or would do, and what it kept away."""
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    added = report.added
    output.line(
        f"{'Would add' if report.dry_run else 'Added'} {counted(added['session'], 'session')},"
        f" {counted(added['turn'], 'turn')}, {counted(added['message'], 'message')} and"
        f" {counted(added['record'], 'record')} of agent {one_line(report.agent)} in {report.seconds:.1f} s"
        f" ({_lines(report.present)} already here)."
    )
    if any(report.updated.values()):
        output.note(f"{_lines(report.updated)} brought up to date.")
    if any(report.conflicts.values()):
        output.note(f"{_lines(report.conflicts)} differ from what is here, which was kept.")
    if any(report.forgotten.values()):
        output.note(f"{_lines(report.forgotten)} left out, for they were forgotten or have expired here.")
    if any(report.left.values()):
        output.note(
            f"{_lines(report.left)} left: what they mean depends on the other data directory's session.key"
            f" ({', '.join(kind for kind, count in report.left.items() if count)})."
        )
    if report.moved:
        output.note(f"{counted(report.moved, 'record')} moved to another line: their citations changed.")
    if report.redactions:
        output.note(f"{counted(report.redactions, 'secret')} masked.")
    expiring(output, report.expires)
    for problem in report.problems[:SHOWN]:
        place = one_line(problem.path) + (f":{problem.line}" if problem.line is not None else "")
        output.note(f"{place}: {one_line(problem.reason)}")
    if len(report.problems) > SHOWN:
        output.note(f"… and {len(report.problems) - SHOWN} more; --json lists them all.")


def _lines(counts: Mapping[str, int]) -> str:
    return counted(sum(counts.values()), "line")
