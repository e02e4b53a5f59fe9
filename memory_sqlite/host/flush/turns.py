"""The turn a host is asked to run: a session of its own, a bounded copy of what was said, prompts, a pinned model.

Not here: its tools (``arms``), its audience (``run``). Called by ``run``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_sqlite import limits
from memory_sqlite.host.flush.plans import CompletePlan
from memory_sqlite.host.flush.shapes import BoundTool, FlushSourceTurn, FlushTurn
from memory_sqlite.runtime.plugins import ToolContext


@dataclass(frozen=True)
class Model:
    """Which model runs the turn, and what may take over."""

    provider: str | None
    name: str | None
    fallbacks: tuple[str, ...]


def model_of(plan: CompletePlan, source: FlushSourceTurn) -> Model:
    """The plan's model and nothing after it, or the session's with its fallbacks.

    ``provider/model`` names both when neither part is blank; anything else is a model of the current provider.
    """
    if plan.model is None:
        return Model(source.provider, source.model, source.fallbacks)
    provider, slash, name = plan.model.partition("/")
    if slash and provider.strip() and name.strip():
        return Model(provider.strip(), name.strip(), ())
    return Model(source.provider, plan.model, ())


def turn_of(
    plan: CompletePlan, source: FlushSourceTurn, context: ToolContext, tools: tuple[BoundTool, ...]
) -> FlushTurn:
    """The turn, in the session that ``context`` names."""
    model = model_of(plan, source)
    assert context.session_id is not None, "made with one by the caller"
    return FlushTurn(
        agent_id=source.agent_id,
        session_key=context.session_key,
        session_id=context.session_id,
        policy_session_key=source.session_key,
        sandboxed=source.sandboxed,
        transcript=bounded_copy(source.transcript),
        prompt=plan.prompt,
        system_prompt="\n\n".join(part for part in (source.extra_system_prompt, plan.system_prompt) if part.strip()),
        tools=tools,
        tool_context=context,
        provider=model.provider,
        model=model.name,
        fallbacks=model.fallbacks,
        tainted=source.transcript_tainted or not source.sender_is_owner,
        signal=source.signal,
    )


def bounded_copy(transcript: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The newest messages within the bounds, copied whole: nothing the flush does reaches the source's transcript."""
    kept: list[Mapping[str, Any]] = []
    left = limits.FLUSH_TRANSCRIPT_MAX_BYTES
    for message in reversed(transcript[-limits.FLUSH_TRANSCRIPT_MESSAGES_MAX :]):
        left -= len(json.dumps(message, ensure_ascii=False, default=str).encode("utf-8", "replace"))
        if left < 0:
            break
        kept.append(copy.deepcopy(message))
    return tuple(reversed(kept))
