"""Our three tools: ``memory_search`` and ``memory_get`` look, ``memory_remember`` keeps; each for who its context says.

Agent, session and audience come from ``ToolContext``, never from arguments. Looking goes through the provider runtime,
as every other reader's does; keeping asserts currency immediately before it writes. What a model did wrong, and what
failed, is an error-marked result; a caller that is no longer current is an error raised. Not here: their arguments
(``tool_arguments``), their text (``tool_text``), storing (``recording``). Registered by a plugin with its host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memory_sqlite import errors, limits
from memory_sqlite.model import SOURCES, Source
from memory_sqlite.runtime import recording, tool_arguments, tool_text
from memory_sqlite.runtime.agents import Agents
from memory_sqlite.runtime.callers import CallerContext, SessionAuthority
from memory_sqlite.runtime.plugins import Tool, ToolContext, ToolResult
from memory_sqlite.runtime.recording import Place
from memory_sqlite.runtime.shapes import (
    GetRequest,
    NotFound,
    OpenRequest,
    ProviderHandle,
    ProviderRuntime,
    SearchRequest,
)
from memory_sqlite.runtime.tool_names import MEMORY_GET, MEMORY_REMEMBER, MEMORY_SEARCH
from memory_sqlite.runtime.visibility import PROVIDER_ID, Access, access_of

NO_GUARD: Final = "memory provider requires caller authority with assertCurrent"

_Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]


@dataclass(frozen=True)
class MemoryTools:
    """The tools of one provider. ``config`` is the host's, from which the provider reads its own settings."""

    provider: ProviderRuntime
    agents: Agents
    config: Mapping[str, Any] = field(default_factory=dict)

    def tools(self) -> tuple[Tool, ...]:
        """What a plugin registers: two that look, one that keeps."""
        return (
            _tool(
                MEMORY_SEARCH,
                "Search what is remembered: notes, facts, earlier conversations. Read more with memory_get.",
                tool_arguments.SEARCH_SCHEMA,
                self.search,
            ),
            _tool(
                MEMORY_GET,
                "Read what a reference of memory_search names, by lines.",
                tool_arguments.GET_SCHEMA,
                self.get,
            ),
            _tool(
                MEMORY_REMEMBER,
                "Keep one fact for later conversations.",
                tool_arguments.REMEMBER_SCHEMA,
                self.remember,
            ),
        )

    async def search(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``memory_search``: framed hits. Details: ``references``, ``next_cursor``, ``coverage``, ``warning``."""
        given = tool_arguments.known(arguments, tool_arguments.SEARCH_SCHEMA, MEMORY_SEARCH)
        request = SearchRequest(
            given["query"],
            max_results=tool_arguments.whole_number(given, "max_results", limits.TOOL_RESULTS_MAX),
            cursor=_text(given, "cursor"),
            sources=_sources(given),
        )
        caller, _ = self._caller(context)
        async with _Lease(self, context, caller) as handle:
            page = await handle.search(request)
        caller.assert_current()
        text, shown = tool_text.hits_text(page.hits)
        told = [text or "Nothing matched."]
        if shown < len(page.hits):
            told.append(f"{len(page.hits) - shown} more matched; ask for fewer or with other words.")
        elif page.next_cursor is not None:
            told.append(f"There is more: cursor {page.next_cursor}")
        if page.coverage == "partial":
            told.append("Not everything could be searched.")
        if page.warning is not None:
            told.append(f"Warning: {tool_text.harmless(page.warning)}")
        return ToolResult(
            "\n".join(told),
            {
                "status": "ok",
                "references": [tool_text.reference_text(hit.reference) for hit in page.hits[:shown]],
                "next_cursor": page.next_cursor,
                "coverage": page.coverage,
                "warning": page.warning,
            },
        )

    async def get(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``memory_get``: framed lines. Details: ``status`` (``ok`` or ``not_found``), ``lines``, ``next_from``."""
        given = tool_arguments.known(arguments, tool_arguments.GET_SCHEMA, MEMORY_GET)
        request = GetRequest(
            tool_text.parse_reference(PROVIDER_ID, given["reference"]),
            from_line=tool_arguments.whole_number(given, "from_line"),
            lines=tool_arguments.whole_number(given, "lines"),
        )
        caller, _ = self._caller(context)
        async with _Lease(self, context, caller) as handle:
            found = await handle.get(request)
        caller.assert_current()
        if isinstance(found, NotFound):
            return ToolResult("There is no such memory, or not any more.", {"status": "not_found"})
        text, lines, next_from = tool_text.lines_text(found)
        more = f"\nThere is more: from_line {next_from}" if next_from is not None else ""
        return ToolResult(text + more, {"status": "ok", "lines": lines, "next_from": next_from})

    async def remember(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``memory_remember``. Details: ``status`` (``stored``, ``reinforced``, ``duplicate``), ``reference``."""
        fact = tool_arguments.fact_of(tool_arguments.known(arguments, tool_arguments.REMEMBER_SCHEMA, MEMORY_REMEMBER))
        caller, access = self._caller(context)
        if access.kind not in ("owner-private", "conversation"):
            raise errors.AccessDenied("this session may not keep anything")
        flush_id = context.memory_flush.flush_id if context.memory_flush is not None else None
        place = Place(access.conversation, context.session_key)

        def store() -> recording.Recorded:
            rooms = self.agents.rooms(context.agent_id)
            return recording.record(rooms, place, fact, flush_id, caller.assert_current)

        kept = await asyncio.to_thread(store)
        told = {"stored": "Remembered.", "reinforced": "Known already; noted again.", "duplicate": "Kept already."}
        details = {"status": kept.status, "reference": kept.reference, "redactions": kept.redactions}
        if kept.warning is not None:
            details["warning"] = kept.warning
        return ToolResult(told[kept.status], details)

    def _caller(self, context: ToolContext) -> tuple[CallerContext, Access]:
        """On whose behalf. Raises ``AccessDenied`` for whom no memory is open, ``CallerNotCurrent``."""
        check = context.assert_memory_audience_current
        authority = SessionAuthority(
            context.session_key,
            context.sandboxed,
            context.session_id,
            context.memory_audience,
            context.conversation_recall,
        )
        access = access_of(context.agent_id, authority, self.config)
        access.require()
        if not callable(check):
            raise errors.CallerNotCurrent(NO_GUARD)
        check()
        return CallerContext(authority, check), access


@dataclass
class _Lease:
    """A handle for one call."""

    tools: MemoryTools
    context: ToolContext
    caller: CallerContext
    handle: ProviderHandle | None = None

    async def __aenter__(self) -> ProviderHandle:
        opened = await self.tools.provider.open(
            OpenRequest(self.context.agent_id, self.caller, config=self.tools.config)
        )
        if opened.provider is None:
            raise errors.ProviderUnavailable(opened.error or "memory plugin unavailable")
        self.handle = opened.provider
        return opened.provider

    async def __aexit__(self, *_: object) -> None:
        if self.handle is not None:
            await self.handle.close()


def _tool(name: str, description: str, parameters: Mapping[str, Any], run: _Run) -> Tool:
    async def told(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            return await run(arguments, context)
        except (errors.CallerNotCurrent, errors.Cancelled):
            raise
        except errors.MemorySqliteError as error:
            return ToolResult(error.message, {"status": "error", "code": error.code}, is_error=True)

    return Tool(name, description, parameters, told, PROVIDER_ID)


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise errors.InvalidArgument(f"{name} must be text that is not blank")
    return value


def _sources(given: Mapping[str, Any]) -> tuple[Source, ...] | None:
    value = given.get("sources")
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not value or any(one not in SOURCES for one in value):
        raise errors.InvalidArgument(f"sources may name {', '.join(SOURCES)}")
    return cast("tuple[Source, ...]", tuple(dict.fromkeys(value)))
