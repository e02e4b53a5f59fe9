"""``memory-sqlite sessions``: the sessions this memory knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import columns, one_line
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite sessions
memory-sqlite sessions --limit 10 --json
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most sessions.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out this many of the newest.")
@stated
def command(state: State, limit: int, offset: int) -> None:
    """List the sessions of this agent, the most recently active first: what each is and how much was said."""
    with state.open(read_only=True) as memory:
        found = to_json(memory.sessions(limit=limit, offset=offset))
    output = state.output
    output.document({"ok": True, "count": len(found), "sessions": found})
    if not state.settings.enabled:
        output.note("Memory is disabled (enabled = false).")
    elif not found:
        output.line("No sessions yet.")
    for line in columns([_cells(session) for session in found]):
        output.line(line)
    if len(found) == limit:
        output.note(f"There may be more: --offset {offset + limit}")


def _cells(session: Mapping[str, Any]) -> list[str]:
    """``friday  direct, owner  12 turns, 24 messages  2026-05-18 08:02Z to 2026-05-22 07:58Z``, cell by cell."""
    nature = [session["chat_type"]]
    if session["kind"] not in ("interactive", "unknown"):
        nature.append(session["kind"])
    if session["sender_is_owner"]:
        nature.append("owner")
    said = f"{counted(session['turns'], 'turn')}, {counted(session['messages'], 'message')}"
    times = " to ".join(f"{session[name][:16].replace('T', ' ')}Z" for name in ("started_at", "active_at"))
    project = f"project {one_line(session['project'], 60)}" if session["project"] else ""
    return [one_line(session["session"], 80), ", ".join(nature), said, times, project]
