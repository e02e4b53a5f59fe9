"""``memory-sqlite import``: bring in an export, transcripts of hosts, or another product's memory; told by the file."""

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
_JSONL = """
memory-sqlite import jsonl memory.jsonl --dry-run
memory-sqlite import memory.jsonl.gz --agent copy
"""


class _Importing(click.Group):
    """The group, which takes a path in place of a command: what is there says which command is meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was named, or the one that reads the path that stands in its place."""
        path = Path(args[0])
        if args[0] not in self.commands and not path.exists() and (path.suffix or len(path.parts) > 1):
            ctx.fail(f"{args[0]!r} is neither a command nor a file.")
        if args[0] in self.commands or not path.exists():
            return super().resolve_command(ctx, args)
        name = _reader_of(path)
        return name, self.commands[name], args


def _reader_of(path: Path) -> str:
    """Which command reads what is at a path."""
    if path.is_dir():
        from memory_sqlite.interop.layered_directory import is_layered_directory

        return "layered" if is_layered_directory(path) else "transcripts"
    from memory_sqlite.interop.jsonl_files import is_export

    return "jsonl" if is_export(path) else "transcripts"


@click.group(cls=_Importing, no_args_is_help=False)
def command() -> None:
    """Bring in an export, transcripts, or another product's memory. Importing again adds only what is new.

    A path in place of a command is read by the command that knows what it is: `memory-sqlite import memory.jsonl`.
    """


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
    unsaid = format_ is None and all(value is None for value in options.values())
    if unsaid and len(paths) == 1 and _reader_of(Path(paths[0])) == "jsonl":
        _merge(state, paths[0], dry_run=False)
        return
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


@command.command(cls=Command, examples=_JSONL)
@click.argument("path", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Check the file and say what would be added; store nothing.")
@stated
def jsonl(state: State, path: str, dry_run: bool) -> None:
    """Import what `memory-sqlite export` wrote: all of it, or nothing.

    The file is checked to its end first. What is here already is left alone, what differs is kept as it is here, and
    what was forgotten here does not come back. From another data directory the session tokens are made anew; what
    cannot be carried over then is counted. Copy its session.key into an empty data directory first to keep all.
    """
    _merge(state, path, dry_run=dry_run)


def _merge(state: State, path: str, *, dry_run: bool) -> None:
    with Bars(state.output) as progress, state.open(progress=progress) as memory:
        report = memory.import_jsonl(path, dry_run=dry_run, progress=progress)
    state.output.document({"ok": True, **to_json(report)})
    reports.imported_export(state.output, report)
