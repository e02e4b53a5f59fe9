"""Which keys of JSONL lines become columns: those of a sample, and those that the query names beside the pattern.

The sample is the beginning of up to 16 files spread over all of them. A key that comes only later is reached through
``value ->> '$.key'``, or named: ``jsonl('…', 'key, message.role')``. Called by ``jsonl_table``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument
from memory_sqlite.query.blocks import lines, pieces
from memory_sqlite.query.line_values import getter, parse
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.values import dataclass

FIXED: Final = ("file", "line", "raw", "value", "error")
HIDDEN: Final = ("_pattern", "_columns")
_NAME_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Column:
    """One column made of a key."""

    name: str
    get: Callable[[dict[str, Any]], Any]


def columns(files: Sequence[Path], wanted: str, check: Callable[[], None]) -> tuple[list[Column], bool]:
    """The columns in the order in which their keys were met, those named by the query first; and whether some keys
    were left out for their number.

    Raises ``InvalidArgument`` for a name that is taken or too long.
    """
    taken = {name.lower() for name in (*FIXED, *HIDDEN)}
    found: list[Column] = []
    for name in filter(None, (name.strip() for name in wanted.split(","))):
        if name.lower() in taken:
            raise InvalidArgument("a column named beside the pattern is there twice or is one of the fixed ones")
        if len(name) > _NAME_MAX or "\0" in name:
            raise InvalidArgument("a column named beside the pattern is too long")
        taken.add(name.lower())
        found.append(Column(name, getter(name, dotted=True)))
    if len(found) > limits.QUERY_PROMOTED_MAX:
        raise InvalidArgument(f"more than {limits.QUERY_PROMOTED_MAX} columns are named beside the pattern")
    for key in _keys(files, check):
        name = valid_unicode(key)
        # SQLite knows no difference between Type and type: the first one counts
        if name.lower() in taken or not name or len(name) > _NAME_MAX or "\0" in name:
            continue
        if len(found) >= limits.QUERY_PROMOTED_MAX:
            return found, True
        taken.add(name.lower())
        found.append(Column(name, getter(key, dotted=False)))
    return found, False


def _keys(files: Sequence[Path], check: Callable[[], None]) -> list[str]:
    met: dict[str, None] = {}
    step = max(1, len(files) // limits.QUERY_SAMPLE_FILES)
    for path in files[::step][: limits.QUERY_SAMPLE_FILES]:
        read = 0
        for piece in pieces(path, lambda _size: check()):
            for _, line in lines(piece.data or b"", piece.first, None):
                met.update(dict.fromkeys(parse(line, True, False)[0]))
                read += len(line) + 1
                if read > limits.QUERY_SAMPLE_BYTES:
                    break
            check()
            if read > limits.QUERY_SAMPLE_BYTES:
                break
    return list(met)


def declaration(promoted: Sequence[Column]) -> str:
    """The table as SQLite wants it declared."""
    names = [*FIXED, *(column.name for column in promoted)]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    return f"CREATE TABLE x({', '.join(quoted)}, {', '.join(f'{name} HIDDEN' for name in HIDDEN)})"
