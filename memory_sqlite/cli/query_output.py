"""Rows of a query as a table, JSON, JSON lines, CSV or Markdown.

Stored text is untrusted: whatever the form, no control character of it reaches a terminal. JSON spells them as escapes,
which is the same JSON; table and Markdown leave them out; CSV does where it goes to a terminal, and is exact in a file.
Called by ``query`` and its shell.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from memory_sqlite.cli.output import Output, columns, one_line, plain

if TYPE_CHECKING:
    from memory_sqlite.query.result import QueryResult, Row

FORMATS: Final = ("table", "json", "jsonl", "csv", "markdown")
_CELL_MAX: Final = 80
_CONTROLS: Final = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\ufeff]")
"""What ``json.dumps`` leaves as it is and a terminal might act on."""
_MARKDOWN: Final = str.maketrans({"&": "&amp;", "<": "&lt;"} | {sign: f"\\{sign}" for sign in "\\|`*_[]~"})
"""Text that is shown as it is: an image in it, for one, would be fetched by whoever looks at the page."""


def json_value(value: Any) -> Any:
    """A cell as JSON has it: bytes as ``{"base64": …}``, infinities as text."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def document(result: QueryResult) -> dict[str, Any]:
    """The JSON document of ``--json``."""
    return {
        "ok": True,
        "columns": list(result.columns),
        "rows": [[json_value(value) for value in row] for row in result.rows],
        "row_count": result.row_count,
        "truncated": result.truncated,
        "plan": list(result.plan),
        "warnings": list(result.warnings),
        "files": result.files,
        "bytes_read": result.bytes_read,
        "seconds": result.seconds,
        "disabled": result.disabled,
    }


def streamed(form: str, output: Output) -> Callable[[tuple[str, ...], list[Row]], None] | None:
    """What prints batches as they come, for the forms that need not know all rows first; else ``None``."""
    lines = {"jsonl": _jsonl, "csv": _csv, "markdown": _markdown}.get(form)
    if lines is None:
        return None
    begun = False

    def take(names: tuple[str, ...], rows: list[Row]) -> None:
        nonlocal begun
        for line in lines(names, rows, not begun):
            output.line(line)
        begun = True

    return take


def whole(form: str, result: QueryResult, output: Output) -> None:
    """Print a result whose rows were kept, or the head of one that had none."""
    if form == "table":
        _table(result, output)
    elif form == "json":
        names = _unique(result.columns)
        output.line(_dump([dict(zip(names, map(json_value, row), strict=True)) for row in result.rows]))
    elif result.row_count == 0 and form in ("csv", "markdown"):
        for line in {"csv": _csv, "markdown": _markdown}[form](result.columns, [], True):
            output.line(line)


def _jsonl(names: tuple[str, ...], rows: Sequence[Row], _first: bool) -> list[str]:
    keys = _unique(names)
    return [_dump(dict(zip(keys, map(json_value, row), strict=True))) for row in rows]


def _csv(names: tuple[str, ...], rows: Sequence[Row], first: bool) -> list[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if first:
        writer.writerow(names)
    writer.writerows([[_literal(value) for value in row] for row in rows])
    text = buffer.getvalue()
    if sys.stdout is not None and sys.stdout.isatty():
        text = plain(text)
    return [text[:-1]] if text else []


def _markdown(names: tuple[str, ...], rows: Sequence[Row], first: bool) -> list[str]:
    lines = [_markdown_row(names), "|" + " --- |" * len(names)] if first else []
    return lines + [_markdown_row([_shown(value) for value in row]) for row in rows]


def _markdown_row(cells: Sequence[str]) -> str:
    safe = [plain(cell).translate(_MARKDOWN) for cell in cells]
    return f"| {' | '.join(' <br> '.join(cell.splitlines()) for cell in safe)} |"


def _table(result: QueryResult, output: Output) -> None:
    if not result.columns:
        return
    rows = [[one_line(_shown(value), _CELL_MAX) for value in row] for row in result.rows]
    heads = [one_line(name, _CELL_MAX) for name in result.columns]
    if output.styled:
        _rich_table(heads, rows, result)
        output.written = True
    else:
        for line in columns([heads, ["-" * max(1, len(head)) for head in heads], *rows]):
            output.line(line)
    output.line(f"({result.row_count} {'row' if result.row_count == 1 else 'rows'})")


def _rich_table(heads: Sequence[str], rows: Sequence[Sequence[str]], result: QueryResult) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, head in enumerate(heads):
        is_number = all(isinstance(row[number], int | float | None) for row in result.rows)
        table.add_column(Text(head), justify="right" if is_number and rows else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: what looks like markup is shown as it is
    Console(file=sys.stdout, soft_wrap=False).print(table)


def _shown(value: Any) -> str:
    return "NULL" if value is None else _literal(value)


def _literal(value: Any) -> str:
    if value is None:
        return ""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _unique(names: Sequence[str]) -> list[str]:
    """Column names as keys: a second ``x`` becomes ``x_2``."""
    made: dict[str, None] = {}
    for name in names:
        key, number = name, 2
        while key in made:
            key, number = f"{name}_{number}", number + 1
        made[key] = None
    return list(made)


def _dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
