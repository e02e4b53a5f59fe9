"""The tools by name: what they are for, what they take and what they answer, as JSON Schema.

Agent, session and audience are nowhere in them: they are fixed when a server starts. Schemas of arguments that a
plugin's tools share are theirs (``runtime.tool_arguments``). Not here: what tools do (``operations``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.model import SOURCES
from memory_sqlite.runtime.tool_arguments import REMEMBER_SCHEMA
from memory_sqlite.runtime.tool_names import MEMORY_GET, MEMORY_REMEMBER, MEMORY_SEARCH
from memory_sqlite.values import dataclass

MEMORY_FORGET: Final = "memory_forget"
MEMORY_STATUS: Final = "memory_status"
SESSIONS_SEARCH: Final = "sessions_search"

Schema = Mapping[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_MAYBE_COUNT: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_RESULTS: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": limits.TOOL_RESULTS_MAX}
_SINCE: Final[Schema] = {"type": "string", "description": "Only what happened at or after this time (ISO-8601)."}
_UNTIL: Final[Schema] = {"type": "string", "description": "Only what happened before this time (ISO-8601)."}


def _arguments(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _answer(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


SEARCH_ARGUMENTS: Final = _arguments(
    ["query"],
    query={"type": "string", "description": "Words to look for, or a question."},
    max_results=_RESULTS,
    sources={"type": "array", "items": {"type": "string", "enum": list(SOURCES)}, "minItems": 1},
    projects={"type": "array", "items": _TEXT, "description": "Only what belongs to one of these projects."},
    since=_SINCE,
    until=_UNTIL,
)
GET_ARGUMENTS: Final = _arguments(
    ["reference"],
    reference={"type": "string", "description": "As a search showed it in brackets."},
    from_line={"type": "integer", "minimum": 1},
    lines={"type": "integer", "minimum": 1},
    offset={"type": "integer", "minimum": 0, "description": "Characters of the first line to leave out."},
)
FORGET_ARGUMENTS: Final = _arguments(
    ["references"],
    references={
        "type": "array",
        "items": _TEXT,
        "minItems": 1,
        "maxItems": limits.FORGET_REFERENCES_MAX,
        "description": "As memory_search or sessions_search showed them in brackets.",
    },
    notes={"type": "boolean", "description": "Also take blocks that repeat the text out of the notes."},
    keep_turns={"type": "boolean", "description": "Forget a record only, and keep the turns that said it."},
    dry_run={"type": "boolean", "description": "Say exactly what would be forgotten, and do nothing."},
)
SESSIONS_ARGUMENTS: Final = _arguments(
    [],
    query={"type": "string", "description": "Words to look for; without any, the latest conversations are listed."},
    max_results=_RESULTS,
    since=_SINCE,
    until=_UNTIL,
    offset={"type": "integer", "minimum": 0, "description": "Without a query: leave out so many of the latest."},
)
STATUS_ARGUMENTS: Final = _arguments([])

_HIT: Final = _answer(
    ["reference", "source", "score", "path", "start_line", "end_line", "origin", "excerpt"],
    reference=_TEXT,
    source={"type": "string", "enum": list(SOURCES)},
    layer=_MAYBE_TEXT,
    score={"type": "number", "minimum": 0, "maximum": 1},
    time=_MAYBE_TEXT,
    path=_TEXT,
    start_line=_COUNT,
    end_line=_COUNT,
    session=_MAYBE_TEXT,
    speaker=_MAYBE_TEXT,
    origin=_TEXT,
    excerpt=_TEXT,
)
_SESSION: Final = _answer(
    ["reference", "session", "chat_type", "messages", "started_at", "active_at"],
    reference=_TEXT,
    session=_TEXT,
    chat_type=_TEXT,
    messages=_COUNT,
    started_at=_TEXT,
    active_at=_TEXT,
)
_FOUND: Final[Mapping[str, Schema]] = {
    "notice": _TEXT,
    "hits": {"type": "array", "items": _HIT},
    "more": _COUNT,
    "coverage": {"type": "string", "enum": ["complete", "partial"]},
    "stale": {"type": "boolean"},
    "warnings": _TEXTS,
}
SEARCH_ANSWER: Final = _answer(list(_FOUND), **_FOUND)
SESSIONS_ANSWER: Final = _answer(
    ["notice"], **_FOUND, sessions={"type": "array", "items": _SESSION}, next_offset=_MAYBE_COUNT
)
GET_ANSWER: Final = _answer(
    ["notice", "status", "text", "lines", "next_from", "next_offset"],
    notice=_TEXT,
    status={"type": "string", "enum": ["ok", "not_found"]},
    path=_TEXT,
    text=_TEXT,
    from_line=_COUNT,
    lines=_COUNT,
    next_from=_MAYBE_COUNT,
    next_offset=_COUNT,
    source=_MAYBE_TEXT,
    time=_MAYBE_TEXT,
    origin=_MAYBE_TEXT,
)
REMEMBER_ANSWER: Final = _answer(
    ["status", "reference", "redactions"],
    status={"type": "string", "enum": ["stored", "reinforced", "duplicate"]},
    reference=_MAYBE_TEXT,
    redactions=_COUNT,
    warning=_MAYBE_TEXT,
)
FORGET_ANSWER: Final = _answer(
    ["status", "dry_run", "turns", "messages", "facts", "notes", "unresolved", "verified", "reasons"],
    status={"type": "string", "enum": ["forgotten", "planned", "nothing", "unfinished"]},
    dry_run={"type": "boolean"},
    sessions=_COUNT,
    turns=_COUNT,
    messages=_COUNT,
    episodes=_COUNT,
    scenarios=_COUNT,
    facts=_COUNT,
    notes_left=_COUNT,
    mixed_turns=_COUNT,
    notes={
        "type": "array",
        "items": _answer(["path", "lines", "outcome"], path=_TEXT, lines=_COUNT, outcome=_TEXT),
    },
    unresolved=_COUNT,
    verified={"type": ["boolean", "null"]},
    reasons=_TEXTS,
)
STATUS_ANSWER: Final = _answer(
    ["status", "agent", "read_only"],
    status={"type": "string", "enum": ["ready", "degraded", "unavailable"]},
    message=_MAYBE_TEXT,
    agent=_TEXT,
    session=_MAYBE_TEXT,
    read_only={"type": "boolean"},
    counts={"type": "object", "additionalProperties": _COUNT},
    vectors=_TEXT,
)


@dataclass(frozen=True, slots=True)
class ToolShape:
    """One tool as a client sees it."""

    name: str
    title: str
    description: str
    arguments: Schema
    answer: Schema
    writes: bool = False
    destroys: bool = False


SHAPES: Final = (
    ToolShape(
        MEMORY_SEARCH,
        "Search memory",
        "Search what is remembered: notes, facts, earlier conversations. Read more with memory_get.",
        SEARCH_ARGUMENTS,
        SEARCH_ANSWER,
    ),
    ToolShape(
        SESSIONS_SEARCH,
        "Search conversations",
        "Search what was said in earlier conversations; without a query, list the latest ones.",
        SESSIONS_ARGUMENTS,
        SESSIONS_ANSWER,
    ),
    ToolShape(
        MEMORY_GET,
        "Read memory",
        "Read what a reference of a search names, by lines: a note, a fact, a stretch of a conversation.",
        GET_ARGUMENTS,
        GET_ANSWER,
    ),
    ToolShape(
        MEMORY_STATUS,
        "Memory status",
        "Say whether the memory is ready, and how much it holds.",
        STATUS_ARGUMENTS,
        STATUS_ANSWER,
    ),
    ToolShape(
        MEMORY_REMEMBER,
        "Remember a fact",
        "Keep one fact for later conversations.",
        REMEMBER_SCHEMA,
        REMEMBER_ANSWER,
        writes=True,
    ),
    ToolShape(
        MEMORY_FORGET,
        "Forget",
        "Forget for ever what references of a search name; there is no way back. With dry_run nothing is done yet.",
        FORGET_ARGUMENTS,
        FORGET_ANSWER,
        writes=True,
        destroys=True,
    ),
)
