"""Which page of a damaged store belongs to which table: from the schema's roots down, then by what the rows look like.

A page whose parent is damaged is found by no way from above. It belongs to a tree that lacks a page, and its rows must
look like that tree's; where several fit, it is left and counted. Called by ``salvage``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memory_sqlite.doctor.tree_pages import INTERIOR_TABLE, LEAF_TABLE, Cells, Reader, Value
from memory_sqlite.doctor.tree_shapes import Shape
from memory_sqlite.values import dataclass, field

_SCHEMA: Final = "sqlite_schema"
_TABLE_KINDS: Final = frozenset({INTERIOR_TABLE, LEAF_TABLE})


@dataclass
class Forest:
    """``pages`` are those that hold rows, by the name of their tree; ``incomplete`` the trees that lack a page or in
    which a cell cannot be read; ``unattributed`` how many pages with rows could not be told whose they are."""

    pages: dict[str, list[int]] = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)
    unattributed: int = 0
    broken_cells: dict[str, int] = field(default_factory=dict)


def walk(reader: Reader, shapes: dict[str, Shape]) -> Forest:
    """Every page with rows that can be read."""
    forest = Forest()
    owned: set[int] = set()
    _tree(reader, forest, owned, shapes[_SCHEMA], 1)
    roots: dict[str, int] = {}
    _orphans(reader, forest, owned, {_SCHEMA: shapes[_SCHEMA]} if _SCHEMA in forest.incomplete else {})
    for number in forest.pages[_SCHEMA]:
        for _, values in _rows(reader, number):
            if shapes[_SCHEMA].fits(0, values) and len(values) == 5 and isinstance(values[3], int):
                roots.setdefault(str(values[1]), values[3])
    for name, shape in shapes.items():
        if name != _SCHEMA:
            if roots.get(name, 0) < 2:
                forest.pages[name] = []
                forest.incomplete.add(name)
            else:
                _tree(reader, forest, owned, shape, roots[name])
    forest.unattributed = _orphans(
        reader, forest, owned, {name: shapes[name] for name in forest.incomplete if name != _SCHEMA}
    )
    return forest


def rows(reader: Reader, forest: Forest, shape: Shape) -> Iterator[dict[str, Value]]:
    """The rows of one tree that can be read, by their columns' names."""
    for number in forest.pages.get(shape.name, ()):
        for rowid, values in _rows(reader, number):
            if shape.fits(rowid, values):
                yield shape.named(rowid, values)


def _rows(reader: Reader, number: int) -> tuple[tuple[int, tuple[Value, ...]], ...]:
    cells = reader.cells(number)
    return cells.rows if cells is not None else ()


def _tree(reader: Reader, forest: Forest, owned: set[int], shape: Shape, root: int) -> None:
    """Everything below a root, each page once. A page of another tree or of the wrong kind is a missing one."""
    found = forest.pages.setdefault(shape.name, [])
    waiting = [root]
    while waiting:
        number = waiting.pop()
        cells = None if number in owned else reader.cells(number)
        if cells is None or (cells.kind in _TABLE_KINDS) == shape.is_index_tree or not _is_ours(shape, cells):
            forest.incomplete.add(shape.name)
            continue
        owned.add(number)
        if cells.broken:
            forest.incomplete.add(shape.name)
            forest.broken_cells[shape.name] = forest.broken_cells.get(shape.name, 0) + cells.broken
        if cells.rows:
            found.append(number)
        waiting += reversed(cells.children)


def _is_ours(shape: Shape, cells: Cells) -> bool:
    """Whether a page can be one of this tree: a damaged pointer leads into another's."""
    return not cells.rows or any(shape.fits(*row) for row in cells.rows)


def _orphans(reader: Reader, forest: Forest, owned: set[int], wanting: dict[str, Shape]) -> int:
    """Give pages that nothing leads to, to the one tree that lacks a page and whose rows look so; how many are left."""
    left = 0
    if not wanting:
        return left
    for number in range(1, reader.count + 1):
        cells = None if number in owned else reader.cells(number)
        if cells is None or not cells.rows:
            continue
        fitting = [
            shape
            for shape in wanting.values()
            if (cells.kind in _TABLE_KINDS) != shape.is_index_tree and all(shape.fits(*row) for row in cells.rows)
        ]
        if len(fitting) != 1:
            left += 1
            continue
        owned.add(number)
        forest.pages.setdefault(fitting[0].name, []).append(number)
        if cells.broken:
            name = fitting[0].name
            forest.broken_cells[name] = forest.broken_cells.get(name, 0) + cells.broken
    return left
