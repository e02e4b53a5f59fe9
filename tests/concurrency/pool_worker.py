"""A worker for tests: the real loop with kinds that wait, refuse to stop, die, and say what they are."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import errors
from memory_sqlite.processes.gone import Gone
from memory_sqlite.processes.serving import Answer, Call, serve


def asked(call: Call) -> dict[str, Any]:
    return call.request.body


def announce(call: Call) -> None:
    """Say that the request has begun: whoever opens the other end of the pipe knows."""
    Path(asked(call)["begun"]).write_bytes(b"x")


def echo(call: Call) -> Answer:
    return {"body": asked(call), "pid": os.getpid()}, call.request.blob


def wait(call: Call) -> Answer:
    """Wait at a gate that only the test opens; no cancel is seen."""
    announce(call)
    Path(asked(call)["gate"]).read_bytes()
    return {"pid": os.getpid()}, b""


def polite(call: Call) -> Answer:
    announce(call)
    while not call.cancelled():
        time.sleep(0.001)
    raise errors.Cancelled("stopped as asked")


def endless(call: Call) -> Answer:
    """A statement without end; an interrupt ends it."""
    connection = apsw.Connection(":memory:")
    with call.interruptible(connection):
        announce(call)
        connection.execute(
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        ).fetchall()
    return {}, b""


def between(call: Call) -> Answer:
    """A loop of short statements that asks nobody: only a repeated interrupt can hit one of them."""
    connection = apsw.Connection(":memory:")
    with call.interruptible(connection):
        announce(call)
        while True:
            connection.execute("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 9000) "
                               "SELECT count(*) FROM n").fetchall()  # fmt: skip


def die(call: Call) -> Answer:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}, b""


def leave(call: Call) -> Answer:
    os._exit(0)


def fail(call: Call) -> Answer:
    raise {"gone": Gone(), "typed": errors.IndexUnavailable("no index"), "defect": KeyError("a secret word")}[
        asked(call)["how"]
    ]


def large(call: Call) -> Answer:
    return {}, bytes(asked(call)["size"])


def printing(call: Call) -> Answer:
    print("a stray line", flush=True)
    os.write(1, b"and raw bytes\n")
    return {}, b""


def about(call: Call) -> Answer:
    return {"environment": dict(os.environ), "arguments": sys.orig_argv, "cwd": str(Path.cwd())}, b""


class Ahead:
    """Work that can wait, in steps: given by a request, done while nobody asks; the last one says so."""

    def __init__(self) -> None:
        self.steps = 0
        self.done = ""

    def give(self, call: Call) -> Answer:
        self.steps, self.done = asked(call)["steps"], asked(call)["done"]
        return {}, b""

    def step(self) -> bool:
        if self.steps:
            self.steps -= 1
            if not self.steps:
                Path(self.done).write_bytes(b"x")
        return self.steps > 0


if __name__ == "__main__":
    ahead = Ahead()
    serve(
        "test",
        {
            "echo": echo, "wait": wait, "polite": polite, "endless": endless, "between": between, "die": die,
            "leave": leave, "fail": fail, "large": large, "printing": printing, "about": about, "ahead": ahead.give,
        },
        ahead=ahead.step,
    )  # fmt: skip
