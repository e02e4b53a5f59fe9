"""``memory-sqlite doctor --salvage OUT``: a new data directory with what can be read of a damaged store."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from memory_sqlite.cli.options import State
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import to_json

PARTIAL_EXIT: Final = 3
_WORDS: Final = {
    "from_indexes": "put together from indexes",
    "made": "made anew, of which only what belongs to them is left",
    "refused": "refused by the rules of the table",
    "lost": "lost, and named by an index",
    "unfounded": "left out: what they belong to is lost",
    "broken": "unreadable within pages that can be read",
}


def run(state: State, out: str) -> int:
    """Salvage this agent's store; the exit code."""
    from memory_sqlite.clock import Clock
    from memory_sqlite.doctor.salvaging import salvage_agent

    target = Path(out).expanduser().absolute()
    with Bars(state.output) as progress:
        report = salvage_agent(state.settings, Clock(), target, progress)
    output = state.output
    output.document({"ok": True, **to_json(report)})
    for table, counts in report.tables.items():
        if any(counts.values()):
            output.line(f"{table}: {counts['rows']} rows")
            for name, words in _WORDS.items():
                if counts[name]:
                    output.line(f"  {counts[name]} {words}")
    output.line(
        f"pages: {report.pages}; unreadable: {report.unreadable_pages}; of no table: {report.unattributed_pages}"
    )
    if report.doubtful:
        output.line(f"messages whose text is not the one that was stored: {report.doubtful}")
    if report.session_key == "new":
        output.line("session.key was lost or is another one: session tokens are new, and old citations name nothing")
    output.line(
        f"{'everything' if report.status == 'whole' else 'what can be read'} is in {one_line(str(target), 400)}"
    )
    output.line(f"$ memory-sqlite --data-dir {shlex.quote(one_line(out, 400))} index --full")
    return 0 if report.status == "whole" else PARTIAL_EXIT
