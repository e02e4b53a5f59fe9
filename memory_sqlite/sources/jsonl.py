"""Reading JSON lines that others wrote: tolerant, streaming, never holding more than one line.

Here: bytes of a transcript file become decoded JSON values with line numbers and offsets, whatever a crash, an editor
or a power loss did to the file. Not here: what the values mean (``transcript_formats``,
``interop.layered_directory``).
Only files of hosts are opened here, never a database, and never for writing.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from memory_sqlite import limits
from memory_sqlite.sources.compressed import open_binary
from memory_sqlite.values import dataclass, field

_BOM: Final = b"\xef\xbb\xbf"
_PADDING: Final = "\0 \t\r\n\ufeff"
_SKIP_BYTES: Final = 1 * limits.MIB
_REPAIR_FACTOR: Final = 8
"""A damaged line is scanned at most this many times its length, so that no line costs quadratic time."""


@dataclass(frozen=True, slots=True)
class Line:
    """One physical line. ``offset`` and ``end_offset`` are bytes of the (uncompressed) file, half open.

    ``values`` are the JSON values found on it, usually one. ``problem`` says what was lost, without quoting it; a line
    can have both, when it was damaged and partly recovered. ``complete`` is false for a last line that is still being
    written: it holds nothing, is no error, and will be read again from ``offset``. ``replaced`` counts U+FFFD that
    stand for bytes that were not UTF-8.
    """

    number: int
    offset: int
    end_offset: int
    values: list[object] = field(default_factory=list)
    problem: str | None = None
    complete: bool = True
    replaced: int = 0


def read_lines(path: Path, *, offset: int = 0, line: int = 1) -> Iterator[Line]:
    """Every line of ``path`` from byte ``offset`` on, the first of which is numbered ``line``.

    Lines end at ``\\n`` and nowhere else: U+2028, U+2029, NEL and form feed are ordinary characters inside JSON
    strings. A line longer than ``limits.TRANSCRIPT_LINE_MAX_BYTES`` is refused without being held in memory.
    """
    with open_binary(path) as source:
        if offset:
            source.seek(offset)
        try:
            while True:
                data = source.readline(limits.TRANSCRIPT_LINE_MAX_BYTES + 1)
                if not data:
                    return
                ended = data.endswith(b"\n")
                if not ended and len(data) > limits.TRANSCRIPT_LINE_MAX_BYTES:
                    size, ended = _skip_rest(source)
                    end = offset + len(data) + size
                    del data
                    problem = f"longer than {limits.TRANSCRIPT_LINE_MAX_BYTES} bytes"
                    yield Line(line, offset, end, problem=problem) if ended else Line(line, offset, end, complete=False)
                else:
                    end = offset + len(data)
                    decoded = _decode(data, line, offset, end, ended)
                    del data  # not held while the caller works on the line
                    yield decoded
                    del decoded
                offset, line = end, line + 1
        except (EOFError, zlib.error, gzip.BadGzipFile):
            yield Line(line, offset, offset, problem="the compressed data ends early or is damaged")


def _skip_rest(source: BufferedReader | gzip.GzipFile) -> tuple[int, bool]:
    """Read past the rest of an over-long line: how many bytes, and whether it ended."""
    size = 0
    while True:
        data = source.readline(_SKIP_BYTES)
        size += len(data)
        if data.endswith(b"\n"):
            return size, True
        if not data:
            return size, False


def decode_value(data: bytes) -> tuple[object, str | None]:
    """The one JSON value in ``data``, or ``None`` and what is wrong with it: what came out of an envelope is mended
    nowhere. NaN and the infinities become null."""
    try:
        return _DECODER.decode(data.decode("utf-8")), None
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except RecursionError:
        return None, "nested too deeply"
    except json.JSONDecodeError:
        return None, "not valid JSON"
    except ValueError:
        return None, "a number has too many digits"


def _decode(data: bytes, number: int, offset: int, end: int, ended: bool) -> Line:
    if data.startswith(_BOM):
        data = data[3:]
    replaced = 0
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        replaced = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    values: list[object] = []
    problem: str | None = None
    try:
        values.append(_DECODER.decode(text))
    except json.JSONDecodeError:
        values, problem = _repair(text)
    except RecursionError:
        problem = "nested too deeply"
    except ValueError:
        problem = "a number has too many digits"  # CPython refuses more than 4,300
    if not ended and (problem is not None or not values):
        return Line(number, offset, end, complete=False)
    return Line(number, offset, end, values, problem, replaced=replaced)


def _repair(text: str) -> tuple[list[object], str | None]:
    """Objects on a line that is not one JSON value: glued, padded with NUL, cut at the start or at the end.

    After a failure the next ``{"`` that decodes is taken, if a record can end where it ends: at the end of the line or
    before another record. An inner object of a torn record is followed by ``,``, ``]`` or ``}`` and is not taken.
    """
    padded = "\0" in text
    text = text.strip(_PADDING)
    if not text:
        return [], "only NUL bytes" if padded else None
    values: list[object] = []
    problem: str | None = None
    budget = _REPAIR_FACTOR * len(text) + limits.MIB
    at = 0
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            problem = "not valid JSON"
            # making the error counts the lines before it, at a tenth of the price of decoding (1,578 : 163 MiB/s)
            budget -= error.pos - at + error.pos // 10 + 1
            at = text.find('{"', at + 1)
        except (RecursionError, ValueError):
            problem = "nested too deeply, or a number has too many digits"
            budget -= len(text) - at
            at = text.find('{"', at + 1)
        else:
            following = _next_visible(text, end)
            if problem is None or following == len(text) or text[following] == "{":
                values.append(value)
                at = following
            else:
                at = text.find('{"', end)
        if at < 0:
            break
        if budget < 0:
            problem = "too damaged to recover the rest"
            break
    return values, problem


def _next_visible(text: str, at: int) -> int:
    while at < len(text) and text[at] in _PADDING:
        at += 1
    return at


def _no_constant(_name: str) -> None:
    """NaN and the infinities are not JSON: they become null, so that what is stored stays valid JSON."""


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
