"""A preparation worker that greets properly and then fails in the way that its argument names, at every request."""

from __future__ import annotations

import os
import sys

from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.envelopes import Reply
from memory_sqlite.processes.frames import FrameReader


def main(how: str) -> None:
    reader = FrameReader(0)
    reader.read()
    if how == "no start":
        sys.exit(3)
    os.write(1, frames.pack(envelopes.hello("preparation")))
    while True:
        frame = reader.read()
        assert frame is not None
        number, kind = frame.header["id"], frame.header["kind"]
        if how == "dies":
            os._exit(9)
        elif how == "defect":
            os.write(1, frames.pack(envelopes.reply(Reply(number, kind, "defect", {"exception": "KeyError"}))))
        elif how == "large":
            os.write(1, frames.pack(envelopes.reply(Reply(number, kind, "large", {}))))
        elif how == "empty":
            os.write(1, frames.pack(envelopes.reply(Reply(number, kind, "ok", {}))))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except EOFError:
        pass
