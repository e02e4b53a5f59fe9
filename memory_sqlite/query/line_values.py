"""One line of JSONL as columns: its text, its JSON, what is wrong with it, and the keys of its object.

No line is refused: one that is damaged is a row whose ``error`` says how. Not here: which lines (``blocks``), which
columns (``promoted``). Called by ``jsonl_table``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.scanner import make_scanner
from operator import methodcaller
from typing import Any, Final, cast

from memory_sqlite import limits
from memory_sqlite.text.units import valid_unicode

SqlValue = str | int | float | bytes | None
_BOM: Final = b"\xef\xbb\xbf"
_INTEGERS: Final = range(-(2**63), 2**63)
TOO_LONG: Final = f"longer than {limits.TRANSCRIPT_LINE_MAX_BYTES} bytes"


_SURROGATES: Final = re.compile(r"\\[^u]|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")
"""Escapes of JSON: the one group is half a character."""


class _NotJson(ValueError):
    """NaN or an infinity, which Python reads and JSON does not know."""


class _Twice(ValueError):
    """A key appears twice in one object."""


def _no_constant(_name: str) -> None:
    raise _NotJson


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice
    return made


_Scan = Callable[[str, int], tuple[Any, int]]
_make: Final[Callable[[json.JSONDecoder], _Scan]] = cast(Any, make_scanner)
_scan: Final = _make(json.JSONDecoder(parse_constant=_no_constant))
_scan_strictly: Final = _make(json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_once))
"""The scanner itself: ``decode`` takes half as long again for looking at white space with patterns (short lines)."""
_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SPACE: Final = " \t\r\n"
_NOTHING: Final[dict[str, Any]] = {}


Parsed = tuple[dict[str, Any], str | None, str | None]
"""What a line holds: its object and its JSON, empty and ``None`` where it is none; and what is wrong with it."""


def text_of(data: bytes) -> str:
    """The line as text; what is not UTF-8 becomes U+FFFD."""
    if data.startswith(_BOM):
        data = data[3:]
    return data.decode("utf-8", "replace").rstrip("\r\n")


def plain_object(data: bytes) -> tuple[dict[str, Any], str] | None:
    """The object and text of a line that is one and nothing else, as nearly all are; ``None`` for any other, which
    ``parse`` looks at. Measured: a sixth of the time of a query that parses every line."""
    try:
        text = data.decode()
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError):
        return None
    return (value, _whole(text)) if end == len(text) and value.__class__ is dict else None


def parse(data: bytes, ended: bool, strict: bool) -> Parsed:
    """Read one line. With ``strict`` a key that appears twice is told, which takes twice the time; the last one counts
    either way."""
    if data.startswith(_BOM):
        data = data[3:]
    error = None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text, error = data.decode("utf-8", "replace"), "bytes that are not UTF-8"
    try:
        if text[:1] in _SPACE:  # also an empty text
            text = text.lstrip(_SPACE)
        value, end = (_scan_strictly if strict else _scan)(text, 0)
        if end != len(text) and text[end:].strip(_SPACE):
            raise StopIteration  # as the scanner itself says that there is no value
    except _Twice:
        keys, found, error = parse(data, ended, False)
        return keys, found, error or "a key appears twice"
    except (StopIteration, json.JSONDecodeError):
        if "\0" in text and not text.strip("\0 \t\r\n"):
            error = "only NUL bytes"
        else:
            error = "not valid JSON" if ended else "not valid JSON: the last line has no end"
        return _NOTHING, None, error
    except RecursionError:
        return _NOTHING, None, "nested too deeply"
    except _NotJson:
        return _NOTHING, None, "NaN or Infinity, which JSON does not know"
    except ValueError:  # CPython refuses more than 4,300
        return _NOTHING, None, "a number has too many digits"
    return (value if value.__class__ is dict else _NOTHING), _whole(text[:end]), error


def _whole(text: str) -> str:
    """JSON without escapes of half a character, of which SQLite's functions would make what is no text."""
    if "\\u" not in text:
        return text
    return _SURROGATES.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


def sql_value(value: Any) -> SqlValue:
    """A JSON value as SQLite's own functions give it: text, number, 0 and 1, NULL; objects and lists as their JSON."""
    kind = value.__class__
    if kind is str:
        # a lone surrogate, which JSON can spell, is in no database; an ASCII text says so at once
        return value if value.isascii() else valid_unicode(value)
    if kind is int:
        return value if value in _INTEGERS else str(value)
    if value is None or kind is float:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return int(value)
    text = _dump(value)
    return text if text.isascii() else valid_unicode(text)


def getter(name: str, dotted: bool) -> Callable[[dict[str, Any]], Any]:
    """How a column finds its value; with ``dotted``, ``a.b`` is key ``b`` of the object at key ``a``."""
    path = name.split(".") if dotted else [name]
    if len(path) == 1:
        return methodcaller("get", name)
    first, *rest = path

    def walk(keys: dict[str, Any]) -> Any:
        found = keys.get(first)
        for step in rest:
            if found.__class__ is not dict:
                return None
            found = found.get(step)
        return found

    return walk
