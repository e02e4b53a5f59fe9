"""Deep recall: a small run of its own, with the memory's tools, that sums up what matters for a turn.

The host brings the model (``Think``). Here is what the run may do: the tools that recall may use and the turn's policy
allows, for a detached child of the turn with an audience delegated from it, and, where it is asked for and the turn is
the owner's private one, a bounded pass for the owner's other conversations. Nothing that it says is published or kept
once the audience has lapsed. Whatever goes wrong, nothing is injected. Not here: which tools (``recall_tools``), what a
pass admits (a provider).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.host.consumers.lease import still_current
from memory_sqlite.host.consumers.recall_turn import RecallTurn
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.racing import ends_of, raced
from memory_sqlite.host.recall_tools import deep_recall_tools
from memory_sqlite.host.slots import ActiveMemory
from memory_sqlite.recall.recall_cache import RecallCache
from memory_sqlite.recall.recalled_lines import safe_cut
from memory_sqlite.runtime.callers import ConversationRecall, MemoryAudience, RecallCorpus
from memory_sqlite.runtime.plugins import Tool, ToolContext, ToolResult
from memory_sqlite.text.frame import ITEM, close_frame

_log = logging.getLogger("memory_sqlite.host.consumers.deep_recall")


class DeepRun:
    """One run: its tools by name, and the context that they run in. It is over when the recall is."""

    def __init__(self, tools: Mapping[str, Tool], context: ToolContext, check: Callable[[], Awaitable[None]]) -> None:
        self.tools = tools
        self.context = context
        self._check = check

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """A tool, as the model asked for it. Raises ``ProviderRefused`` for one that is not the run's, and what the
        run's check raises, before and after it."""
        tool = self.tools.get(name)
        if tool is None:
            raise errors.ProviderRefused("this tool is not one that recall may use")
        await self._check()
        result = await tool.run(arguments, self.context)
        await self._check()
        return result


Think = Callable[[DeepRun], Awaitable[str | None]]
"""The host's model with the run's tools; it sums up in a few words, or says nothing."""


class DeepRecall:
    """Deep recall of one host."""

    def __init__(self, host: MemoryHost, cache: RecallCache[str] | None = None, clock: Clock | None = None) -> None:
        self._host = host
        self._clock = clock or Clock()
        self.cache: RecallCache[str] = RecallCache(self._clock) if cache is None else cache
        """Clear it when something was forgotten by a provider that has no ``forgotten_mark``; ours has one."""

    async def recall(
        self,
        turn: RecallTurn,
        think: Think,
        *,
        tools_allow: Any = None,
        corpus: RecallCorpus | None = None,
        max_units: int | None = None,
    ) -> str:
        """The framed summary, empty for none. Never raises but for being cancelled.

        ``tools_allow`` is the configured list, ``corpus`` what the pass may reach, ``max_units`` the summary's length
        in UTF-16 units.
        """
        owner = self._host.slot.owner()
        names = deep_recall_tools(owner, tools_allow, turn.allowed_tools.__contains__)
        if owner is None or not turn.words or not (tools := self._registered(owner, names)):
            return ""
        least, most, usual = limits.DEEP_RECALL_UNITS
        units = min(most, max(least, usual if max_units is None else max_units))
        facts, granted = turn.facts, self._pass(owner, turn.facts, corpus)
        try:
            key = turn.key(owner, tuple(tools), granted, units, await turn.forgotten_mark(owner))
            await still_current(self._host, turn.caller)
            known = self.cache.get(facts.memory_audience, facts.session_key, key)
            if known is not None:
                return known
            async with self._running(owner, turn, tools, granted) as deep:
                said = await raced(think(deep), ends_of(turn.signal))
                await still_current(self._host, turn.caller)
        except Exception as error:
            _log.debug("deep recall was left out: %s", type(error).__name__)
            return ""
        text = safe_cut(said or "", units)
        found = close_frame([f"{ITEM}recalled] {text}"]) if text else ""
        self.cache.put(facts.memory_audience, facts.session_key, key, found)
        return found

    def _registered(self, owner: ActiveMemory, names: tuple[str, ...]) -> dict[str, Tool]:
        """The tools of those names: the owner's own before another plugin's."""
        others = {tool.name: tool for tool in self._host.tools.all()}
        found = {name: self._host.tools.get(owner.plugin_id, name) or others.get(name) for name in names}
        return {name: tool for name, tool in found.items() if tool is not None}

    @asynccontextmanager
    async def _running(
        self, owner: ActiveMemory, turn: RecallTurn, tools: Mapping[str, Tool], granted: ConversationRecall | None
    ) -> AsyncIterator[DeepRun]:
        facts, audiences = turn.facts, self._host.audiences
        key = f"{facts.session_key}:active-memory:{self._clock.token_bytes(6).hex()}"
        audience: MemoryAudience | None = None
        over = False
        if facts.memory_audience is not None:
            audience = await audiences.delegate(facts.memory_audience, child_key=key, detached=True)

        def check() -> None:
            if over:
                raise errors.ProviderUnavailable("the recall is over")
            turn.assert_current()
            owner.instance.assert_alive()
            if turn.signal is not None:
                turn.signal.raise_if_aborted()
            if audience is not None:
                audiences.assert_current(audience, key)

        async def settled() -> None:
            await audiences.joined(audience)  # a session that is being written is waited for
            check()

        context = replace(
            facts,
            session_key=key,
            session_id=None,
            sender_is_owner=False,
            memory_audience=audience,
            assert_memory_audience_current=check,
            conversation_recall=granted,
            memory_flush=None,
        )
        try:
            yield DeepRun(tools, context, settled)
        finally:
            over = True
            if audience is not None:
                audiences.release(audience)

    def _pass(self, owner: ActiveMemory, facts: ToolContext, corpus: RecallCorpus | None) -> ConversationRecall | None:
        """A pass only from the owner's private conversation, outside of a sandbox, for a plugin that can do it."""
        if corpus is None or facts.sandboxed or not owner.capability.supports_private_transcript_recall:
            return None
        row = self._host.rows.get(facts.session_key)
        if row is None or row.chat_type != "direct" or not facts.sender_is_owner:
            return None
        return ConversationRecall(facts.session_key, corpus)
