"""The product's two hooks: a finished turn is captured, and before a prompt what is relevant is recalled.

Facts: sections 6.1 and 6.2 of the layered-memory reference. Neither ever raises to the host or holds a reply up: what
goes wrong becomes a warning without any text of a memory. Called by hosts; made by ``plugin``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from memory_sqlite import errors, limits
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.integrations.layered_memory.agents import AgentMemory
from memory_sqlite.integrations.layered_memory.caller import caller_of
from memory_sqlite.integrations.layered_memory.recall_text import budgeted, framed, without_history
from memory_sqlite.integrations.layered_memory.results import Results, Signal
from memory_sqlite.layers import compatible
from memory_sqlite.layers.keywords import js_trim
from memory_sqlite.recall.deadline import run_within
from memory_sqlite.text.frame import strip_frames
from memory_sqlite.text.units import cut_utf16, utf16_length

_LEAST_QUERY_UNITS: Final = 2

Warn = Callable[[str], None]


class LayeredHooks:
    """``agent_end`` and ``before_prompt_build`` over the agents' memories; ``warn`` is the host's logger."""

    def __init__(self, settings: Settings, clock: Clock, memories: Callable[[str], AgentMemory], warn: Warn) -> None:
        self._settings = settings
        self._clock = clock
        self._memories = memories
        self._warn = warn

    def agent_end(self, event: Mapping[str, Any], context: Mapping[str, Any] | None = None) -> None:
        """Store the turn that has just ended well, once, under the session the host vouches for.

        A message over ``maxRecordBytes`` is kept shortened with a mark: the turn is over and cannot be sent again.
        """
        if not self._settings.enabled or event.get("success") is not True:
            return
        caller = caller_of(context)
        if caller.session is None:
            self._warn("[memory] persistence skipped: trusted session key is unavailable")
            return
        run_id = event.get("runId")
        run = js_trim(run_id) if isinstance(run_id, str) else ""
        try:
            self._memories(caller.agent).append_turn(caller, _messages(event), run or None, oversize="truncate")
        except Exception as error:  # a finished turn must reach the person whatever happens here
            self._warn(f"[memory] failed to persist completed turn: {_reason(error)}")

    def before_prompt_build(
        self, event: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> dict[str, str] | None:
        """``{"prependContext": …}`` or ``None``, within ``autoRecallTimeoutMs`` once the store is open."""
        if not self._settings.enabled or not self._settings.auto_recall:
            return None
        try:
            text = self._recall(event, context)
        except Exception as error:  # the reply is made with or without a memory
            self._warn(f"[memory] automatic recall skipped: {_reason(error)}")
            return None
        return {"prependContext": text} if text else None

    def _recall(self, event: Mapping[str, Any], context: Mapping[str, Any] | None) -> str:
        query = _query(event)
        if not _active(context) or utf16_length(query) < _LEAST_QUERY_UNITS:
            return ""
        caller = caller_of(context)
        if caller.session is None:
            self._warn("[memory] automatic recall skipped: trusted session key is unavailable")
            return ""
        memory = self._memories(caller.agent)
        if memory.opened(create=False) is None or not _active(context):  # opening is not bounded by the deadline
            return ""
        settings = self._settings
        limit = min(settings.auto_recall_max_results, settings.max_search_results)

        def find(guard: Deadline) -> Results:
            return memory.find(caller, query, max_results=limit, cancelled=guard.is_over, around=guard.interruptible)

        signal = (context or {}).get("signal")
        deadline = Deadline(settings.auto_recall_timeout_ms / 1000, self._clock, cast("threading.Event | None", signal))
        outcome = run_within(deadline, find)
        if outcome.value is None:
            if outcome.reason != "cancelled":
                late = f"auto recall timed out after {settings.auto_recall_timeout_ms}ms"
                why = late if outcome.reason == "timeout" else "the search failed"
                self._warn(f"[memory] automatic recall skipped: {why}")
            return ""
        if not _active(context):
            return ""
        if settings.context_max_tokens is not None:
            return budgeted(outcome.value, settings.context_max_tokens)
        return framed(outcome.value, settings.auto_recall_max_chars)


def _messages(event: Mapping[str, Any]) -> Sequence[Any]:
    messages = event.get("messages")
    return messages if isinstance(messages, list | tuple) else ()


def _query(event: Mapping[str, Any]) -> str:
    """What the person has just said, without anything that was recalled before; else the prompt."""
    said = [message["content"] for message in compatible.current_turn(_messages(event)) if message["role"] == "user"]
    prompt = event.get("prompt")
    text = said[-1] if said else prompt if isinstance(prompt, str) else ""
    return cut_utf16(js_trim(without_history(strip_frames(text))), limits.RECALL_QUERY_UNITS)


def _active(context: Mapping[str, Any] | None) -> bool:
    """Whether the host still wants this call: its signal is not set and its invocation has not ended."""
    context = context or {}
    signal: Signal | None = context.get("signal")
    if signal is not None and signal.is_set():
        return False
    assert_active = getattr(context.get("hookInvocation"), "assert_active", None)
    if assert_active is not None:
        try:
            assert_active()
        except Exception:
            return False
    return True


def _reason(error: Exception) -> str:
    """Errors of ours never hold text of a memory; of any other only the type is told."""
    return error.message if isinstance(error, errors.MemorySqliteError) else type(error).__name__
