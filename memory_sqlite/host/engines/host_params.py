"""What of a host's own fields an engine is given, and how those fields are made.

An engine that declares ``accepted_host_params`` is given those and no others; one that declares nothing is given all.
The engine's own arguments always pass, and so does the abort signal of ``compact`` (section 4.1 of the contract).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from memory_sqlite.context.shapes import EngineInfo

WIRE_NAMES: Final[Mapping[str, str]] = {
    "session_key": "sessionKey",
    "prompt": "prompt",
    "runtime_settings": "runtimeSettings",
    "session_target": "sessionTarget",
    "runtime_context": "runtimeContext",
    "abort_signal": "abortSignal",
}
"""A host's fields: their name in Python and on the wire."""

DELEGATE: Final = "delegateCompactionToRuntime"
"""The key of ``runtime_context`` under which an engine that does not own compaction finds the host's."""

_REWRITE: Final = "rewriteTranscriptEntries"


def accepted(info: EngineInfo, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call without the host's fields that the engine does not accept."""
    declared = getattr(info, "accepted_host_params", None)
    if declared is None:
        return dict(params)
    return {
        name: value
        for name, value in params.items()
        if name not in WIRE_NAMES or WIRE_NAMES[name] in declared or (method == "compact" and name == "abort_signal")
    }


def before_the_turn(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """A runtime context for calls before the model runs: without the helper that rewrites the transcript."""
    return {name: value for name, value in (context or {}).items() if name != _REWRITE}


def runtime_settings(
    *,
    selected: str,
    source: str,
    mode: Literal["normal", "fallback", "degraded"] = "normal",
    model: Mapping[str, Any] | None = None,
    execution_host: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    harness_id: str | None = None,
    runtime_id: str | None = None,
    fallback_reason: str | None = None,
    degraded_reason: str | None = None,
) -> dict[str, Any]:
    """The settings a host tells its engine, in the contract's form; what is not known is ``None``."""
    known, executing, bounds = model or {}, execution_host or {}, limits or {}
    return {
        "schemaVersion": 1,
        "runtime": {"host": "openclaw", "mode": mode, "harnessId": harness_id, "runtimeId": runtime_id},
        "model": {name: known.get(name) for name in ("requested", "resolved", "provider", "family")},
        "contextEngineSelection": {"selectedId": selected, "source": source},
        "executionHost": {name: executing.get(name) for name in ("id", "label")},
        "limits": {name: bounds.get(name) for name in ("promptTokenBudget", "maxOutputTokens")},
        "diagnostics": {"fallbackReason": fallback_reason, "degradedReason": degraded_reason},
    }
