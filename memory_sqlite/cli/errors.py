"""``memory-sqlite errors``: the catalogue of error codes."""

from __future__ import annotations

import click

from memory_sqlite.cli.failures import OWN_CODES
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.errors import catalogue

_EXAMPLES = """
memory-sqlite errors
memory-sqlite errors --json
"""


@click.command(cls=Command, examples=_EXAMPLES)
@stated
def command(state: State) -> None:
    """List every error code with its exit code, whether trying again can help, and what to do."""
    rows = [
        {
            "code": code,
            "exit_code": error.exit_code,
            "retryable": error.retryable,
            "meaning": " ".join((error.__doc__ or "").split()),
            "hint": error.default_hint,
        }
        for code, error in catalogue().items()
    ]
    rows += [
        {"code": code, "exit_code": exit_code, "retryable": exit_code in (130, 143), "meaning": meaning, "hint": ""}
        for code, (exit_code, meaning) in OWN_CODES.items()
    ]
    output = state.output
    output.document({"ok": True, "errors": rows})
    for row in rows:
        output.line(f"{row['exit_code']:>3}  {row['code']}{'  (try again)' if row['retryable'] else ''}")
        output.line(f"     {row['meaning']}")
        if row["hint"]:
            output.line(f"     -> {row['hint']}")
