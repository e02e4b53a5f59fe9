"""``memory-sqlite config``: every setting, its value and where it comes from; or the schema of the file."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line

_OTHER_VARIABLES: Final = (
    "MEMORY_SQLITE_CONFIG",
    "MEMORY_SQLITE_DEBUG",
    "MEMORY_SQLITE_EVAL_DATA",
    "MEMORY_SQLITE_SERVE_TOKEN",
)

_EXAMPLES = """
memory-sqlite config
MEMORY_SQLITE_RETENTION_DAYS=none memory-sqlite config --json
memory-sqlite config --schema > memory-sqlite.schema.json
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the configuration file instead.")
@stated
def command(state: State, schema: bool) -> None:
    """Show every setting with its value and its origin: default, file, environment or argument.

    Nothing is opened or created. A variable MEMORY_SQLITE_... that names no setting is pointed out.
    """
    if schema:
        _print_schema(state)
        return
    from memory_sqlite.config import config_path
    from memory_sqlite.config_fields import BY_NAME, FIELDS, expected
    from memory_sqlite.model import to_json

    settings, origins = state.load()
    path, _ = config_path(state.given.get("config"), os.environ)
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith("MEMORY_SQLITE_")
        and name not in _OTHER_VARIABLES
        and name.removeprefix("MEMORY_SQLITE_").lower() not in BY_NAME
    )
    rows: dict[str, Any] = {}
    for entry in FIELDS:
        value = to_json(getattr(settings, entry.name))
        origin = origins[entry.name]
        rows[entry.name] = {
            "value": os.fspath(value) if isinstance(value, os.PathLike) else value,
            "origin": origin.layer,
            "detail": origin.detail,
            "allowed": expected(entry),
            "help": entry.help,
        }
    file = {"path": str(path), "exists": path.is_file()}
    output = state.output
    output.document({"ok": True, "file": file, "settings": rows, "unknown_variables": unknown})
    output.line(f"# file: {one_line(str(path), 400)} ({'read' if file['exists'] else 'absent'})")
    for name, row in rows.items():
        output.line(f"{name} = {_shown(row['value'])}  ({one_line(str(origins[name]), 400)})")
    for variable in unknown:
        output.note(f"warning: the variable {one_line(variable)} names no setting")


def _shown(value: Any) -> str:
    import json

    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _print_schema(state: State) -> None:
    import json

    from memory_sqlite.config_schema import json_schema

    schema = json_schema()
    state.output.document(schema)
    state.output.line(json.dumps(schema, indent=2))
