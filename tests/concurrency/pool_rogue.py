"""A worker that breaks the agreement in the way that its argument names. Greets properly unless that is the way."""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from typing import Any, NoReturn

from memory_sqlite.limits import FRAME_MAX_BYTES
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.envelopes import Reply
from memory_sqlite.processes.frames import FrameReader


def say(header: dict[str, Any], blob: bytes = b"") -> None:
    os.write(1, frames.pack(header, blob))


def answer_unread() -> NoReturn:
    """Answer before the bytes that come with the question are read, which nobody reads then."""
    _, length = struct.unpack(">II", os.read(0, 8))
    header = json.loads(os.read(0, length))
    say(envelopes.reply(Reply(header["id"], header["kind"], "ok", {"right": True})))
    threading.Event().wait()
    sys.exit(0)


def main(how: str) -> None:
    reader = FrameReader(0)
    reader.read()
    if how == "no start":
        sys.exit(3)
    if how == "greeting":
        say({"say": "hello", "protocol": 0, "worker": "test"})
    else:
        say(envelopes.hello("test"))
    if how == "early":
        answer_unread()
    if how == "unasked":
        say(envelopes.reply(Reply(1, "echo", "ok", {})))
    while True:
        frame = reader.read()
        assert frame is not None
        header = frame.header
        good = envelopes.reply(Reply(header["id"], header["kind"], "ok", {"right": True}))
        if header["body"].get("well"):
            say(good)
        elif how == "id":
            say({**good, "id": good["id"] + 1})
        elif how == "kind":
            say({**good, "kind": "other"})
        elif how == "outcome":
            say({**good, "outcome": "perhaps"})
        elif how == "field":
            say({**good, "more": 1})
        elif how == "answer":
            say({**good, "body": {"right": "no"}})
        elif how == "error":
            say({**good, "outcome": "error", "body": {"code": "unheard_of", "message": ""}})
        elif how == "size":
            os.write(1, struct.pack(">II", FRAME_MAX_BYTES + 1, 4))
        elif how == "garbage":
            os.write(1, b"Traceback (most recent call last):\n")
        elif how == "json":
            os.write(1, struct.pack(">II", 4 + 3, 3) + b"[1]")
        elif how == "twice":
            say(good)
            say(good)
        elif how == "half":
            os.write(1, frames.pack(good)[:-2])
            sys.exit(0)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except EOFError:
        pass
