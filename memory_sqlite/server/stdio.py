"""MCP over standard input and output: frames, and nothing else, on pipes that nobody blocks.

The SDK's own reader waits for a line in a thread that cannot be stopped, of any length. Here the two pipes belong to
the event loop: a server that is told to stop stops, also while its client neither reads nor writes; a line beyond
``limits.SERVE_FRAME_MAX_BYTES`` is answered and not kept. While it runs, descriptor 0 is the null device and 1 is
standard error, so that nothing else can break a frame. Not here: the protocol (``mcp_server``).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from memory_sqlite import limits
from memory_sqlite.server.mcp_server import MALFORMED_METHOD, TOO_LARGE_METHOD

_HEAD_BYTES: Final = 4_096
_ID: Final = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,256}")')


async def serve(server: Server[Any]) -> None:
    """Serve one client until it closes its side, or goes."""
    if not (_is_pipe(0) and _is_pipe(1)):  # a file, which the event loop cannot wait for
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return
    with _taken() as (source, sink):
        lines, pipe = await _reader(source), await _writer(sink)
        try:
            streams = stdio_server(cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", pipe))
            async with streams as (read, write):
                await server.run(read, write, server.create_initialization_options())
        except* (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client has gone, or this was told to stop, while something was on its way
        finally:
            lines.close()
            pipe.close()


class _Lines:
    """What a client writes, line by line; a file of text as far as the SDK's transport reads one."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._reader = reader
        self._transport = transport

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        head: bytes | None = None
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if not end.partial and head is None:
                    raise StopAsyncIteration from None
                line = end.partial
            except asyncio.LimitOverrunError as over:
                part = await self._reader.readexactly(max(over.consumed, 1))
                head = part[:_HEAD_BYTES] if head is None else head
                continue
            if head is None:
                return _readable(line.decode("utf-8", "replace"))
            return _refusable(head, TOO_LARGE_METHOD)

    def close(self) -> None:
        self._transport.close()


class _Pipe:
    """Where answers go; a file of text as far as the SDK's transport writes one."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode("utf-8", "backslashreplace"))

    async def flush(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        # what the client has not read by now it never will; a pipe that is full would keep the loop waiting
        if not self._writer.transport.is_closing():
            self._writer.transport.abort()


def _readable(line: str) -> str:
    """The line, if it is a message; half characters in it become question marks, as in all that is stored.

    A request that is no valid one is replaced by one that is refused by name: the SDK drops it, and its client waits.
    """
    if _is_message(line):
        return line
    try:
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
    except (ValueError, RecursionError):
        whole = ""
    return whole if _is_message(whole) else _refusable(line[:_HEAD_BYTES].encode(), MALFORMED_METHOD) or line


def _is_message(line: str) -> bool:
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return False
    return True


def _refusable(head: bytes, method: str) -> str:
    """A small request in place of one that cannot be read, so that its client is told; empty when it has no name."""
    match = _ID.search(head)
    if match is None:
        return ""
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(match[1]), "method": method})


@contextmanager
def _taken() -> Iterator[tuple[int, int]]:
    """Descriptors of our own for both pipes; what else uses 0 and 1 meanwhile reads nothing and writes to 2."""
    source, sink = os.dup(0), os.dup(1)
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nowhere, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # standard error was closed
            os.dup2(nowhere, 1)
        yield source, sink
    finally:
        os.close(nowhere)
        os.dup2(source, 0)
        os.dup2(sink, 1)
        for descriptor in (source, sink):
            os.set_blocking(descriptor, True)
            os.close(descriptor)


async def _reader(descriptor: int) -> _Lines:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limits.SERVE_FRAME_MAX_BYTES)
    stream = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    return _Lines(reader, transport)


async def _writer(descriptor: int) -> _Pipe:
    loop = asyncio.get_running_loop()
    stream = os.fdopen(os.dup(descriptor), "wb", buffering=0)
    # a stream's protocol is what gives a writer its flow control; nothing is read through this one
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, stream)
    transport.set_write_buffer_limits(0)  # what was flushed is with the client's pipe, and not in this process
    return _Pipe(asyncio.StreamWriter(transport, protocol, None, loop))


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
