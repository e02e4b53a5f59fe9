"""The MCP server over standard input and output: real children, the SDK's own client, and clients that behave badly."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import Memory, errors, limits
from memory_sqlite.cli.app import root

pytest.importorskip("mcp")

from mcp import Client

from .mcp_kit import GROUPS, OWNERS, Raw, command, fill, parameters, raw, text


@pytest.fixture
def data(tmp_path: Path, workspace: Path) -> Path:
    """The data directory of a filled memory that nobody has open."""
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        fill(memory)
    return tmp_path / "data"


def test_a_conversation_over_pipes_and_what_stays_of_it(data: Path, workspace: Path) -> None:
    """Found, kept, twenty calls at once; found again through a second server by a client of 2025."""

    async def first() -> None:
        async with Client(parameters(data, workspace)) as client:
            assert OWNERS in text(await client.call_tool("memory_search", {"query": "router"}))
            assert not (await client.call_tool("memory_remember", {"content": "The offsite is in Lisbon."})).is_error
            calls = [client.call_tool("memory_search", {"query": "router VLAN"}) for _ in range(10)]
            calls += [client.call_tool("memory_remember", {"content": f"Locker {n} is Mia's."}) for n in range(10)]
            for number, result in enumerate(await asyncio.gather(*calls)):
                assert not result.is_error, text(result)
                assert OWNERS in text(result) or number >= 10

    async def second() -> None:
        async with Client(parameters(data, None, "--read-only"), mode="legacy") as client:
            assert "memory_remember" not in [tool.name for tool in (await client.list_tools()).tools]
            assert "Lisbon" in text(await client.call_tool("memory_search", {"query": "offsite"}))
            lockers = await client.call_tool("memory_search", {"query": "Locker Mia", "max_results": 20})
            assert len(lockers.structured_content["hits"]) == 10
            assert GROUPS not in text(await client.call_tool("memory_search", {"query": "picnic router"}))

    asyncio.run(first())
    asyncio.run(second())


def test_rubbish_is_answered_or_passed_over_and_never_ends_the_server(data: Path) -> None:
    """Binary, half characters, a request beyond the bound, another that is none: standard output holds frames alone."""
    with raw(data, None) as child:
        child.send(b"\xff\xfe\x00 not a frame")
        child.send(b"")
        child.send(b"[" * 100_000)
        child.send(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}')
        child.send(b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": {"a": "b"}}}')
        child.call(3, "memory_search", query="x" * (limits.SERVE_FRAME_MAX_BYTES + 10))
        half = {"name": "memory_search", "arguments": {"query": "router \ud800"}}
        child.ask(4, "tools/call", **half)
        child.call(5, "memory_search", query="\x00\x1b[2J\x07" * 1_000)
        child.ask(6, "tools/nothing")
        child.call(7, "memory_search", query="router")
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < 7:
            frame = json.loads(child.stdout.readline())
            answers[frame["id"]] = frame
        for identity in (1, 2, 3, 6):
            assert "error" in answers[identity]
        assert answers[3]["error"]["message"] == "the request is too large"
        for identity in (4, 7):
            assert OWNERS in answers[identity]["result"]["content"][0]["text"]
        assert answers[5]["result"]["isError"] is False
        child.stdin.close()
        assert child.process.wait(60) == 0
        assert child.stdout.read() == b""


def test_a_cancelled_call_is_not_waited_for(data: Path) -> None:
    """A client takes a call back and is answered on the next one."""
    with raw(data, None) as child:
        for identity in range(1, 6):
            child.call(identity, "memory_search", query="router " * 50)
            child.notify("notifications/cancelled", requestId=identity, reason="not wanted")
        child.call(9, "memory_search", query="router")
        assert OWNERS in child.answer(9)["result"]["content"][0]["text"]


@pytest.mark.parametrize("leaving", ["closes", "vanishes", "kills"])
def test_a_client_that_goes_takes_nothing_acknowledged_along(data: Path, leaving: str) -> None:
    """It ends its side, or both without reading on, or kills the server: what was acknowledged is there, and the server
    is not."""
    with raw(data, None) as child:
        child.call(1, "memory_remember", content="The offsite is in Lisbon.")
        assert child.answer(1)["result"]["structuredContent"]["status"] == "stored"
        child.call(2, "memory_search", query="router")
        child.call(3, "memory_remember", content="The deposit is paid.")
        if leaving == "kills":
            child.process.kill()
        child.stdin.close()
        if leaving == "vanishes":
            child.stdout.close()
        assert child.process.wait(60) == (-signal.SIGKILL if leaving == "kills" else 0)
        assert child.stderr.read() == b""
    with Memory.open(data) as memory:
        assert [hit.excerpt for hit in memory.search("offsite Lisbon").hits] == ["The offsite is in Lisbon."]
        assert [finding for finding in memory.doctor().findings if finding.severity == "error"] == []


def test_sigterm_ends_it_while_its_client_neither_reads_nor_writes(data: Path) -> None:
    """With the exit code of every command that was terminated."""
    with raw(data, None) as child:
        for identity in range(1, 60):  # answers beyond what a pipe holds, and nobody reads them
            child.call(identity, "memory_search", query="router", max_results=20)
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(60) == 143
        assert child.stderr.read() == b"memory-sqlite: terminated\n"


def test_what_cannot_be_served_is_said_before_it_begins(tmp_path: Path) -> None:
    """Standard output stays empty: an unknown agent; options that do not go together, or are none."""
    words = [sys.executable, *command(tmp_path / "data", None, "--read-only")]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (errors.UnknownAgent.exit_code, b"")
    assert done.stderr.startswith(b"memory-sqlite: ")
    for more in (("--token-file", "x"), ("--session", " "), ("--http", "70000"), ("--http", "-1"), ("--agent", "")):
        result = CliRunner().invoke(root, ["--data-dir", str(tmp_path / "data"), "serve", "mcp", *more])
        assert (result.exit_code != 0, result.stdout) == (True, ""), more
    asked = CliRunner().invoke(root, ["serve", "mcp", "--json"])
    assert (asked.exit_code, json.loads(asked.stdout)["error"]["code"]) == (2, "usage")


def test_input_from_a_file_is_served_to_its_end(data: Path, tmp_path: Path) -> None:
    """People try it by hand."""
    asked = Raw.__new__(Raw)  # only its way to write requests is wanted
    with (tmp_path / "asked.jsonl").open("wb") as asked.stdin:
        asked.ask(
            0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        asked.notify("notifications/initialized")
    with (tmp_path / "asked.jsonl").open("rb") as stream:
        words = [sys.executable, *command(data, None)]
        done = subprocess.run(words, stdin=stream, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "memory-sqlite"
