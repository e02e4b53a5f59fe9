"""A memory with an owner, a group and a stranger, and MCP clients over it: in this process, and of real children."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolResult

from memory_sqlite import Memory
from memory_sqlite.server.calls import Calls
from memory_sqlite.server.mcp_server import mcp_server
from memory_sqlite.server.operations import Operations
from memory_sqlite.server.viewpoint import Viewpoint

T = TypeVar("T")

OWNERS = "The router is in VLAN 20."
NOTED = "The harbour opens on Fridays."
GROUPS = "The picnic router hides in the group."
STRANGERS = "A stranger asks about the router."
LEAVE_TIME = "2026-05-01T08:00:00Z"


def fill(memory: Memory) -> None:
    """One thing said by the owner, one in a group, one by a stranger, and one note."""
    for session, content, chat_type, owner in (
        ("owner-chat", OWNERS, "direct", True),
        ("team-chat", GROUPS, "group", None),
        ("stranger-chat", STRANGERS, "direct", False),
    ):
        message = {"role": "user", "content": content, "at": LEAVE_TIME, "sender": session.partition("-")[0]}
        memory.remember(session=session, messages=[message], chat_type=chat_type, sender_is_owner=owner)  # type: ignore[arg-type]
    assert memory.settings.workspace is not None
    (Path(memory.settings.workspace) / "memory" / "harbour.md").write_text(f"# Harbour\n\n{NOTED}\n")
    memory.index()


@asynccontextmanager
async def connected(
    memory: Memory, session: str | None = None, *, read_only: bool = False, mode: str = "auto"
) -> AsyncIterator[Client]:
    """The SDK's client on a server in this process."""
    calls = Calls()
    viewpoint = Viewpoint(memory, session)
    server = mcp_server(viewpoint, Operations(viewpoint, read_only=read_only), calls, "0")
    try:
        async with Client(server, mode=mode) as client:
            yield client
    finally:
        await asyncio.to_thread(calls.close)


def talk(
    memory: Memory, what: Callable[[Client], Coroutine[Any, Any, T]], session: str | None = None, **more: Any
) -> T:
    """What a conversation with a server in this process came to."""

    async def whole() -> T:
        async with connected(memory, session, **more) as client:
            return await what(client)

    return asyncio.run(whole())


def call(memory: Memory, tool: str, session: str | None = None, /, **arguments: Any) -> CallToolResult:
    """One call of one tool."""
    return talk(memory, lambda client: client.call_tool(tool, arguments), session)


def text(result: CallToolResult) -> str:
    """The text of an answer."""
    (block,) = result.content
    said: str = block.text  # type: ignore[union-attr]
    return said


def command(data: Path, workspace: Path | None, *more: str) -> list[str]:
    """The command line of a server, behind the interpreter."""
    place = [] if workspace is None else ["--workspace", str(workspace)]
    return ["-m", "memory_sqlite", "--data-dir", str(data), *place, "serve", "mcp", *more]


def parameters(data: Path, workspace: Path | None, *more: str) -> StdioServerParameters:
    """How the SDK's client starts a server."""
    kept = {name: os.environ[name] for name in ("PYTHONSAFEPATH", "PYTHONPATH", "HOME") if name in os.environ}
    return StdioServerParameters(command=sys.executable, args=command(data, workspace, *more), env=kept)


class Raw:
    """A server as a child, spoken to line by line, for what no proper client does."""

    def __init__(self, data: Path, workspace: Path | None, *more: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command(data, workspace, *more)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout
        self.stderr: IO[bytes] = self.process.stderr

    def send(self, line: bytes) -> None:
        self.stdin.write(line + b"\n")
        self.stdin.flush()

    def ask(self, identity: int, method: str, **params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}).encode())

    def notify(self, method: str, **params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def answer(self, identity: int) -> dict[str, Any]:
        """The answer to a request; every line before it must be a frame, too."""
        while line := self.stdout.readline():
            frame: dict[str, Any] = json.loads(line)
            assert frame["jsonrpc"] == "2.0"
            if frame.get("id") == identity and "method" not in frame:
                return frame
        raise AssertionError("the server has ended")

    def greet(self) -> None:
        """The handshake of a client of 2025."""
        self.ask(
            0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        assert self.answer(0)["result"]["serverInfo"]["name"] == "memory-sqlite"
        self.notify("notifications/initialized")

    def call(self, identity: int, tool: str, **arguments: Any) -> None:
        self.ask(identity, "tools/call", name=tool, arguments=arguments)


@contextmanager
def raw(data: Path, workspace: Path | None, *more: str) -> Iterator[Raw]:
    """A greeted child that is gone afterwards, whatever happens."""
    child = Raw(data, workspace, *more)
    try:
        child.greet()
        yield child
    finally:
        child.process.kill()
        child.process.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # what was not written yet nobody will read


@contextmanager
def listening(data: Path, workspace: Path | None, *more: str, token: str | None = None) -> Iterator[tuple[str, str]]:
    """A server on a port: its URL, and the token that it was given or made."""
    environment = dict(os.environ)
    environment.pop("MEMORY_SQLITE_SERVE_TOKEN", None)
    if token is not None:
        environment["MEMORY_SQLITE_SERVE_TOKEN"] = token
    process = subprocess.Popen(
        [sys.executable, *command(data, workspace, "--http", "0", *more)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+/mcp", said := process.stderr.readline())
        assert found is not None, said + process.stderr.read()
        made = token
        if token is None and "--token-file" not in more:
            made = process.stderr.readline().rsplit(" ", 1)[1].strip()
        yield found[0], made or ""
        process.terminate()
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (143, "memory-sqlite: terminated\n")
        event = {"event": "serving", "url": found[0]}
        assert [json.loads(line) for line in out.splitlines()] == ([event] if "--json" in more else [])
    finally:
        process.kill()
        process.communicate()
