"""``memory-sqlite status``: what this memory holds and how it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.model import to_json

_EXAMPLES = """
memory-sqlite status
memory-sqlite status --agent work --json
memory-sqlite status --deep
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--deep", is_flag=True, help="Read every page too: are the files whole, how large is each table.")
@stated
def command(state: State, deep: bool) -> None:
    """Say what this memory holds, where its files are, and whether the index is up to date. Changes nothing.

    It works on read-only media too, and while others write. `memory-sqlite doctor` says what is wrong and what to do.
    """
    with state.open(read_only=True) as memory:
        status = to_json(memory.status(deep=deep))
    state.output.document({"ok": True, **status})
    status.pop("read_only", None)  # this command opens for reading only, so it is no news
    vectors = status.get("vectors")
    if vectors is not None and vectors["state"] == "off" and not vectors["others"]:
        status["vectors"] = "off"
    if "sizes" in status:
        status["sizes"] = {name: size(number) for name, number in status["sizes"].items()}
    if "deep" in status:
        for file in status["deep"]["tables"].values():
            file |= {name: size(number) for name, number in file.items()}
    for line in lines(status):
        state.output.line(line)


_UNITS: Final = ("KiB", "MiB", "GiB")
_LARGEST: Final = ("GiB", 1024**3)


def size(number: int) -> str:
    """Bytes as a person reads them: ``512 B``, ``72.0 KiB``, ``1.4 GiB``."""
    if number < 1024:
        return f"{number} B"
    unit, step = next(((name, 1024**n) for n, name in enumerate(_UNITS, 1) if number < 1024 ** (n + 1)), _LARGEST)
    return f"{number / step:,.1f} {unit}"


def lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Nested mappings as indented ``name: value`` lines."""
    for name, item in value.items():
        label = one_line(str(name)).replace("_", " ")
        if isinstance(item, Mapping):
            yield f"{indent}{label}:"
            yield from lines(item, indent + "  ")
        else:
            yield f"{indent}{label}: {_shown(item)}"


def _shown(item: Any) -> str:
    if item is None:
        return "-"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, list):
        return ", ".join(_shown(part) for part in item) or "-"
    return one_line(str(item), 400)
