"""What an engine needs of a host, what it must declare for durable turns, and what its factory must have returned.

Pure questions about an engine; none of its methods is called. Used by ``registry`` and ``logical_turn``.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from memory_sqlite.context.shapes import ADVANCEMENT_IDEMPOTENCY, CURRENT_TURN_FENCE, EngineInfo

Operation = Literal["agent-run", "manual-compact", "subagent-spawn"]

ALL_CAPABILITIES: Final = frozenset(
    {
        "bootstrap",
        "assemble-before-prompt",
        "after-turn",
        "maintain",
        "compact",
        "runtime-llm-complete",
        "thread-bootstrap-projection",
    }
)
EMBEDDED: Final = ALL_CAPABILITIES - {"thread-bootstrap-projection"}
"""What a host that runs the model itself can do."""
APP_SERVER: Final = ALL_CAPABILITIES
COMMAND_LINE: Final = frozenset({"bootstrap", "after-turn", "maintain"})
"""What a host that drives another command-line agent can do."""

_METHODS: Final = ("ingest", "assemble", "compact")


def contract_gaps(engine: Any) -> list[str]:
    """What an engine lacks of the contract, by its name on the wire; empty for an engine."""
    info = getattr(engine, "info", None)
    gaps = [
        f"info.{name}"
        for name in ("id", "name")
        if not isinstance(value := getattr(info, name, None), str) or not value.strip()
    ]
    return gaps + [name for name in _METHODS if not callable(getattr(engine, name, None))]


def undeclared(engine: Any) -> str | None:
    """Which of the three declarations of durable turns is missing, or ``None``."""
    semantics = getattr(engine.info, "transcript_semantics", None)
    if getattr(semantics, "current_turn_fence", None) != CURRENT_TURN_FENCE:
        return "it does not declare the current-turn fence"
    if getattr(semantics, "turn_advancement_idempotency", None) != ADVANCEMENT_IDEMPOTENCY:
        return "it does not declare that committing a turn is atomic and idempotent"
    if not callable(getattr(engine, "commit_turn", None)):
        return "it has no commitTurn"
    return None


def missing(info: EngineInfo, operation: Operation, capabilities: frozenset[str]) -> tuple[str, ...]:
    """The capabilities that the engine requires for an operation and the host does not have."""
    requirement = (getattr(info, "host_requirements", None) or {}).get(operation)
    if requirement is None:
        return ()
    return tuple(name for name in requirement.required_capabilities if name not in capabilities)


def lacking(info: EngineInfo, operation: Operation, capabilities: frozenset[str]) -> str | None:
    """What to say when the host lacks something for an operation: the engine's own words where it has some."""
    absent = missing(info, operation, capabilities)
    if not absent:
        return None
    said = info.host_requirements[operation].unsupported_message
    return said or f"the host lacks {', '.join(absent)}"
