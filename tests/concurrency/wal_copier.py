"""Run by ``test_wal_copier``: a small replicator of the kind that copies WAL frames, as Litestream is, in a process
of its own. It is told what to do line by line and answers each with one JSON document.

    wal_copier.py STORE REPLICA

Like those it keeps a read transaction open, so that nobody else can start the log anew, writes into tables of its own,
checkpoints by itself, and takes the whole file again when it has lost its place.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import apsw

HEADER, FRAME = 32, 24


def checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    """SQLite's running checksum of a WAL (https://sqlite.org/fileformat2.html, section 4.2)."""
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


class Copier:
    def __init__(self, store: str, replica: str) -> None:
        self.store, self.log, self.replica = Path(store), Path(store + "-wal"), Path(replica)
        self.connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READWRITE)
        self.connection.set_busy_timeout(1_000)
        self.connection.wal_autocheckpoint(0)
        self.connection.execute("CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        self.connection.execute("CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER)")
        self.pages: dict[int, bytes] = {}
        self.size = 4096
        self.salt = b""
        self.snapshots = self.frames = 0
        self.begin()
        self.snapshot()

    def begin(self) -> None:
        """A frame of its own at the end of the log, then the read transaction that keeps it from starting anew."""
        self.connection.execute(
            "INSERT INTO _litestream_seq VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET seq = seq + 1"
        ).fetchall()
        self.connection.execute("BEGIN DEFERRED").fetchall()
        self.connection.execute("SELECT count(*) FROM _litestream_seq").fetchall()

    def snapshot(self) -> None:
        """The whole file; what is in the log is read over it from its beginning."""
        data = self.store.read_bytes()
        self.snapshots += 1
        self.pages = {number + 1: data[at : at + 4096] for number, at in enumerate(range(0, len(data), 4096))}
        self.start(self.log.read_bytes()[:HEADER])

    def start(self, header: bytes) -> None:
        self.salt, self.offset = header[16:24], HEADER
        self.order = "<" if header[:4] == b"\x37\x7f\x06\x82" else ">"
        self.sums = struct.unpack(">II", header[24:32])
        assert checksum(header[:24], self.order, 0, 0) == self.sums, "the header is whole"

    def sync(self) -> None:
        """Copy every committed transaction that is new."""
        log = self.log.read_bytes() if self.log.exists() else b""
        if log[16:24] != self.salt or len(log) < self.offset:
            self.snapshot()
            log = self.log.read_bytes()
        at, sums, waiting = self.offset, self.sums, {}
        while at + FRAME + self.size <= len(log):
            head, page = log[at : at + FRAME], log[at + FRAME : at + FRAME + self.size]
            number, pages = struct.unpack(">II", head[:8])
            sums = checksum(head[:8] + page, self.order, *sums)
            if head[8:16] != self.salt or struct.unpack(">II", head[16:24]) != sums:
                break  # left over from before the log began anew
            at += FRAME + self.size
            waiting[number] = page
            self.frames += 1
            if pages:  # a commit, and how many pages the file has after it
                self.pages |= waiting
                self.pages = {key: value for key, value in self.pages.items() if key <= pages}
                self.offset, self.sums, waiting = at, sums, {}

    def checkpoint(self, mode: str) -> None:
        """Its own: the lock let go for it alone, and nothing missed meanwhile."""
        self.sync()
        self.connection.execute("COMMIT").fetchall()
        self.connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        self.begin()
        header = self.log.read_bytes()[:HEADER]
        if header[16:24] != self.salt:
            self.start(header)  # its own doing: everything before it has been copied
        self.sync()

    def write(self) -> None:
        self.sync()
        self.replica.write_bytes(b"".join(self.pages[number] for number in range(1, len(self.pages) + 1)))


def main() -> None:
    copier = Copier(*sys.argv[1:])
    print(json.dumps({"snapshots": copier.snapshots}), flush=True)
    for line in sys.stdin:
        word, _, mode = line.strip().partition(" ")
        if word == "stop":
            copier.write()
            copier.connection.close()
            break
        {"sync": copier.sync, "write": copier.write, "checkpoint": lambda: copier.checkpoint(mode)}[word]()  # noqa: B023
        print(json.dumps({"snapshots": copier.snapshots, "frames": copier.frames}), flush=True)
    print(json.dumps({"snapshots": copier.snapshots, "frames": copier.frames}), flush=True)


if __name__ == "__main__":
    main()
