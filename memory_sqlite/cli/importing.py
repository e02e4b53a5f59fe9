"""``memory-sqlite import``: bring in an export, transcripts of hosts, or another product's memory; told by the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from memory_sqlite.cli import reports
from memory_sqlite.cli.options import TEXT, Command, State, add_common, stated
from memory_sqlite.cli.progress import Bars
from memory_sqlite.cli.source_key import key_options, read_key
from memory_sqlite.cli.trying import place_to_try
from memory_sqlite.model import CHAT_TYPES, SESSION_KINDS, to_json

_TRANSCRIPTS = """
memory-sqlite import transcripts ~/.claude/projects
memory-sqlite import transcripts ~/.openclaw/agents/main/sessions/*.jsonl
memory-sqlite import transcripts chat.jsonl --format generic --session friday --chat-type direct --owner
"""
_LAYERED = """
memory-sqlite import layered ~/.openclaw/state/memory --data-dir ~/memory --dry-run
memory-sqlite import layered ~/.openclaw/state/memory --data-dir ~/memory --key-env OPENCLAW_MEMORY_KEY
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
        from memory_sqlite.interop.layered_files import is_layered_directory

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
@click.option("--legacy-backup", is_flag=True, help="Take in what .legacy-backup holds and the sessions no longer do.")
@click.option("--dry-run", is_flag=True, help="Read everything and say what would be imported; store nothing.")
@key_options
@stated
def layered(
    state: State, path: str, from_agent: str | None, legacy_backup: bool, dry_run: bool, **keys: str | None
) -> None:
    """Import a directory of the layered-memory product.

    The directory at PATH is only read. Its isolation key is taken over, so that session tokens and citations stay what
    they were: import into a new data directory. Of an encrypted directory name where its key is; what is imported is
    encrypted as this memory is. A line that cannot be read costs that line: it is listed with file and number.
    """
    secret = read_key(keys["key_env"], keys["key_file"], keys["key_command"])
    with place_to_try(state.settings, dry_run=dry_run) as settings:
        if settings.enabled:
            from memory_sqlite.interop.layered import adopt_session_key, check_before

            check_before(Path(path).absolute(), state.settings.data_dir, secret)
            adopt_session_key(Path(path).absolute(), settings.data_dir)
        with Bars(state.output) as progress, state.open(settings=settings, progress=progress) as memory:
            report = memory.import_layered(
                path, agent=from_agent, secret=secret, backups=legacy_backup, dry_run=dry_run, progress=progress
            )
    state.output.document({"ok": True, **to_json(report)})
    reports.imported(state.output, report)


@command.command(cls=Command, examples=_JSONL)
@click.argument("path", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Check the file and say what would be added; store nothing.")
@click.option("--steps", is_flag=True, help="Store session by session, facts last: others may write in between.")
@stated
def jsonl(state: State, path: str, dry_run: bool, steps: bool) -> None:
    """Import what `memory-sqlite export` wrote: all of it, or nothing, or with --steps session by session.

    The file is checked to its end first. What is here already is left alone, what differs is kept as it is here, and
    what was forgotten here does not come back. From another data directory the session tokens are made anew; what
    cannot be carried over then is counted. Copy its session.key into an empty data directory first to keep all.
    """
    _merge(state, path, dry_run=dry_run, steps=steps)


def _merge(state: State, path: str, *, dry_run: bool, steps: bool = False) -> None:
    with (
        place_to_try(state.settings, dry_run=dry_run) as settings,
        Bars(state.output) as progress,
        state.open(settings=settings, progress=progress) as memory,
    ):
        report = memory.import_jsonl(path, dry_run=dry_run, steps=steps, progress=progress)
    state.output.document({"ok": True, **to_json(report)})
    reports.imported_export(state.output, report)
