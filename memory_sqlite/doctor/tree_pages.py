"""B-tree pages of a SQLite file as bytes: their cells, and the rows in them. Nothing is trusted, nothing raises.

After the file format that SQLite documents (sqlite.org/fileformat2.html, sections 1.6 and 2.1): SQLite itself gives up
a whole tree where one page of it is damaged, and the module that would read on (``sqlite_dbdata``) is not compiled in.
Not here: which page belongs to which table (``tree_walk``), where the bytes come from (``page_copy``).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack, unpack_from
from typing import Final

from memory_sqlite import limits
from memory_sqlite.values import dataclass

INTERIOR_INDEX: Final = 2
INTERIOR_TABLE: Final = 5
LEAF_INDEX: Final = 10
LEAF_TABLE: Final = 13
KINDS: Final = frozenset({INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE})
INTERIOR: Final = frozenset({INTERIOR_INDEX, INTERIOR_TABLE})
_FILE_HEADER: Final = 100
"""The first page's b-tree header begins behind the file's."""
_INTEGER_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)

Value = int | float | str | bytes | None
Page = Callable[[int], bytes | None]
"""The bytes of a page by its number, from 1; ``None`` for one that cannot be read."""


@dataclass(frozen=True, slots=True)
class Cells:
    """One page: its kind, the pages below it, and for each cell that can be read its rowid (0 in an index) and values.

    ``broken`` counts cells that are there and cannot be read."""

    kind: int
    children: tuple[int, ...]
    rows: tuple[tuple[int, tuple[Value, ...]], ...]
    broken: int


class Reader:
    """Reads pages of one file. ``usable`` is the page's size less what a cipher keeps at its end."""

    def __init__(self, page: Page, count: int, usable: int) -> None:
        self._page = page
        self.count = count
        self._usable = usable

    def header(self) -> bytes:
        """The file's header, zeros where it cannot be read."""
        return (self._page(1) or b"")[:_FILE_HEADER].ljust(_FILE_HEADER, b"\0")

    def kind(self, number: int) -> int | None:
        """Of what kind a page is, or ``None`` when it is no b-tree page or cannot be read."""
        page = self._page(number)
        at = _FILE_HEADER if number == 1 else 0
        return page[at] if page is not None and page[at] in KINDS else None

    def cells(self, number: int) -> Cells | None:
        """A page taken apart, or ``None`` when it is no b-tree page or cannot be read."""
        page = self._page(number)
        kind = self.kind(number)
        if page is None or kind is None:
            return None
        at = _FILE_HEADER if number == 1 else 0
        header = 12 if kind in INTERIOR else 8
        (stated,) = unpack_from(">H", page, at + 3)
        room = (self._usable - at - header) // 2  # a damaged count must not lead outside
        children: list[int] = []
        rows: list[tuple[int, tuple[Value, ...]]] = []
        broken = max(0, stated - room)
        for cell in range(min(stated, room)):
            (offset,) = unpack_from(">H", page, at + header + 2 * cell)
            try:
                self._cell(page, kind, offset, children, rows)
            except (IndexError, ValueError):  # out of bounds, cut off, no UTF-8
                broken += 1
        if kind in INTERIOR:
            children.append(unpack_from(">I", page, at + 8)[0])
        return Cells(kind, tuple(children), tuple(rows), broken)

    def _cell(
        self, page: bytes, kind: int, at: int, children: list[int], rows: list[tuple[int, tuple[Value, ...]]]
    ) -> None:
        if kind in INTERIOR:
            children.append(int.from_bytes(_slice(page, at, 4, self._usable), "big"))
            at += 4
        if kind == INTERIOR_TABLE:
            return
        length, at = _varint(page, at)
        rowid = 0
        if kind == LEAF_TABLE:
            rowid, at = _varint(page, at)
        if length > limits.SALVAGE_ROW_MAX_BYTES:
            raise ValueError("longer than any row of ours")
        rows.append((_signed(rowid), record(self._payload(page, at, length, kind == LEAF_TABLE))))

    def _payload(self, page: bytes, at: int, length: int, is_table: bool) -> bytes:
        usable = self._usable
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return _slice(page, at, length, usable)
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        parts = [_slice(page, at, local, usable)]
        left = length - local
        following = int.from_bytes(_slice(page, at + local, 4, usable), "big")
        while left > 0:  # bounded by the length, whatever the chain says
            further = self._page(following)
            if further is None:
                raise ValueError("a page of a long row cannot be read")
            parts.append(further[4 : 4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(further[:4], "big")
        return b"".join(parts)


def record(payload: bytes) -> tuple[Value, ...]:
    """The values of one row. Raises ``ValueError`` and ``IndexError`` for bytes that are none."""
    size, at = _varint(payload, 0)
    if size > len(payload):
        raise ValueError("a header longer than its row")
    types = []
    while at < size:
        kind, at = _varint(payload, at)
        types.append(kind)
    if at != size:
        raise ValueError("a header that ends inside a number")
    values: list[Value] = []
    for kind in types:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise ValueError("a row with something behind it")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind == 7:
        return float(unpack(">d", _slice(payload, at, 8, len(payload)))[0]), at + 8
    if kind < 7:
        size = _INTEGER_BYTES[kind]
        return int.from_bytes(_slice(payload, at, size, len(payload)), "big", signed=True), at + size
    if kind < 12:
        raise ValueError("a kind of value that no file holds")
    size = (kind - 12) // 2
    content = _slice(payload, at, size, len(payload))
    return (content.decode("utf-8") if kind % 2 else content), at + size


def _slice(page: bytes, at: int, size: int, end: int) -> bytes:
    if at + size > end:
        raise ValueError("beyond the end")
    return page[at : at + size]


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        byte = page[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | page[at + 8], at + 9


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
