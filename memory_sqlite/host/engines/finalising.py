"""Telling an engine without the durable contract that a turn has ended, and offering maintenance.

One of ``after_turn``, ``ingest_batch``, ``ingest`` is used, in this order of preference; maintenance follows when that
has succeeded. The durable path uses none of them. Called by ``turn`` and, for maintenance, after an acknowledgement.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from memory_sqlite.host.engines.hosted import HostedEngine
from memory_sqlite.runtime.signals import AbortSignal

if TYPE_CHECKING:
    from memory_sqlite.host.engines.turn import TurnOutcome, TurnRequest

_log: Final = logging.getLogger("memory_sqlite.host.engines.finalising")


async def tell(
    engine: HostedEngine,
    common: Mapping[str, Any],
    outcome: TurnOutcome,
    maintenance: Mapping[str, Any],
    request: TurnRequest,
) -> bool:
    """Tell of a turn that ended well; whether that succeeded. Raises nothing of the engine's."""
    new = tuple(outcome.messages)[outcome.pre_prompt_message_count :]
    # the context after the turn, with the helper that may rewrite the transcript
    told = {**common, "runtime_context": maintenance["runtime_context"], "is_heartbeat": request.heartbeat}
    ingesting = {name: told[name] for name in ("session_id", "session_key", "is_heartbeat")}
    try:
        if engine.has("after_turn"):
            arguments = {
                "session_file": request.session_file,
                "messages": tuple(outcome.messages),
                "pre_prompt_message_count": outcome.pre_prompt_message_count,
                "auto_compaction_summary": outcome.auto_compaction_summary,
                "token_budget": outcome.token_budget,
            }
            await engine.call("after_turn", {**told, **arguments}, _anything, request.signal)
        elif engine.has("ingest_batch"):
            if new:
                await engine.call("ingest_batch", {**ingesting, "messages": new}, _anything, request.signal)
        else:
            for message in new:
                await engine.call("ingest", {**ingesting, "message": message}, _anything, request.signal)
    except Exception as error:
        _log.warning("context engine %r was not told of a turn (%s)", engine.engine_id, type(error).__name__)
        return False
    await maintain(engine, maintenance, "turn")
    return True


async def maintain(
    engine: HostedEngine, params: Mapping[str, Any], reason: str, signal: AbortSignal | None = None
) -> None:
    """Offer maintenance: inline, or beside everything else where the engine says so. Raises nothing of the engine's."""
    if not engine.has("maintain"):
        return
    if getattr(engine.info, "turn_maintenance_mode", "foreground") == "background":
        engine.retain(_quietly(engine, params, reason, signal))
    else:
        await _quietly(engine, params, reason, signal)


async def _quietly(engine: HostedEngine, params: Mapping[str, Any], reason: str, signal: AbortSignal | None) -> None:
    try:
        done = await engine.maintain(params, signal)
    except Exception as error:
        _log.warning(
            "maintenance (%s) of context engine %r failed (%s)", reason, engine.engine_id, type(error).__name__
        )
    else:
        _log.debug("maintenance (%s) of context engine %r: changed=%s", reason, engine.engine_id, done.changed)


def _anything(answer: Any) -> None:
    return None
