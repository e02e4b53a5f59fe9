"""Pages made by hand: what is damaged in one is counted, and nothing of it is guessed or followed for ever."""

from __future__ import annotations

from struct import pack

import pytest

from memory_sqlite import limits
from memory_sqlite.doctor import tree_walk
from memory_sqlite.doctor.tree_pages import LEAF_INDEX, LEAF_TABLE, Reader, record
from memory_sqlite.doctor.tree_shapes import Column, Shape

PAGE = 4096


def varint(value: int) -> bytes:
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def leaf(cells: dict[int, bytes], *, kind: int = LEAF_TABLE, count: int | None = None) -> bytes:
    """A leaf page of a file's second page or later, with each cell at its offset."""
    page = bytearray(PAGE)
    page[0] = kind
    page[3:5] = pack(">H", len(cells) if count is None else count)
    for number, (at, cell) in enumerate(cells.items()):
        page[8 + 2 * number : 10 + 2 * number] = pack(">H", at)
        page[at : at + len(cell)] = cell[: PAGE - at]
    return bytes(page)


def cell(rowid: int, payload: bytes) -> bytes:
    return varint(len(payload)) + varint(rowid) + payload


def reader(*pages: bytes, usable: int = PAGE) -> Reader:
    """Pages 2, 3, … of a file whose first one cannot be read."""
    return Reader(lambda number: dict(enumerate(pages, 2)).get(number), len(pages) + 1, usable)


ROW = b"\x03\x01\x13\x07abc"
"""A row of 7 and ``abc``."""


def test_a_leaf() -> None:
    lowest = varint(len(ROW)) + b"\xc0" + b"\x80" * 7 + b"\x00" + ROW  # the ninth byte of a number counts whole
    page = reader(leaf({4000: cell(5, ROW), 3000: lowest}))
    found = page.cells(2)
    assert found is not None and found.rows == ((5, (7, "abc")), (-(2**63), (7, "abc"))) and found.broken == 0
    assert page.cells(1) is None and page.cells(3) is None and page.kind(1) is None


def test_cells_that_lead_outside_are_counted() -> None:
    """Beyond the page; into what the cipher keeps; a count that the page has no room for."""
    assert [reader(leaf({4094: cell(5, ROW)})).cells(2)] != [None]
    for page, usable in ((leaf({4094: cell(5, ROW)}), PAGE), (leaf({4085: cell(5, ROW)}), PAGE - 4)):
        found = reader(page, usable=usable).cells(2)
        assert found is not None and (found.rows, found.broken) == ((), 1)
    found = reader(leaf({4000: cell(5, ROW)}, count=65535)).cells(2)
    assert found is not None and found.rows[0] == (5, (7, "abc"))
    assert len(found.rows) + found.broken == 65535


def test_a_row_longer_than_any_is_not_followed() -> None:
    """Its chain leads to itself, and its length would be read to the end: a damaged length costs that row alone."""
    usable, blob = PAGE, limits.SALVAGE_ROW_MAX_BYTES
    header = varint(12 + 2 * blob)
    payload_length = 1 + len(header) + blob
    most, least = usable - 35, (usable - 12) * 32 // 255 - 23
    local = least + (payload_length - least) % (usable - 4)
    local = local if local <= most else least
    stored = (bytes([1 + len(header)]) + header).ljust(local, b"\0")
    long = varint(payload_length) + varint(1) + stored + pack(">I", 3)
    around = pack(">I", 3).ljust(PAGE, b"\0")
    found = reader(leaf({4096 - len(long): long}), around).cells(2)
    assert found is not None and (found.rows, found.broken) == ((), 1)


def test_a_long_row_whose_chain_is_cut() -> None:
    """One of its further pages is not there."""
    payload = (b"\x04" + varint(12 + 2 * 5000) + b"\x00").ljust(3 + 5000, b"\1")
    stored = varint(len(payload)) + varint(1) + payload[:500] + pack(">I", 9)
    found = reader(leaf({3000: stored})).cells(2)
    assert found is not None and (found.rows, found.broken) == ((), 1)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\x05", b"\x02\x0a", b"\x02\x06\x00", b"\x02\x0f", b"\x02\x0f\xff", b"\x02\x08\x00", b"\x81" * 12,
        b"\x02\x80\x01\xaa", b"\x02\x13ab", b"\x02\x02\x01",
    ],
)  # fmt: skip
def test_bytes_that_are_no_row(payload: bytes) -> None:
    """Cut off, too long, of a kind that no file holds, no UTF-8, a header that ends inside a number: never guessed."""
    with pytest.raises((ValueError, IndexError)):
        record(payload)


def test_bytes_that_are_a_row() -> None:
    """Each kind of value, as the file format has it."""
    payload = bytes([9, 0, 1, 2, 6, 7, 8, 9, 14])
    payload += b"\xff" + b"\x01\x00" + (2**40).to_bytes(8, "big") + b"\x3f\xe0" + bytes(6) + b"\xaa"
    assert record(payload) == (None, -1, 256, 2**40, 0.5, 0, 1, b"\xaa")
    assert record(b"\x02\x13abc") == ("abc",)


NUMBER, TEXT = Column("number", (int,), False), Column("text", (str,), True)
TABLE = Shape("things", "things", (NUMBER, TEXT), None, True, False, 1)
INDEX = Shape("things_text", "things", (TEXT, NUMBER), None, False, True, 2)
SCHEMA = Shape("sqlite_schema", "sqlite_schema", (TEXT, TEXT, TEXT, NUMBER, TEXT), None, True, False, 5)


def described(*rows: tuple[str, str, int]) -> bytes:
    """A page of the schema: kind, name and root of each."""
    cells = {}
    for number, (kind, name, root) in enumerate(rows, 1):
        texts = [kind, name, name]
        header = bytes([6, *(13 + 2 * len(text) for text in texts), 1, 0])
        cells[4000 - 100 * number] = cell(number, header + "".join(texts).encode() + bytes([root]))
    return leaf(cells)


def walked(*pages: bytes, **shapes: Shape) -> tuple[Reader, tree_walk.Forest]:
    """A file whose first page is lost and with it the root of the schema."""
    file = reader(*pages)
    return file, tree_walk.walk(file, {"sqlite_schema": SCHEMA} | {shape.name: shape for shape in shapes.values()})


def test_a_tree_is_walked_from_its_root() -> None:
    things = leaf({4000: cell(1, ROW)})
    file, forest = walked(described(("table", "things", 3)), things, table=TABLE)
    assert forest.pages["things"] == [3] and "things" not in forest.incomplete
    assert list(tree_walk.rows(file, forest, TABLE)) == [{"number": 7, "text": "abc"}]


def test_a_root_that_leads_to_another_tree_is_not_followed() -> None:
    """The root's number is damaged: it leads to an index, to rows of another shape, to the schema. The rows are found
    by what they look like, once."""
    things, strange = leaf({4000: cell(1, ROW)}), leaf({4000: cell(1, b"\x02\x13xyz")})
    entry = leaf({4000: varint(len(ROW)) + ROW}, kind=LEAF_INDEX)
    for root in (2, 4, 5, 0, 1, 99):
        file, forest = walked(described(("table", "things", root)), things, strange, entry, table=TABLE)
        assert forest.pages["things"] == [3] and "things" in forest.incomplete, root
        assert len(list(tree_walk.rows(file, forest, TABLE))) == 1


def test_pages_of_which_nobody_can_tell_whose_they_are() -> None:
    """Two trees that look alike both lack a page: neither gets it, and it is counted."""
    twin = Shape("twins", "twins", (NUMBER, TEXT), None, True, False, 1)
    _, forest = walked(leaf({4000: cell(1, ROW)}), one=TABLE, other=twin)
    assert forest.pages["things"] == forest.pages["twins"] == [] and forest.unattributed == 1


def test_a_loop_ends() -> None:
    """A branch that leads to itself and to a leaf: the leaf is read once."""
    branch = bytearray(PAGE)
    branch[0] = 5
    branch[3:5], branch[8:12] = pack(">H", 1), pack(">I", 3)
    branch[12:14] = pack(">H", 4000)
    branch[4000:4005] = pack(">I", 4) + b"\x05"
    things = leaf({4000: cell(1, ROW)})
    _, forest = walked(described(("table", "things", 3)), bytes(branch), things, table=TABLE)
    assert forest.pages["things"] == [4] and "things" in forest.incomplete


def test_rows_that_do_not_fit_are_no_rows() -> None:
    """Too many values, one of another type, none where there must be one."""
    assert TABLE.fits(1, (7, "abc")) and TABLE.fits(1, (7,)) and TABLE.fits(1, (7, None))
    for values in ((), (7, "abc", 1), ("7", "abc"), (None, "abc"), (7, b"abc")):
        assert not TABLE.fits(1, values)
    assert INDEX.fits(0, ("abc", 7)) and not INDEX.fits(0, ("abc",))
