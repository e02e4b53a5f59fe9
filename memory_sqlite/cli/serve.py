"""``memory-sqlite serve``: give an agent's memory to other programs, until they go."""

from __future__ import annotations

from typing import Final

import click

from memory_sqlite import __version__, errors
from memory_sqlite.cli.failures import Terminated
from memory_sqlite.cli.options import TEXT, Command, State, add_common, stated

_EXAMPLES: Final = """
memory-sqlite serve mcp
memory-sqlite --agent work --workspace ~/notes serve mcp --read-only
memory-sqlite serve mcp --session team-chat
memory-sqlite serve mcp --http 8765 --token-file ~/.config/memory-sqlite/token
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Serve one agent's memory to other programs. Agent and session are fixed here, and no client can change them."""


add_common(command)


@command.command(cls=Command, examples=_EXAMPLES, name="mcp")
@click.option(
    "--http", "port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Listen on this port of the loopback address (0: any) instead of serving standard input.",
)  # fmt: skip
@click.option(
    "--session", metavar="KEY", type=TEXT,
    help="Serve this session: only what it may see. Without it, the agent's owner.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Offer no tool that writes.")
@click.option("--token-file", metavar="FILE", type=click.Path(), help="File with the bearer token for --http.")
@stated
def mcp(state: State, port: int | None, session: str | None, read_only: bool, token_file: str | None) -> None:
    """Serve the Model Context Protocol: to the program that started this, or with --http on a port.

    Tools: memory_search, sessions_search, memory_get, memory_status, memory_remember, memory_forget; resources: notes
    and conversations. Over --http a client needs the bearer token of --token-file, else of the variable
    MEMORY_SQLITE_SERVE_TOKEN; without either one is made and shown once. Needs the extra:
    pip install "memory-sqlite[mcp]".
    """
    if port is None and token_file is not None:
        raise click.UsageError("--token-file is for --http")
    if port is None and state.output.json:
        raise click.UsageError("--json is for --http: standard output belongs to the protocol")
    try:
        from memory_sqlite.server import http, serving, token
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "memory_sqlite":
            raise
        raise errors.ExtraMissing(
            "serving MCP needs the package mcp", hint="Install it: pip install 'memory-sqlite[mcp]'."
        ) from None
    if port is None:
        with state.open(read_only=read_only, serving=True) as memory:
            try:
                terminated = serving.over_stdio(memory, session, __version__, read_only=read_only)
            except KeyboardInterrupt:
                return  # the way people end it
        if terminated:
            raise Terminated
        return
    bearer = token.find(token_file)
    with http.listen(port) as listening, state.open(read_only=read_only, serving=True) as memory:
        output = state.output
        place = http.url(listening)
        output.event({"event": "serving", "url": place})
        output.complain(f"Serving MCP on {place}; end with Ctrl-C.")
        if bearer.made:
            output.complain(f"Bearer token, shown once: {bearer.reveal()}")
        try:
            serving.over_http(memory, session, __version__, listening, bearer, read_only=read_only)
        except KeyboardInterrupt:
            pass  # the way people end it
