"""Lines of a JSONL file, a block of a mebibyte at a time; only those that may matter are cut out of it.

Where a query says what a line must contain, blocks are searched for that before they are cut into lines, which is ten
times faster than looking at each. Never more than one line and one block is held. Not here: what lines mean
(``line_values``), what a query says (``prefilter``). Called by ``jsonl_table``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path

from memory_sqlite import limits
from memory_sqlite.query.prefilter import Needle
from memory_sqlite.sources.compressed import open_binary
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines of a file from line ``first`` on, or one line. ``data`` is ``None`` for a line that is too long.

    ``ended`` is false for a last line without a line feed, ``problem`` says why a file could not be read further.
    """

    first: int
    data: bytes | None
    ended: bool = True
    problem: str | None = None


def pieces(path: Path, tick: Callable[[int], None]) -> Iterator[Piece]:
    """The file in pieces. ``tick`` hears how many bytes were read and raises when the time is up.

    Compressed files are read as they are unpacked: what a small file claims to hold is bounded by the time of the query
    and never held. Raises ``InvalidArgument``, ``ExtraMissing``.
    """
    number, kept, size = 1, list[bytes](), 0
    try:
        with open_binary(path) as source:
            for block in _blocks(source, tick):
                data = block
                if size:
                    end = data.find(b"\n") + 1
                    size += end or len(data)
                    if size > limits.TRANSCRIPT_LINE_MAX_BYTES:
                        kept.clear()
                    else:
                        kept.append(data[:end] if end else data)
                    if not end:
                        continue
                    yield Piece(number, b"".join(kept) if kept else None)
                    number, kept, size = number + 1, [], 0
                    data = data[end:]
                cut = data.rfind(b"\n") + 1
                if cut:
                    yield Piece(number, data[:cut])
                    number += data.count(b"\n", 0, cut)
                if cut < len(data):
                    kept, size = [data[cut:]], len(data) - cut
        if size:
            yield Piece(number, b"".join(kept) if kept else None, ended=False)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield Piece(number, b"", problem="the compressed data ends early or is damaged")
    except OSError as error:
        yield Piece(number, b"", problem=f"the file cannot be read ({error.strerror})")


def _blocks(source: BufferedReader | gzip.GzipFile, tick: Callable[[int], None]) -> Iterator[bytes]:
    while block := source.read1(limits.QUERY_BLOCK_BYTES):  # what comes before damage is given out
        tick(len(block))
        yield block


def lines(data: bytes, first: int, needle: Needle | None) -> Iterator[tuple[int, bytes]]:
    """Number and bytes, without the line feed, of each line, or of each that may fit ``needle``."""
    if needle is None:
        cut = data.split(b"\n")
        if not cut[-1]:
            cut.pop()
        yield from enumerate(cut, first)
        return
    searched = data.lower() if needle.fold else data
    places = [searched.find(one) for one in needle.alternatives]
    at, number = 0, first
    while True:
        hit = min((place for place in places if place >= 0), default=-1)
        if hit < 0:
            return
        start = data.rfind(b"\n", at, hit) + 1 or at
        end = data.find(b"\n", hit)
        if end < 0:
            end = len(data)
        number += data.count(b"\n", at, start)
        yield number, data[start:end]
        at, number = end + 1, number + 1
        places = [
            place if place < 0 or place > end else searched.find(one, at)
            for place, one in zip(places, needle.alternatives, strict=True)
        ]
