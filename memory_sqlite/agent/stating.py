"""``remember_facts``: facts a host states, checked, stored in one transaction, searchable when the receipt is written.

Not here: what a fact may be (``layers.stated``), rules of storing (``layers.stating``). Called by the door.
"""

from __future__ import annotations

from dataclasses import replace

from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.layers.stated import Stated, check
from memory_sqlite.layers.stating import Kept, store_facts
from memory_sqlite.model import Receipt, SessionInfo
from memory_sqlite.transcripts import sessions
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one call wants to store, checked and masked; nothing was written yet."""

    info: SessionInfo
    facts: tuple[Stated, ...]


def prepare(info: SessionInfo, facts: object, settings: Settings) -> Prepared:
    """Check everything before the first byte is written. Raises ``InvalidArgument``."""
    info = sessions.check_info(replace(info, key=sessions.check_key(info.key)))
    return Prepared(info, check(facts, redact=settings.redact_secrets))


def remember(opened: Opened, prepared: Prepared, settings: Settings, clock: Clock) -> Receipt:
    """Store the facts, then let the index apply them. The host's own sessions (cron, sub-agent) state none."""
    info, facts = prepared.info, prepared.facts
    if not facts:
        return Receipt("empty", info.key)
    with opened.store.transaction() as connection:
        now = clock.now_ms()
        session = sessions.ensure(opened.store, info, at=now, now=now)
        # in a direct chat the flag belongs to the session; elsewhere it belongs to whoever states this
        is_owner = session.sender_is_owner if session.chat_type == "direct" else info.sender_is_owner
        kept = Kept()
        if not session.is_internal:
            kept = store_facts(connection, session, facts, from_owner=is_owner is True, settings=settings, clock=clock)
    warnings = [f"{kept.refused} instructions of somebody who is not the owner were not kept"] if kept.refused else []
    if session.is_internal:
        return Receipt("empty", info.key, warnings=("a session of the host's own states no facts",))
    late = apply_quietly(opened)
    return Receipt(
        "stored" if kept.new else "duplicate" if kept.facts else "empty",
        info.key,
        facts=tuple(f"record:{record_id}" for record_id in kept.facts),
        superseded=tuple(f"record:{record_id}" for record_id in kept.superseded),
        redactions=sum(fact.redactions for fact in facts),
        searchable=late is None,
        warnings=tuple([*warnings, late] if late else warnings),
    )
