"""Many texts, runs of bytes and columns of small values as one message, and back, checked whole.

Texts travel joined, behind their lengths: as strings in JSON they would cost twice as much to write and to read. Not
here: what they are (``prepared``, the only caller), frames (``frames``).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_sqlite.processes import checks
from memory_sqlite.processes.checks import Check
from memory_sqlite.processes.frames import WireError

Message = tuple[dict[str, Any], bytes]
"""The JSON body and the bytes of a request or a reply; or a part of each."""


def joined_texts(texts: Sequence[str]) -> Message:
    """Texts, lone surrogates too: how many, and one after the other."""
    blob = "".join(texts).encode("utf-8", "surrogatepass")
    return {"count": len(texts), "size": len(blob)}, _lengths_bytes([len(text) for text in texts]) + blob


def parted_texts(said: object, blob: bytes, start: int) -> tuple[list[str], int]:
    """The texts in ``blob`` from ``start`` on, and where they end. Raises ``WireError``."""
    fields = checks.fields(said, {"count": checks.count, "size": checks.count})
    lengths, at = _lengths_of(fields["count"], blob, start)
    end = at + fields["size"]
    try:
        text = blob[at:end].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise WireError("texts that are not UTF-8") from None
    if end > len(blob) or sum(lengths) != len(text):
        raise WireError("texts of other lengths than agreed")
    parts, at = [], 0
    for length in lengths:
        parts.append(text[at : at + length])
        at += length
    return parts, end


def joined_bytes(runs: Sequence[bytes]) -> Message:
    """Runs of bytes: how many, and one after the other."""
    return {"count": len(runs)}, b"".join((_lengths_bytes([len(run) for run in runs]), *runs))


def parted_bytes(said: object, blob: bytes, start: int) -> tuple[list[bytes], int]:
    """The runs of bytes in ``blob`` from ``start`` on, and where they end. Raises ``WireError``."""
    lengths, at = _lengths_of(checks.fields(said, {"count": checks.count})["count"], blob, start)
    end = at + sum(lengths)
    if end > len(blob):
        raise WireError("fewer bytes than agreed")
    parts = []
    for length in lengths:
        parts.append(blob[at : at + length])
        at += length
    return parts, end


def _lengths_bytes(lengths: Sequence[int]) -> bytes:
    # native numbers: both ends are one installation on one machine, and a frame holds no length above 2**32
    return array("I", lengths).tobytes()


def _lengths_of(count: int, blob: bytes, start: int) -> tuple[array[int], int]:
    lengths = array("I")
    end = start + count * lengths.itemsize
    if end > len(blob):
        raise WireError("fewer lengths than agreed")
    lengths.frombytes(blob[start:end])
    return lengths, end


def columns(values: Sequence[object], table: Mapping[str, Check[Any]]) -> dict[str, list[Any]]:
    """The attributes named in the table, of all values."""
    return {name: [getattr(value, name) for value in values] for name in table}


def rows(said: object, table: Mapping[str, Check[Any]], count: int) -> Iterator[dict[str, Any]]:
    """``count`` values of columns, each as its attributes by name. Raises ``WireError``."""
    columns = checks.fields(said, {name: checks.several(check) for name, check in table.items()})
    if any(len(column) != count for column in columns.values()):
        raise WireError("columns of other lengths than agreed")
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def in_groups(texts: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Texts by ``size`` at a time. Raises ``WireError`` when some are left over."""
    if len(texts) % size:
        raise WireError("texts of other numbers than agreed")
    return list(zip(*[iter(texts)] * size, strict=True))
