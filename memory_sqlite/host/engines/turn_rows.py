"""Rows of ``turn_outbox`` as values, and their JSON. No database here: called by ``outbox``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from memory_sqlite import limits
from memory_sqlite.clock import parse_time
from memory_sqlite.context.shapes import TurnAdmission, TurnAnchor
from memory_sqlite.text.secrets import mask, mask_json
from memory_sqlite.text.units import utf8_length

OutboxState = Literal["admitted", "accepted", "ready", "blocked"]

FACTS: Final[Mapping[str, type]] = {
    "provider": str,
    "modelId": str,
    "modelContextWindow": int,
    "tokenBudget": int,
}
"""What of a run is kept for the engine, by its wire name; never a live capability, never a secret."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

COLUMNS: Final = (
    "seq, advancement_key, engine_id, owner_id, session_key, session_id, state, admission, terminal, messages, facts,"
    " heartbeat, attempts, reason, at"
)


@dataclass(frozen=True)
class AdmittedTurn:
    """A turn as a host admits it: its user entry, and the engine it is meant for. ``owner_id`` is the plugin that
    registered that engine."""

    admission: TurnAdmission
    engine_id: str
    owner_id: str

    @property
    def key(self) -> str:
        """The advancement key: the logical turn's id."""
        return self.admission.logical_turn_id

    @property
    def session_key(self) -> str:
        """The session it belongs to."""
        return self.admission.anchor.session_key


@dataclass(frozen=True)
class OutboxRow:
    """One turn that its engine has not acknowledged. ``messages`` only when ``ready``; ``at`` is ms."""

    seq: int
    turn: AdmittedTurn
    state: OutboxState
    at: int
    terminal: TurnAnchor | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    heartbeat: bool = False
    attempts: int = 0
    reason: str | None = None


def session_target(anchor: TurnAnchor) -> dict[str, Any]:
    """The session of an anchor in the contract's form."""
    return {
        "agentId": anchor.agent_id,
        "sessionId": anchor.session_id,
        "sessionKey": anchor.session_key,
        "storePath": anchor.store_path,
    }


def durable_facts(said: Mapping[str, Any], *, redact: bool) -> dict[str, Any]:
    """The persisted facts of a run: known names with a value of their type; everything else is left out."""
    kept: dict[str, Any] = {}
    for name, kind in FACTS.items():
        value = said.get(name)
        if type(value) is kind:
            kept[name] = mask(value)[0] if redact and isinstance(value, str) else value
    return kept


def is_key(value: Any) -> bool:
    """Whether it can be an advancement key: text that is not blank, valid, without NUL, and bounded."""
    return (
        isinstance(value, str)
        and not (value.isspace() or "\0" in value or _SURROGATE.search(value))
        and 0 < utf8_length(value) <= limits.ADVANCEMENT_KEY_MAX_BYTES
    )


def dump(value: Any) -> str:
    """Compact JSON, text unescaped but for lone surrogates. Raises ``ValueError`` or ``TypeError`` for what is none."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def dump_admission(admission: TurnAdmission) -> str:
    """An admission as it is kept, and compared with another under the same key."""
    return dump(asdict(admission))


def dump_anchor(anchor: TurnAnchor) -> str:
    """An anchor as it is kept, and compared."""
    return dump(asdict(anchor))


def dump_messages(messages: Sequence[Mapping[str, Any]], *, redact: bool) -> str:
    """The turn's messages; with ``redact`` with every secret masked, as in the transcript's own rows."""
    value: Any = [dict(message) for message in messages]
    return dump(mask_json(value)[0] if redact else value)


def said(message: Mapping[str, Any], admitted_at: int) -> tuple[int, str | None]:
    """When something of a turn was said and by whom, as far as its message tells; else when the turn began."""
    at, sender = parse_time(message.get("at")), message.get("sender") or message.get("name")
    return admitted_at if at is None else at, sender if isinstance(sender, str) else None


def load_admission(text: str) -> TurnAdmission:
    """What ``dump_admission`` kept."""
    value = json.loads(text)
    return TurnAdmission(TurnAnchor(**value["anchor"]), value["logical_turn_id"], value["role"])


def load_row(values: Sequence[Any]) -> OutboxRow:
    """One row of ``COLUMNS``."""
    (
        seq,
        _,
        engine_id,
        owner_id,
        _,
        _,
        state,
        admission,
        terminal,
        messages,
        facts,
        heartbeat,
        attempts,
        reason,
        at,
    ) = values
    return OutboxRow(
        seq=seq,
        turn=AdmittedTurn(load_admission(admission), engine_id, owner_id),
        state=state,
        at=at,
        terminal=None if terminal is None else TurnAnchor(**json.loads(terminal)),
        messages=None if messages is None else tuple(json.loads(messages)),
        facts=json.loads(facts),
        heartbeat=bool(heartbeat),
        attempts=attempts,
        reason=reason,
    )
