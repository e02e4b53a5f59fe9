"""The root of the command line: which commands there are, each loaded only when it is called.

Loading on demand keeps a search fast: no command pays for another one's imports. Called by ``main`` and by tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from memory_sqlite import __version__
from memory_sqlite.cli import failures
from memory_sqlite.cli.options import State, add_common
from memory_sqlite.cli.output import Output, prepare_streams

COMMANDS: Final = {
    "quickstart": ("quickstart", "Make a sample memory and search it in three languages."),
    "remember": ("remember", "Store one turn of a conversation."),
    "import": ("importing", "Bring in an export, transcripts or another product's memory."),
    "export": ("export", "Write everything that was said and remembered to one file."),
    "backup": ("backup", "Write a copy that can be put back, while others write."),
    "restore": ("restore", "Put a backup back, into an empty place."),
    "verify": ("verify", "Prove a backup, or the stores of a data directory."),
    "index": ("index", "Bring the search index up to date with notes and store."),
    "watch": ("watch", "Follow the notes and keep the search index up to date."),
    "search": ("search", "Find notes, facts and messages."),
    "get": ("get", "Read a note, a record or a stretch of a transcript."),
    "explain": ("explain", "Say how a search read its query, and why something was found or not."),
    "recall": ("recall", "Show the block a host would put before a prompt."),
    "facts": ("facts", "State facts, list them, end them."),
    "forget": ("forget", "Forget sessions, people, records or stretches of time, for ever."),
    "prune": ("prune", "Delete what is older than it is kept, as a serving memory does daily."),
    "hold": ("hold", "Keep a session whatever its age: legal holds and pins."),
    "reset": ("reset", "Drop the search index and build it anew; nothing that was said is touched."),
    "query": ("query", "Ask in SQL: this memory, JSONL files, transcripts; it only reads."),
    "status": ("status", "Say what this memory holds and how it is."),
    "doctor": ("doctor", "Look everything over, say what is wrong, and mend what can be mended."),
    "support-bundle": ("support_bundle", "Write diagnostics for whoever helps, without a word of what is remembered."),
    "serve": ("serve", "Give this memory to other programs: MCP over pipes or on a port."),
    "key": ("key", "Encrypt the data directory, and change its keys."),
    "sessions": ("sessions", "List the sessions this memory knows."),
    "eval": ("eval", "Measure what searches find for your own labelled queries."),
    "config": ("config", "Show every setting, its value and where it comes from."),
    "errors": ("errors", "List every error code with exit code and advice."),
}
"""Command name to its module below ``memory_sqlite.cli`` and its line in the overview."""

_COMPLETE: Final = "_MEMORY_SQLITE_COMPLETE"
"""Set by the shell's completion script (``eval "$(_MEMORY_SQLITE_COMPLETE=bash_source memory-sqlite)"``)."""

_HELP: Final = """A local, layered, long-term memory for AI agents. No server, no model, no network.

\b
Start here:
  memory-sqlite quickstart
  memory-sqlite remember --user "The router is in VLAN 20." --assistant "Noted."
  memory-sqlite search router VLAN
  memory-sqlite --workspace ~/notes index

Options before a command may also be given after it. Settings come from a file, from MEMORY_SQLITE_* variables and from
options, in rising order; `memory-sqlite config` shows which one won.
"""


class Root(click.Group):
    """The group of all commands, and the one place where an exception becomes an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command; ``None`` for a name that is not one."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = import_module(f"memory_sqlite.cli.{entry[0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview from the table above: help does not load eleven modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, list(COMMANDS), n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run a command line and exit with its code.

        Not click's own ``main``: that one turns a closed pipe into exit code 1, where ours is 141.
        """
        name = prog_name or "memory-sqlite"
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        if _COMPLETE in os.environ:
            super().main(words, name, complete_var=_COMPLETE)
        prepare_streams()
        # known before parsing, so that a usage error, too, is one JSON document
        output = Output(json="--json" in (words[: words.index("--")] if "--" in words else words))

        def command_line() -> object:
            with self.make_context(name, words, obj=State(output)) as context:
                return self.invoke(context)

        sys.exit(failures.run(command_line, output))


root = click.version_option(__version__)(
    add_common(
        Root(
            name="memory-sqlite",
            help=_HELP,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )
    )
)
