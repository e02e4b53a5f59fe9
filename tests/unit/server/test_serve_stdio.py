"""The pipes of a server: nothing but frames reaches its client, and what cannot be read is answered by its id."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from memory_sqlite import limits

pytest.importorskip("mcp")

from memory_sqlite.server import stdio


def test_stray_output_is_no_frame_and_stray_input_takes_none() -> None:
    """While the pipes are taken, 0 is empty and 1 leads to standard error, for children too; then they are back."""
    code = (
        "import os, subprocess, sys\n"
        "from memory_sqlite.server import stdio\n"
        "with stdio._taken() as (source, sink):\n"
        "    print('stray', flush=True)\n"
        "    subprocess.run([sys.executable, '-c', 'print(7)'], check=True)\n"
        "    assert sys.stdin.read() == ''\n"
        "    os.write(sink, os.read(source, 6))\n"
        "os.write(1, b'after ' + os.read(0, 4))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"frame\nrest", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"frame\nafter rest", b"stray\n7\n")


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ('{"jsonrpc": "2.0", "id": 7, "method": "x", "params": [1]}', 7),
        ('{"id":"a-b", "jsonrpc": "2.0"', "a-b"),
        ('{"jsonrpc": "2.0", "id": -3, "method": 5}', -3),
        ('{"jsonrpc": "2.0", "method": "x", "params": ' + "[" * 100_000, None),
        ("rubbish", None),
    ],
)
def test_requests_that_are_none_are_refused_by_name(line: str, identity: object) -> None:
    """Where they have one; what has none is passed on, and dropped by the SDK."""
    read = stdio._readable(line)
    if identity is None:
        assert read == line
    else:
        assert json.loads(read) == {"jsonrpc": "2.0", "id": identity, "method": "memory-sqlite/malformed"}


def test_half_characters_become_question_marks_and_all_else_stays() -> None:
    whole = '{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"query": "数据 \\ud83d\\ude00"}}'
    assert stdio._readable(whole) == whole
    half = whole.replace("\\ude00", "")
    assert json.loads(stdio._readable(half))["params"]["query"] == "数据 ?"


def test_the_id_of_a_request_that_is_too_large_is_looked_for_at_its_head() -> None:
    large = b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":' + b"x" * limits.KIB
    assert json.loads(stdio._refusable(large, stdio.TOO_LARGE_METHOD))["id"] == 12
    assert stdio._refusable(b"x" * limits.KIB, stdio.TOO_LARGE_METHOD) == ""
