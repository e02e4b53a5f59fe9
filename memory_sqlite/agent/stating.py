"""``remember_facts`` and ``end_facts``: facts a host states, checked, stored in one transaction, searchable when the
receipt is written; and facts that hold no longer.

Not here: what a fact may be (``layers.stated``), rules of storing (``layers.stating``). Called by the door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.layers.stated import Stated, check
from memory_sqlite.layers.stating import Kept, end_facts, store_facts
from memory_sqlite.model import Receipt, SessionInfo
from memory_sqlite.search.folding import search_form
from memory_sqlite.search.tokens import groups
from memory_sqlite.transcripts import sessions
from memory_sqlite.values import dataclass

_RECORD: Final = "record:"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one call wants to store, checked and masked; nothing was written yet."""

    info: SessionInfo
    facts: tuple[Stated, ...]


def prepare(info: SessionInfo, facts: object, settings: Settings) -> Prepared:
    """Check everything before the first byte is written. Raises ``InvalidArgument``."""
    info = sessions.check_info(replace(info, key=sessions.check_key(info.key)))
    return Prepared(info, check(facts, redact=settings.redact_secrets, is_name=_is_name))


def check_references(references: object) -> tuple[str, ...]:
    """Record ids of references. Raises ``InvalidArgument``: no list, too many, not of records."""
    if not isinstance(references, Sequence) or isinstance(references, str | bytes):
        raise errors.InvalidArgument("references must be a list of references")
    if len(references) > limits.FACTS_PER_CALL_MAX:
        raise errors.InvalidArgument(f"references must be at most {limits.FACTS_PER_CALL_MAX} a call")
    if not all(isinstance(one, str) and one.startswith(_RECORD) for one in references):
        raise errors.InvalidArgument(f"references must each be a record's ({_RECORD}<id>)")
    return tuple(one.removeprefix(_RECORD) for one in references)


def end(opened: Opened, record_ids: Sequence[str]) -> list[str]:
    """End facts, then let the index apply it; the references of those that were in force."""
    with opened.store.transaction() as connection:
        ended = end_facts(connection, record_ids)
    apply_quietly(opened)
    return [f"{_RECORD}{record_id}" for record_id in ended]


def _is_name(text: str) -> bool:
    """Whether there is anything in it that words can name (``recall.naming``): not in punctuation alone."""
    return any(
        group.kind in ("cjk", "symbol") or any(map(str.isalnum, group.raw)) for group in groups(search_form(text))
    )


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
        facts=tuple(f"{_RECORD}{record_id}" for record_id in kept.facts),
        superseded=tuple(f"{_RECORD}{record_id}" for record_id in kept.superseded),
        redactions=sum(fact.redactions for fact in facts),
        searchable=late is None,
        warnings=tuple([*warnings, late] if late else warnings),
    )
