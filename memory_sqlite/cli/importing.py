"""``memory-sqlite import transcripts`` and ``import layered``: bring in what was said and remembered elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from memory_sqlite.cli import reports
from memory_sqlite.cli.options import TEXT, Command, State, add_common, stated
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import CHAT_TYPES, SESSION_KINDS, to_json

_TRANSCRIPTS = """
memory-sqlite import transcripts ~/.claude/projects
memory-sqlite import transcripts ~/.openclaw/agents/main/sessions/*.jsonl
memory-sqlite import transcripts chat.jsonl --format generic --session friday --chat-type direct --owner
"""
_LAYERED = """
memory-sqlite import layered ~/.openclaw/state/memory --data-dir ~/memory
"""


@click.group(no_args_is_help=False)
def command() -> None:
    """Bring in transcripts or another product's memory. Importing again adds only what is new."""


add_common(command)


@command.command(cls=Command, examples=_TRANSCRIPTS)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--format", "format_", metavar="NAME", type=TEXT,
    help="openclaw, claude-code, codex or generic; recognised by the first lines when absent.",
)  # fmt: skip
@click.option("--session", metavar="KEY", type=TEXT, help="Session key to use instead of the file's own.")
@click.option(
    "--chat-type", type=click.Choice(CHAT_TYPES), help="What kind of chat it was; wins over what the file says."
)
@click.option("--kind", type=click.Choice(SESSION_KINDS), help="What kind of session; wins over what the file says.")
@click.option("--owner/--not-owner", "owner", default=None, help="Whether the user in it is this memory's owner.")
@stated
def transcripts(state: State, paths: tuple[str, ...], format_: str | None, **options: Any) -> None:
    """Import session transcripts in JSONL: files, or directories searched for *.jsonl.

    A line that cannot be read costs that line only: it is counted and reported with its number. Unless the file or an
    option says that a session was the owner's direct chat, its facts stay in that session.
    """
    with Bars(state.output) as progress, state.open(progress=progress) as memory:
        report = memory.import_transcripts(
            list(paths),
            format=format_,
            session=options["session"],
            chat_type=options["chat_type"],
            kind=options["kind"],
            sender_is_owner=options["owner"],
            progress=progress,
        )
    state.output.document({"ok": True, **to_json(report)})
    reports.imported(state.output, report)


@command.command(cls=Command, examples=_LAYERED)
@click.argument("path", type=click.Path())
@click.option("--from-agent", metavar="ID", type=TEXT, help="The agent there (default: the one imported into).")
@stated
def layered(state: State, path: str, from_agent: str | None) -> None:
    """Import a directory of the layered-memory product (in clear text).

    The directory at PATH is only read. Its key is taken over, so that session tokens and citations stay what they were:
    import into a new data directory.
    """
    if state.settings.enabled:
        from memory_sqlite.interop.layered_key import adopt_session_key

        adopt_session_key(Path(path).absolute(), state.settings.data_dir)
    with Bars(state.output) as progress, state.open(progress=progress) as memory:
        report = memory.import_layered(path, agent=from_agent, progress=progress)
    state.output.document({"ok": True, **to_json(report)})
    reports.imported(state.output, report)
