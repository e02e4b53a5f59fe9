"""What a model gave our tools, checked: a wrong or unknown argument is named, and none can say who asks.

Schemas are JSON Schema; what they say is checked here again, for not every host does. Not here: what tools do
(``tools``), what a fact may be (``layers.stated``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.layers.stated import FACT_KINDS
from memory_sqlite.model import SOURCES

FACT_KINDS_OF_TOOL: Final = tuple(kind for kind in FACT_KINDS if kind != "instruction")
"""A standing instruction is put before every prompt: that is the owner's to state, not a model's."""

SEARCH_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to look for."},
        "max_results": {"type": "integer", "minimum": 1, "maximum": limits.TOOL_RESULTS_MAX},
        "sources": {"type": "array", "items": {"type": "string", "enum": list(SOURCES)}, "minItems": 1},
        "cursor": {"type": "string", "description": "The cursor of an earlier answer to the same query."},
    },
    "required": ["query"],
    "additionalProperties": False,
}
GET_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "reference": {"type": "string", "description": "As memory_search showed it in brackets."},
        "from_line": {"type": "integer", "minimum": 1},
        "lines": {"type": "integer", "minimum": 1},
    },
    "required": ["reference"],
    "additionalProperties": False,
}
REMEMBER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "content": {
            "type": "string",
            "maxLength": limits.FACT_CONTENT_MAX_UNITS,
            "description": "One plain sentence that is understood without this conversation.",
        },
        "kind": {"type": "string", "enum": list(FACT_KINDS_OF_TOOL)},
        "name": {
            "type": "string",
            "maxLength": limits.FACT_NAME_MAX_UNITS,
            "description": "What it is about; a later fact of that name replaces this one.",
        },
        "aliases": {"type": "array", "items": {"type": "string"}, "maxItems": limits.FACT_ALIASES_MAX},
        "scopes": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": limits.FACT_SCOPES_MAX,
            "description": "Projects it holds in; without any it holds everywhere.",
        },
    },
    "required": ["content"],
    "additionalProperties": False,
}


def known(arguments: object, schema: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """The arguments, none of them unknown; those that are null were not given. Raises ``InvalidArgument``."""
    if not isinstance(arguments, Mapping):
        raise errors.InvalidArgument(f"the arguments of {tool} must be an object")
    names = schema["properties"]
    if any(name not in names for name in arguments):
        raise errors.InvalidArgument(f"{tool} takes {', '.join(names)} and nothing else")
    given = {str(name): value for name, value in arguments.items() if value is not None}
    for name in schema["required"]:
        if not isinstance(given.get(name), str) or not given[name].strip():
            raise errors.InvalidArgument(f"{name} must be text that is not blank")
    return given


def whole_number(given: Mapping[str, Any], name: str, most: int | None = None) -> int | None:
    """A whole number of at least 1, or ``None`` when it was not given. Raises ``InvalidArgument``."""
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (most is not None and value > most):
        raise errors.InvalidArgument(
            f"{name} must be a whole number of at least 1" + (f", at most {most}" if most else "")
        )
    return value


def fact_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fact that was stated; without a kind it is about something (``entity``). Raises ``InvalidArgument``."""
    fact = {"kind": "entity", **given}
    if fact["kind"] not in FACT_KINDS_OF_TOOL:
        raise errors.InvalidArgument(f"kind must be one of {', '.join(FACT_KINDS_OF_TOOL)}")
    return fact
