"""The six tools, as plain functions: arguments checked, one operation of the viewpoint, its result rendered.

Whatever a model says, it cannot choose agent, session or audience: an argument that no tool knows is refused. Functions
block and run in threads; ``cancelled`` reaches the worker that searches, and ``tell`` hears of each stage. What a model
did wrong is raised as an error of the catalogue, and no text of a memory is in it.

Not here: schemas (``schemas``), texts (``rendering``), who asks (``viewpoint``), any protocol (``mcp_server``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.model import SOURCES
from memory_sqlite.runtime.tool_arguments import REMEMBER_SCHEMA, fact_of, known
from memory_sqlite.runtime.tool_names import MEMORY_GET, MEMORY_REMEMBER, MEMORY_SEARCH
from memory_sqlite.runtime.tool_text import parse_reference
from memory_sqlite.runtime.visibility import PROVIDER_ID
from memory_sqlite.server import rendering, schemas
from memory_sqlite.server.rendering import Answer
from memory_sqlite.server.schemas import MEMORY_FORGET, MEMORY_STATUS, SESSIONS_SEARCH, SHAPES, ToolShape
from memory_sqlite.server.viewpoint import Viewpoint
from memory_sqlite.text.frame import one_line

Tell = Callable[[str], object]
_Run = Callable[[Mapping[str, Any], threading.Event, Tell], Answer]


class Operations:
    """The tools over one viewpoint. ``read_only`` leaves out those that write."""

    def __init__(self, viewpoint: Viewpoint, *, read_only: bool = False) -> None:
        self._viewpoint = viewpoint
        self._read_only = read_only
        self._runs: Final[dict[str, _Run]] = {
            MEMORY_SEARCH: self._search,
            SESSIONS_SEARCH: self._search_sessions,
            MEMORY_GET: self._get,
            MEMORY_STATUS: self._status,
            MEMORY_REMEMBER: self._remember,
            MEMORY_FORGET: self._forget,
        }

    def shapes(self) -> tuple[ToolShape, ...]:
        """The tools that this caller has: none that writes where nothing is written, and to forget is the owner's."""
        try:
            owner = self._read_only or self._viewpoint.is_owner()
        except errors.ProviderUnavailable:  # memory is disabled: each tool says so
            owner = True
        return tuple(
            shape for shape in SHAPES if not (shape.writes and self._read_only) and (owner or not shape.destroys)
        )

    def has(self, name: str) -> bool:
        """Whether there is a tool of that name here."""
        return any(shape.name == name and not (shape.writes and self._read_only) for shape in SHAPES)

    def run(self, name: str, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        """Do what the tool ``name`` does. Raises the errors of the catalogue."""
        return self._runs[name](arguments, cancelled, tell)

    def _search(self, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        given = known(arguments, schemas.SEARCH_ARGUMENTS, MEMORY_SEARCH)
        return self._found(given, given.get("sources", SOURCES), cancelled, tell)

    def _search_sessions(self, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        given = known(arguments, schemas.SESSIONS_ARGUMENTS, SESSIONS_SEARCH)
        if "query" in given:
            if "offset" in given:
                raise errors.InvalidArgument("offset is for lists of conversations, without a query")
            return self._found(given, ("sessions",), cancelled, tell)
        if "since" in given or "until" in given:
            raise errors.InvalidArgument("since and until narrow a query; give one")
        most = _number(given, "max_results", limits.TOOL_RESULTS_MAX, least=1, most=limits.TOOL_RESULTS_MAX)
        offset = _number(given, "offset", 0, least=0, most=_SQL_MAX)
        tell("listing")
        found = self._viewpoint.sessions(most + 1, offset)
        return rendering.listed_sessions(found[:most], offset, len(found) > most)

    def _found(self, given: Mapping[str, Any], sources: Any, cancelled: threading.Event, tell: Tell) -> Answer:
        tell("searching")
        page = self._viewpoint.search(
            given["query"],
            max_results=given.get("max_results"),
            most=limits.TOOL_RESULTS_MAX,
            sources=sources,
            projects=given.get("projects"),
            since=given.get("since"),
            until=given.get("until"),
            cancelled=cancelled,
        )
        return rendering.hits(page, self._viewpoint.shown)

    def _get(self, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        given = known(arguments, schemas.GET_ARGUMENTS, MEMORY_GET)
        reference = _reference(given["reference"])
        offset = _number(given, "offset", 0, least=0, most=_SQL_MAX)
        first = _number(given, "from_line", 1, least=1, most=_SQL_MAX)
        lines = _number(given, "lines", limits.MAX_READ_LINES[1], least=1, most=_SQL_MAX)
        tell("reading")
        read = self._viewpoint.get(reference, first, min(lines, limits.MAX_READ_LINES[1]), offset)
        return rendering.passage(read, offset, self._viewpoint.shown)

    def _status(self, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        known(arguments, schemas.STATUS_ARGUMENTS, MEMORY_STATUS)
        tell("looking")
        health = self._viewpoint.health()
        structured: dict[str, Any] = {
            "status": health.status,
            "message": None if health.message is None else one_line(health.message),
            "agent": one_line(self._viewpoint.agent),
            "session": None if self._viewpoint.session is None else one_line(self._viewpoint.session),
            "read_only": self._read_only,
        }
        if self._viewpoint.session is None:  # how much there is, groups included, is for the owner alone
            full = self._viewpoint.status()
            counts = {name: full[name] for name in ("sessions", "turns", "messages")}
            counts |= {f"records_{layer}": number for layer, number in full["records"].items()}
            counts["notes"] = full["index"].get("documents", {}).get("note", 0)
            structured |= {"counts": counts, "vectors": str(full["vectors"]["state"])}
        told = f"The memory of {structured['agent']} is {health.status}."
        if structured["message"]:
            told += f" {structured['message']}."
        if "counts" in structured:
            held = rendering.counted([(number, name) for name, number in structured["counts"].items()])
            told += f" It holds {held or 'nothing'}."
        return Answer(told, structured)

    def _remember(self, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        self._may_write()
        fact = fact_of(known(arguments, REMEMBER_SCHEMA, MEMORY_REMEMBER))
        tell("storing")
        kept = self._viewpoint.remember(fact)
        told = {"stored": "Remembered.", "reinforced": "Known already; noted again.", "duplicate": "Kept already."}
        structured = {
            "status": kept.status,
            "reference": None if kept.reference is None else rendering.word(kept.reference),
            "redactions": kept.redactions,
            "warning": None if kept.warning is None else one_line(kept.warning),
        }
        named = f" [{structured['reference']}]" if structured["reference"] else ""
        masked = " Secrets in it were masked." if kept.redactions else ""
        return Answer(told[kept.status] + masked + named, structured)

    def _forget(self, arguments: Mapping[str, Any], cancelled: threading.Event, tell: Tell) -> Answer:
        self._may_write()
        given = known(arguments, {**schemas.FORGET_ARGUMENTS, "required": []}, MEMORY_FORGET)
        named = given.get("references")
        if not isinstance(named, list) or not 1 <= len(named) <= limits.FORGET_REFERENCES_MAX:
            raise errors.InvalidArgument(f"references must list 1 to {limits.FORGET_REFERENCES_MAX} references")
        references = [_reference(one) for one in named]
        notes, keep_turns, dry_run = (_flag(given, name) for name in ("notes", "keep_turns", "dry_run"))
        tell("planning" if dry_run else "forgetting")
        report = self._viewpoint.forget(references, notes=notes, keep_turns=keep_turns, dry_run=dry_run)
        return rendering.forgotten(report, self._viewpoint.shown)

    def _may_write(self) -> None:
        if self._read_only:
            raise errors.StoreReadOnly("this server was started read-only")


_SQL_MAX: Final = 2**63 - 1


def _reference(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise errors.InvalidArgument("a reference must be text that is not blank")
    return parse_reference(PROVIDER_ID, value.strip().removeprefix("[").removesuffix("]")).id


def _number(given: Mapping[str, Any], name: str, default: int, *, least: int, most: int) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise errors.InvalidArgument(f"{name} must be a whole number from {least} to {most}")
    return value


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise errors.InvalidArgument(f"{name} must be true or false")
    return value
