"""Each reason that ``explain`` may give is provoked by a test, and explained to people."""

from __future__ import annotations

import ast
from importlib import resources
from pathlib import Path
from typing import get_args

from memory_sqlite.search.explanation import Reason

TESTS = (
    Path(__file__).parents[1] / "unit" / "search" / "test_explain.py",
    Path(__file__).with_name("test_explain_door.py"),
)


def reasons() -> set[str]:
    found: set[str] = set()
    for one in get_args(Reason):
        found |= set(get_args(one)) or {one}
    return found


def compared(path: Path) -> set[str]:
    """The words that the assertions of a file compare with."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Assert):
            words |= {
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return words


def test_each_reason_is_provoked_once() -> None:
    """An assertion compares with each of them."""
    assert len(reasons()) == 19
    assert reasons() <= set().union(*(compared(path) for path in TESTS))


def test_each_reason_is_explained() -> None:
    """The table in the documentation has a row for each."""
    page = (resources.files("memory_sqlite") / "docs" / "searching.md").read_text("utf-8")
    rows = {line.split("|")[1].strip().strip("`") for line in page.splitlines() if line.startswith("| `")}
    assert reasons() <= rows
