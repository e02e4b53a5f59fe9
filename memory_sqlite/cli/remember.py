"""``memory-sqlite remember``: store one turn of a conversation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from memory_sqlite import errors
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import TEXT, Command, State, read_stdin, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.model import CHAT_TYPES, SESSION_KINDS, to_json

DEFAULT_SESSION: Final = "cli"
"""The session of turns typed by hand. On one's own machine the person typing is the owner, in a direct chat."""
_KEYS: Final = ("session", "run_id", "chat_type", "kind", "sender_is_owner", "project", "messages")

_EXAMPLES = """
memory-sqlite remember --user "The router is in VLAN 20." --assistant "Noted."
memory-sqlite remember --session friday --run-id r1 < turn.json
echo '{"session": "friday", "messages": [{"role": "user", "content": "I love tea."}]}' | memory-sqlite remember
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--user", metavar="TEXT", type=TEXT, help="What the user said.")
@click.option("--assistant", metavar="TEXT", type=TEXT, help="What the assistant answered.")
@click.option("--session", metavar="KEY", type=TEXT, help=f"Session the turn belongs to (default: {DEFAULT_SESSION}).")
@click.option("--run-id", metavar="ID", type=TEXT, help="Name of the turn: the same one is never stored twice.")
@click.option("--chat-type", type=click.Choice(CHAT_TYPES), help="What kind of chat (default: direct).")
@click.option("--kind", type=click.Choice(SESSION_KINDS), help="What kind of session (default: interactive).")
@click.option(
    "--owner/--not-owner",
    "sender_is_owner",
    default=None,
    help="Whether the user is the owner (default in direct chats).",
)
@click.option("--project", metavar="NAME", type=TEXT, help="Project the turn belongs to.")
@click.option(
    "--oversize", type=click.Choice(["refuse", "truncate"]), default="refuse", show_default=True,
    help="What to do with a message over max_record_bytes.",
)  # fmt: skip
@stated
def command(state: State, user: str | None, assistant: str | None, oversize: Any, **options: Any) -> None:
    """Store one turn: what was said, and what is worth remembering of it.

    Give --user and/or --assistant, or a JSON document on standard input: a list of messages {role, content}, or an
    object {session, run_id, chat_type, kind, sender_is_owner, project, messages}. Options win over the document. The
    turn is searchable when the command returns.
    """
    if user is None and assistant is None:
        if sys.stdin is not None and sys.stdin.isatty():
            raise click.UsageError("Give --user and/or --assistant, or a JSON document on standard input.")
        turn = parse_turn(read_stdin("the turn"))
    else:
        said = (("user", user), ("assistant", assistant))
        turn = {"messages": [{"role": role, "content": text} for role, text in said if text is not None]}
    turn.update({name: value for name, value in options.items() if value is not None})
    turn.setdefault("session", DEFAULT_SESSION)
    turn.setdefault("chat_type", "direct")
    turn.setdefault("kind", "interactive")
    # whoever types on this machine is the owner; in a group's turn nobody has said who spoke
    turn.setdefault("sender_is_owner", turn["chat_type"] == "direct")
    with state.open() as memory:
        receipt = memory.remember(oversize=oversize, **turn)
    output = state.output
    output.document({"ok": True, **to_json(receipt)})
    if receipt.status == "stored":
        kept = f"{counted(receipt.messages, 'message')}, {counted(len(receipt.facts), 'fact')}"
        output.line(f"Stored in session {one_line(receipt.session)}: {kept}.")
        if receipt.redactions:
            output.note(f"{counted(receipt.redactions, 'secret')} masked.")
    else:
        output.line(_OTHERWISE[receipt.status])
    for warning in receipt.warnings:
        output.note(f"warning: {warning}")


_OTHERWISE: Final = {
    "duplicate": "Already known; nothing was stored again.",
    "empty": "There was nothing to store.",
    "disabled": "Memory is disabled (enabled = false); nothing was stored.",
}


def parse_json(data: bytes) -> Any:
    """The JSON document on standard input. Raises ``InvalidArgument`` without quoting it."""
    import json

    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise errors.InvalidArgument("standard input is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise errors.InvalidArgument(
            f"standard input is not a JSON document (line {error.lineno}, column {error.colno})",
            hint="`memory-sqlite COMMAND --help` shows what it may be; transcripts go to `import transcripts`.",
        ) from None
    except RecursionError:
        raise errors.InvalidArgument("the JSON document on standard input is nested too deeply") from None
    except ValueError:  # CPython reads no number of more than 4,300 digits
        raise errors.InvalidArgument(
            "the JSON document on standard input holds a number with too many digits"
        ) from None


def parse_turn(data: bytes) -> dict[str, Any]:
    """The turn a JSON document describes. Raises ``InvalidArgument`` without quoting the document."""
    value = parse_json(data)
    if isinstance(value, list):
        return {"messages": value}
    if not isinstance(value, Mapping) or "messages" not in value:
        raise errors.InvalidArgument("the JSON document must be a list of messages or an object with messages")
    unknown = sorted(key for key in value if key not in _KEYS)
    if unknown:
        raise errors.InvalidArgument(
            f"the JSON document has an unknown key {one_line(unknown[0], 60)!r}", hint=f"Known are {', '.join(_KEYS)}."
        )
    return {key: item for key, item in value.items() if item is not None}
