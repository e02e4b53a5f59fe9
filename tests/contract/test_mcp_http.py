"""The MCP server on a loopback port: the SDK's own client with the token, and everybody else refused."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory, limits

pytest.importorskip("mcp")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .mcp_kit import GROUPS, OWNERS, command, fill, listening, text

TOKEN = "a-token-of-the-tests-0123456789"


@pytest.fixture
def data(tmp_path: Path, workspace: Path) -> Path:
    """The data directory of a filled memory that nobody has open."""
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        fill(memory)
    return tmp_path / "data"


def test_a_conversation_on_a_port(data: Path, workspace: Path) -> None:
    """With a token that was made and told once: found, kept, two clients, one of them of 2025, with twenty calls at
    once."""

    async def converse(url: str, token: str) -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as web:

            async def one(number: int, mode: str) -> None:
                async with Client(streamable_http_client(url, http_client=web), mode=mode) as client:
                    kept = await client.call_tool("memory_remember", {"content": f"Locker {number} is Mia's."})
                    assert kept.structured_content["status"] == "stored"
                    calls = [client.call_tool("memory_search", {"query": "router VLAN"}) for _ in range(10)]
                    for result in await asyncio.gather(*calls):
                        assert OWNERS in text(result) and GROUPS not in text(result)

            await asyncio.gather(one(1, "auto"), one(2, "legacy"))
            async with Client(streamable_http_client(url, http_client=web)) as client:
                lockers = await client.call_tool("memory_search", {"query": "Locker Mia"})
                assert len(lockers.structured_content["hits"]) == 2

    with listening(data, workspace) as (url, token):
        assert len(token) >= 40
        asyncio.run(converse(url, token))
    with Memory.open(data) as memory:
        assert len(memory.search("Locker Mia").hits) == 2


def test_whoever_lacks_the_token_or_comes_from_elsewhere_is_refused(data: Path) -> None:
    """Before anything is read: token, host, origin, size, path. What was refused is answered without a word."""
    right = {"Authorization": f"Bearer {TOKEN}"}
    with listening(data, None, "--read-only", "--json", token=TOKEN) as (url, _):
        base = url.removesuffix("/mcp")
        with httpx2.Client(timeout=60) as web:
            for headers, status in (
                ({}, 401),
                ({"Authorization": ""}, 401),
                ({"Authorization": TOKEN}, 401),
                ({"Authorization": f"Basic {TOKEN}"}, 401),
                ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
                ({"Authorization": f"Bearer {TOKEN}x"}, 401),
                (right | {"Host": "memory.example"}, 421),
                (right | {"Host": f"127.0.0.1.example:{base.rsplit(':', 1)[1]}"}, 421),
                (right | {"Host": "127.0.0.1:1"}, 421),
                (right | {"Origin": "https://memory.example"}, 403),
                (right | {"Origin": "null"}, 403),
                ({"Host": "memory.example"}, 421),
            ):
                answer = web.post(url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
                assert (answer.status_code, answer.content) == (status, b""), headers
            twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other-token-0123456789")]
            assert web.post(url, headers=twice, json={}).status_code == 401
            assert web.get(f"{base}/", headers={}).status_code == 401
            assert web.get(f"{base}/other", headers=right).status_code == 404
            assert declared(base, right, limits.SERVE_FRAME_MAX_BYTES + 1) == 413
            assert web.post(url, headers=right, content=b"\xff\x00 rubbish").status_code in (400, 415)

        async def converse() -> None:
            async with (
                httpx2.AsyncClient(headers=right | {"Origin": base}) as own,
                Client(streamable_http_client(url, http_client=own)) as client,
            ):
                assert OWNERS in text(await client.call_tool("memory_search", {"query": "router"}))
                assert len((await client.list_tools()).tools) == 4

        asyncio.run(converse())


def declared(base: str, headers: dict[str, str], size: int) -> int:
    """The status of a request that announces so many bytes, and sends none before it is answered."""
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=60)
    try:
        connection.putrequest("POST", "/mcp")
        kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        for name, value in (headers | kind | {"Content-Length": str(size)}).items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_token_of_a_file_and_ports_that_are_taken(data: Path, tmp_path: Path) -> None:
    """A file that others may read is no place for a token; a taken port is an error, and neither shows the token."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    def refused(*more: str) -> str:
        words = [sys.executable, *command(data, None, "--token-file", str(file), *more)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.stdout == "" and TOKEN not in done.stderr
        assert done.returncode in (2, 78)
        return done.stderr

    file.chmod(0o644)
    assert "may be read by others" in refused("--http", "0")
    file.chmod(0o600)
    with listening(data, None, "--token-file", str(file)) as (url, _):
        assert "cannot be listened on" in refused("--http", url.rsplit(":", 1)[1].removesuffix("/mcp"))
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        with httpx2.Client(timeout=60) as web:
            assert web.post(url, headers={"Authorization": f"Bearer {TOKEN}"}, json=ping).status_code != 401
