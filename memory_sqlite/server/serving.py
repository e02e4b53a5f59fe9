"""Running an MCP server over an open memory, until its client goes or a signal comes.

Whatever ends it, calls that were begun are finished before the memory is closed: what was acknowledged is on disk. Not
here: opening the memory and closing it, options (``cli.serve``).
"""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Any

from mcp.server.lowlevel import Server

from memory_sqlite.memory import Memory
from memory_sqlite.server import http, stdio
from memory_sqlite.server.calls import Calls
from memory_sqlite.server.mcp_server import mcp_server
from memory_sqlite.server.operations import Operations
from memory_sqlite.server.token import Token
from memory_sqlite.server.viewpoint import Viewpoint


def over_stdio(memory: Memory, session: str | None, version: str, *, read_only: bool) -> bool:
    """Serve the client at the other end of standard input and output; whether SIGTERM ended it, rather than the client.

    Raises ``InvalidArgument`` for a session's key that is none, and ``KeyboardInterrupt``.
    """
    calls = Calls()
    try:
        return asyncio.run(_until_terminated(_server(memory, session, version, calls, read_only)))
    finally:
        calls.close()


def over_http(
    memory: Memory, session: str | None, version: str, listening: socket.socket, token: Token, *, read_only: bool
) -> None:
    """Serve clients on a listening socket until a signal ends it, which then takes its usual course.

    Raises ``InvalidArgument`` for a session's key that is none.
    """
    calls = Calls()
    try:
        asyncio.run(http.serve(_server(memory, session, version, calls, read_only), listening, token))
    finally:
        calls.close()


def _server(memory: Memory, session: str | None, version: str, calls: Calls, read_only: bool) -> Server[Any]:
    viewpoint = Viewpoint(memory, session)
    return mcp_server(viewpoint, Operations(viewpoint, read_only=read_only), calls, version)


async def _until_terminated(server: Server[Any]) -> bool:
    """Serve on the pipes; a SIGTERM cancels it, for an exception out of nowhere would leave its pipes half closed."""
    terminated = False
    serving = asyncio.ensure_future(stdio.serve(server))

    def end() -> None:
        nonlocal terminated
        terminated = True
        serving.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        await serving
    except asyncio.CancelledError:
        if not terminated:
            raise
    return terminated
