"""MCP over streamable HTTP on this machine's loopback address, for whoever has the token.

Every request must name this server in ``Host``, come from no page of another origin, and carry the bearer token, before
anything of it is read. Starlette and uvicorn serve, as the SDK has it. Not here: the protocol (``mcp_server``), where
the token comes from (``token``).
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from memory_sqlite import errors, limits
from memory_sqlite.server.token import Token

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"
_NAMES: Final = (HOST, "localhost")
_BACKLOG: Final = 128
_HEADERS_MAX_BYTES: Final = 32 * limits.KIB

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def listen(port: int) -> socket.socket:
    """A socket that listens on the loopback address; port 0 is any that is free. Raises ``InvalidArgument``."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise errors.InvalidArgument(f"port {port} cannot be listened on: {error.strerror}") from None
    return listening


def url(listening: socket.socket) -> str:
    """Where clients find the server."""
    return f"http://{HOST}:{listening.getsockname()[1]}{PATH}"


async def serve(server: Server[Any], listening: socket.socket, token: Token) -> None:
    """Serve until a signal ends the process; answers that are on their way have ``limits.SERVE_STOP_S``."""
    port = listening.getsockname()[1]
    hosts = [f"{name}:{port}" for name in _NAMES]
    origins = [f"http://{host}" for host in hosts]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=HOST,
        max_request_body_size=limits.SERVE_FRAME_MAX_BYTES,
        max_sessions=limits.SERVE_SESSIONS_MAX,
        transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins),
    )
    guarded = Guard(app, token, frozenset(hosts), frozenset(origins))
    config = uvicorn.Config(
        guarded,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        ws="none",
        limit_concurrency=limits.SERVE_CONNECTIONS_MAX,
        h11_max_incomplete_event_size=_HEADERS_MAX_BYTES,
        timeout_graceful_shutdown=int(limits.SERVE_STOP_S),
    )
    await uvicorn.Server(config).serve(sockets=[listening])


class Guard:
    """Lets requests through to an application that name this server, come from here, and carry the token."""

    def __init__(self, app: _App, token: Token, hosts: frozenset[str], origins: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """One request of an ASGI server."""
        status = self._refusal(scope) if scope["type"] == "http" else None
        if status is None:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _refusal(self, scope: _Scope) -> int | None:
        """With which status a request is refused: 421 for another host, 403 for another origin, 401 for no token."""
        hosts, origins, tokens = (
            [value for name, value in scope["headers"] if name == wanted]
            for wanted in (b"host", b"origin", b"authorization")
        )
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return 421
        if any(origin.decode("latin-1").lower() not in self._origins for origin in origins):
            return 403
        if len(tokens) != 1 or not self._token.admits(tokens[0]):
            return 401
        return None
