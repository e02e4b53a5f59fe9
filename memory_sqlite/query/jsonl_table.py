"""``jsonl('pattern')``: the lines of JSONL files as a virtual table, lazy and streaming.

SQLite is asked which columns and conditions it has in mind: a line is parsed only where a value of it is needed, files
and line numbers that cannot matter are not read, and conditions on text become byte strings to look for
(``prefilter``). SQLite checks every condition again, so that what is handed over is only ever too much. Called by
``running``.
"""

# ruff: noqa: N802 - the methods are called as apsw calls them
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite.query import prefilter
from memory_sqlite.query.blocks import lines, pieces
from memory_sqlite.query.files import named
from memory_sqlite.query.line_values import TOO_LONG, SqlValue, parse, plain_object, sql_value, text_of
from memory_sqlite.query.prefilter import Needle
from memory_sqlite.query.promoted import FIXED, Column, columns, declaration
from memory_sqlite.query.reading import Reading

_FILE, _LINE, _RAW, _VALUE, _ERROR = range(len(FIXED))
_OPERATORS: Final = {
    apsw.SQLITE_INDEX_CONSTRAINT_EQ: "=",
    apsw.SQLITE_INDEX_CONSTRAINT_LIKE: "LIKE",
    apsw.SQLITE_INDEX_CONSTRAINT_GLOB: "GLOB",
    apsw.SQLITE_INDEX_CONSTRAINT_LE: "<=",
    apsw.SQLITE_INDEX_CONSTRAINT_LT: "<",
    apsw.SQLITE_INDEX_CONSTRAINT_GE: ">=",
    apsw.SQLITE_INDEX_CONSTRAINT_GT: ">",
}
_HIGHEST: Final = 2**63 - 1
_COST: Final = 1_000_000.0
"""That reading files is dear, whatever the conditions: SQLite then reads them once, in the outer loop."""
_RARE, _MANY = 3, 64
"""A byte string that more than every third line of many has is no longer looked for."""


class JsonlModule:
    """The module of one pattern; with ``pattern`` ``None`` the pattern comes with the query and no key is a column."""

    def __init__(self, reading: Reading, pattern: str | None, wanted: str) -> None:
        self.reading = reading
        self._pattern = pattern
        self._wanted = wanted
        self._table: JsonlTable | None = None

    def Create(self, *_: Any) -> tuple[str, JsonlTable]:
        """Find the files and their keys. Raises what ``files.named`` raises."""
        if self._table is None:
            files: list[Path] | None = None
            promoted: list[Column] = []
            if self._pattern is not None:
                files = named(self._pattern, self.reading.check)
                promoted, has_more = columns(files, self._wanted, self.reading.check)
                if has_more:
                    self.reading.remark("More keys were met than become columns; reach the others through value.")
            self._table = JsonlTable(self.reading, files, promoted)
        return declaration(self._table.promoted), self._table

    Connect = Create


class JsonlTable:
    """One table; SQLite makes a cursor for each reading of it."""

    def __init__(self, reading: Reading, files: list[Path] | None, promoted: list[Column]) -> None:
        self.reading = reading
        self.files = files
        self.promoted = promoted
        self._hidden = len(FIXED) + len(promoted)

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        """Take every condition that can spare reading; refuse a plan in which the pattern is not known."""
        taken: list[list[Any]] = []
        has_pattern = self.files is not None
        for at in range(info.nConstraint):
            column = info.get_aConstraint_iColumn(at)
            sign = _OPERATORS.get(info.get_aConstraint_op(at))
            if sign is None or not info.get_aConstraint_usable(at):
                continue
            is_hidden = column >= self._hidden
            if is_hidden and sign != "=":
                continue
            if not is_hidden and not self._spares(info, at, column, sign):
                continue
            if not is_hidden and sign == "=" and info.get_aConstraintUsage_in(at):
                info.set_aConstraintUsage_in(at, True)  # all of them at once, not one reading for each
            taken.append([column - self._hidden - 2 if is_hidden else column, sign])
            info.set_aConstraintUsage_argvIndex(at, len(taken))
            info.set_aConstraintUsage_omit(at, is_hidden)
            has_pattern = has_pattern or column == self._hidden
        if not has_pattern:
            return False
        wanted = sorted(column for column in info.colUsed if column < self._hidden)
        info.idxStr = json.dumps({"columns": wanted, "conditions": taken}, separators=(",", ":"))
        info.estimatedCost = _COST
        info.estimatedRows = 1_000_000
        order = [(info.get_aOrderBy_iColumn(at), info.get_aOrderBy_desc(at)) for at in range(info.nOrderBy)]
        info.orderByConsumed = order in ([(_FILE, False)], [(_FILE, False), (_LINE, False)]) and self._is_sorted()
        return True

    def _is_sorted(self) -> bool:
        """Whether files come in SQLite's order: so they do unless a name is no Unicode."""
        return self.files is not None and all(_shown(path) == str(path) for path in self.files)

    def _spares(self, info: apsw.IndexInfo, at: int, column: int, sign: str) -> bool:
        if column == _LINE:
            return sign not in ("LIKE", "GLOB")
        if column == _FILE:
            return sign == "=" and info.get_aConstraint_collation(at) == "BINARY"
        if column in (_RAW, _VALUE):
            return sign in ("LIKE", "GLOB")
        if column == _ERROR:
            return False
        return sign in ("LIKE", "GLOB") or (sign == "=" and info.get_aConstraint_collation(at) == "BINARY")

    def Open(self) -> JsonlCursor:
        return JsonlCursor(self)

    def Disconnect(self) -> None:
        """Nothing is held."""

    Destroy = Disconnect


class JsonlCursor:
    """One walk through the files. ``Column`` is called once a row and column, so it is kept short."""

    def __init__(self, table: JsonlTable) -> None:
        self._table = table
        self._getters = [_nothing] * len(FIXED) + [column.get for column in table.promoted]
        self._hidden = len(self._getters)
        self._reading = table.reading
        self._at_end = False
        self._problem: str | None = None
        self._text: str | None = None
        self._error: str | None = None

    def Filter(self, _number: int, plan: str, values: Sequence[Any]) -> None:
        """Begin. ``plan`` is what ``BestIndexObject`` wrote, ``values`` belong to its conditions in order."""
        said = json.loads(plan)
        self._at_end = False
        wanted: list[int] = said["columns"]
        self._strict = _ERROR in wanted
        files = self._table.files
        only: set[str] | None = None
        low, high = 1, _HIGHEST
        needles: list[Needle | None] = []
        for (column, sign), value in zip(said["conditions"], values, strict=True):
            if column == -2:
                if files is None:
                    files = named(value if isinstance(value, str) else "", self._reading.check)
            elif column == -1:
                continue
            elif column == _FILE:
                only = set(value) if isinstance(value, set | frozenset) else {value}
            elif column == _LINE:
                low, high = _range(sign, value, low, high)
            elif column in (_RAW, _VALUE):
                needles.append(prefilter.of_text(sign, value, of_json=column == _VALUE))
            else:
                needles.append(prefilter.of_value(sign, value))
        chosen = [path for path in files or () if only is None or _shown(path) in only]
        self._rowid = 0
        self._rows = self._walk(chosen, low, high, prefilter.best(needles))
        self.Next()

    def _walk(self, files: Sequence[Path], low: int, high: int, needle: Needle | None) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of each line that may be wanted; what is true of many of them is kept beside."""
        for path in files:
            self._reading.files_read += 1
            self._file = _shown(path)
            for piece in pieces(path, self._reading.tick):
                if piece.first > high:
                    break
                self._ended, self._problem = piece.ended, piece.problem
                if piece.data is None or piece.problem is not None:
                    self._problem = self._problem or TOO_LONG
                    yield piece.first, b""
                    continue
                met = 0
                for number, data in lines(piece.data, piece.first, needle):
                    met += 1
                    if low <= number <= high and data and not data.isspace():
                        yield number, data
                if needle is not None and met > _MANY and met * _RARE > piece.data.count(b"\n"):
                    needle = None  # looking for what nearly every line has costs more than it spares

    def Next(self) -> None:
        row = next(self._rows, None)
        self._keys: dict[str, Any] | None = None
        self._rowid += 1
        if row is None:
            self._at_end = True
        else:
            self._line, self._data = row

    def Eof(self) -> bool:
        return self._at_end

    def Rowid(self) -> int:
        return self._rowid

    def Column(self, column: int) -> SqlValue:
        if column >= _VALUE:
            keys = self._keys
            if keys is None:
                keys = self._parse()
            if column > _ERROR:
                if column >= self._hidden:
                    return None
                return sql_value(self._getters[column](keys))
            return self._text if column == _VALUE else self._error
        if column == _LINE:
            return self._line
        if column == _RAW:
            return None if self._problem else text_of(self._data)
        return self._file if column == _FILE else self._rowid  # -1 is the row's number

    def _parse(self) -> dict[str, Any]:
        if self._problem is not None:
            self._keys, self._text, self._error = {}, None, self._problem
            return self._keys
        if not self._strict:
            found = plain_object(self._data)
            if found is not None:
                self._keys, self._text = found
                self._error = None
                return self._keys
        self._keys, self._text, self._error = parse(self._data, self._ended, self._strict)
        return self._keys

    def Close(self) -> None:
        """The file is closed with its reading."""
        self._rows = iter(())


def _nothing(_keys: dict[str, Any]) -> None:
    """In place of a column that no key stands for."""


def _range(sign: str, value: Any, low: int, high: int) -> tuple[int, int]:
    """Line numbers that ``line <sign> value`` leaves; SQLite itself decides about anything but a whole number."""
    if not isinstance(value, int):
        return low, high
    if sign in ("=", ">=", ">"):
        low = max(low, value)
    if sign in ("=", "<=", "<"):
        high = min(high, value)
    return low, high


def _shown(path: Path) -> str:
    """A path as valid text."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
