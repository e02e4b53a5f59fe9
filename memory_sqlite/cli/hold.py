"""``memory-sqlite hold``: keep a session whatever its age, end that, and list what is kept."""

from __future__ import annotations

from typing import Final, Literal

import click

from memory_sqlite.cli.options import TEXT, Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.clock import iso
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite hold friday --reason "case 2026-114"
memory-sqlite hold planning --pin
memory-sqlite hold
memory-sqlite hold friday --release
"""
_SAID: Final = {
    "held": "is kept from now on",
    "kept": "was kept already",
    "released": "is not kept any more",
    "free": "was not kept",
}


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("session", required=False, type=TEXT)
@click.option("--pin", is_flag=True, help="Keep it from retention only; it can still be forgotten.")
@click.option("--reason", metavar="TEXT", type=TEXT, help="Why, for the list.")
@click.option("--release", is_flag=True, help="End the hold, or with --pin the pin.")
@stated
def command(state: State, session: str | None, pin: bool, reason: str | None, release: bool) -> None:
    """Keep SESSION (a key or token) until it is released; without SESSION, list what is kept.

    A legal hold, which is what this places, keeps a session from retention and from being forgotten: `forget` refuses
    whatever would take something of it. A pin (--pin) only keeps it from retention.
    """
    output = state.output
    if session is None:
        if pin or release or reason is not None:
            raise click.UsageError("name the SESSION to hold or release.")
        with state.open(read_only=True) as memory:
            found = memory.holds()
        output.document({"ok": True, "holds": [{**to_json(one), "at": iso(one.at)} for one in found]})
        for one in found:
            why = f": {one_line(one.reason)}" if one.reason is not None else ""
            output.line(f"{one_line(one.session)}  {one.kind}  since {iso(one.at)[:10]}{why}")
        if not found:
            output.line("No session is held or pinned.")
        return
    if release and reason is not None:
        raise click.UsageError("--reason belongs to a new hold, not to its end.")
    kind: Literal["legal", "pin"] = "pin" if pin else "legal"
    with state.open() as memory:
        report = memory.release(session, kind=kind) if release else memory.hold(session, kind=kind, reason=reason)
    output.document({"ok": True, **to_json(report)})
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
        return
    output.line(f"{one_line(report.session)} {_SAID[report.status]} ({report.kind}).")
