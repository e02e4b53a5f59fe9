"""The settings as JSON Schema, for editors and for files written by us.

Built from the field table of ``config_fields.py``, so that the two cannot disagree; a test compares them all the same.
Not on the search path: only ``memory-sqlite config --schema`` and later the servers import it.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from memory_sqlite.config import Settings
from memory_sqlite.config_fields import FIELDS, Field

_NOT_BLANK: Final = r"\S"
_EXTRA_PATH: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A further place of notes.",
    "properties": {
        "path": {
            "type": "string",
            "pattern": _NOT_BLANK,
            "description": "Absolute, or relative to the workspace.",
        },
        "glob": {"type": "string", "pattern": _NOT_BLANK, "description": "Within a directory; **/*.md."},
    },
    "required": ["path"],
    "additionalProperties": False,
}
_TEXT_PATTERNS: Final = {
    "variable": r"^[A-Za-z_][A-Za-z0-9_]*$",
    "url": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#@]+(/[^\s?#@]*)?$",
}


def _shapes(entry: Field) -> list[dict[str, Any]]:
    """What the file may write for one setting: one of these."""
    if entry.kind == "boolean":
        found: list[dict[str, Any]] = [{"type": "boolean"}]
    elif entry.kind == "integer" and entry.bounds is not None:
        found = [{"type": "integer", "minimum": entry.bounds[0], "maximum": entry.bounds[1]}]
    elif entry.kind == "paths":
        item = {"anyOf": [{"type": "string", "pattern": _NOT_BLANK}, {"$ref": "#/$defs/ExtraPath"}]}
        found = [{"type": "array", "items": item}]
    elif entry.kind == "choice":
        found = []
    else:
        found = [{"type": "string", "pattern": _TEXT_PATTERNS.get(entry.kind, _NOT_BLANK)}]
    # TOML has no null: the word takes its place
    words = [*entry.choices, *(["none"] if entry.nullable else [])]
    return [*found, *([{"enum": words}] if words else [])]


def _default(entry: Field) -> Any:
    """The default as the file would write it; ``None`` where it depends on the machine or on another setting."""
    if entry.name in ("data_dir", "redact_secrets"):
        return None
    value = next(field.default for field in fields(Settings) if field.name == entry.name)
    if value is None:
        return "none"
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def _property(entry: Field) -> dict[str, Any]:
    shapes = _shapes(entry)
    described: dict[str, Any] = {"description": entry.help}
    default = _default(entry)
    if default is not None:  # absent in the file, and then computed: no value to write
        described["default"] = default
    return {**described, **(shapes[0] if len(shapes) == 1 else {"anyOf": shapes})}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the configuration file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MemorySqliteConfiguration",
        "type": "object",
        "properties": {entry.name: _property(entry) for entry in FIELDS},
        "additionalProperties": False,
        "$defs": {"ExtraPath": _EXTRA_PATH},
    }
