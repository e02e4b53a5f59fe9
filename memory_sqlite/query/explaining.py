"""``--explain``: SQLite's plan, and for each reading of files which part of the query was pushed down to it.

Nothing is run. Values of the query are not shown, only what is done with them. Called by ``running``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, cast

import apsw

from memory_sqlite.query.promoted import FIXED

_OWN: Final = re.compile(r"(\S+) VIRTUAL TABLE INDEX \d+:(\{.*\})")
_NAME: Final = re.compile(r"jsonl\$\d+")


def plan(connection: apsw.Connection, sql: str, parameters: Any) -> tuple[str, ...]:
    """The plan as indented lines; below each reading of JSONL files, what it is spared."""
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters, can_cache=False).fetchall()
    depths: dict[int, int] = {0: 0}
    lines: list[str] = []
    for number, parent, _, detail in cast("list[tuple[int, int, int, str]]", rows):
        depth = depths[number] = depths.get(parent, 0) + 1
        indent = "  " * (depth - 1)
        found = _OWN.search(detail)
        if found is None:
            lines.append(indent + _NAME.sub("jsonl", detail))
            continue
        try:
            pushed = _pushed(json.loads(found[2]))
        except (ValueError, KeyError, TypeError):  # a name in the query that looks like ours
            pushed = ()
        lines.append(indent + _NAME.sub("jsonl", detail[: found.start()] + found[1]))
        lines += [f"{indent}  {said}" for said in pushed]
    return tuple(lines)


def _pushed(said: dict[str, Any]) -> Sequence[str]:
    wanted: list[int] = said["columns"]
    # of a table with many columns SQLite says "the 64th or a later one"
    lines = [
        "lines are parsed: a value of theirs is needed"
        if any(column >= FIXED.index("value") for column in wanted)
        else "lines are not parsed: no value of theirs is needed"
    ]
    for column, sign in said["conditions"]:
        if column < 0:
            continue
        if column < len(FIXED):
            name = FIXED[column]
            does = (
                "only such files are read" if name == "file" else "lines outside are skipped" if name == "line" else ""
            )
        else:
            name, does = "a key", ""
        lines.append(
            f"condition {name} {sign}: {does or 'lines that lack its bytes are skipped before they are parsed'}"
        )
    return lines
