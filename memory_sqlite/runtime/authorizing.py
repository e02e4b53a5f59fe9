"""Which raw hits of the legacy contract a requester may see: asked of the store, hit by hit, never of the hit itself.

Notes, records and transcripts alike: what a session may not read by ``get`` it does not get here either. A hit that the
store does not know (of another agent, or forgotten) is nobody's. Not here: what a recall pass admits (``recall_pass``).
Called by ``legacy_runtime``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from memory_sqlite.model import Source
from memory_sqlite.runtime import recall_pass
from memory_sqlite.runtime.callers import ConversationRecall
from memory_sqlite.runtime.manager_shapes import MemorySearchResult
from memory_sqlite.sources.reading import RECORD_PATH, TRANSCRIPT_PATH
from memory_sqlite.transcripts import audience, sessions
from memory_sqlite.transcripts.audience import Audience


@dataclass(frozen=True)
class Asking:
    """On whose behalf hits are looked through. ``trusted``: a host or operator caller, said to be one by the host."""

    agent_id: str
    session_key: str | None
    sandboxed: bool
    trusted: bool
    recall: ConversationRecall | None


@dataclass(frozen=True)
class _Owned:
    """Whose a hit is, by the store. ``session_key`` where it was said in a session."""

    source: Source
    session_id: int | None
    session_key: str | None
    owner_private: bool


def allowed(store: apsw.Connection, asking: Asking, hits: Sequence[MemorySearchResult]) -> list[MemorySearchResult]:
    """The hits that may be shown, in their order. Raises ``InvalidArgument`` for what is no session key."""
    admits = _Admission(store, asking)
    return [hit for hit in hits if (owned := _owned(store, hit)) is not None and admits(owned)]


class _Admission:
    def __init__(self, store: apsw.Connection, asking: Asking) -> None:
        self._store = store
        self._asking = asking
        self._requester = recall_pass.Requester(asking.agent_id, asking.session_key, asking.sandboxed)
        self._valid = False
        self._viewer = self._seen_by()

    def _seen_by(self) -> Audience:
        """Whose eyes the hits are looked at with, before a pass narrows it down."""
        asking = self._asking
        if asking.recall is not None:
            anchor_key = asking.recall.anchor_session_key
            anchor = recall_pass.conversations_of(self._store, asking.agent_id, anchor_key)
            self._valid = recall_pass.is_valid(asking.recall, self._requester, anchor)
            if self._valid:
                return audience.of_session(self._store, anchor_key)
        if asking.session_key is not None:
            return audience.of_session(self._store, asking.session_key)
        # trusted scope counts only with an agent, without a session, and without a pass
        if asking.trusted and asking.agent_id and asking.recall is None:
            return audience.OPERATOR
        return audience.NOBODY_YET

    def __call__(self, owned: _Owned) -> bool:
        if not self._viewer.may_read(session_id=owned.session_id, owner_private=owned.owner_private):
            return False
        recall = self._asking.recall
        if recall is None:
            return True
        facts = recall_pass.facts_of(self._store, self._asking.agent_id, owned.source, owned.session_key)
        return recall_pass.admits(recall, self._valid, self._requester, facts)


def _owned(store: apsw.Connection, hit: MemorySearchResult) -> _Owned | None:
    transcript = TRANSCRIPT_PATH.match(hit.path)
    if transcript is not None:
        session = sessions.by_token(store, transcript[1])
        return None if session is None else _Owned("sessions", session.id, session.key, session.owner_private)
    record = RECORD_PATH.match(hit.path)
    if record is not None:
        return _record(store, record["token"], record["folder"], record["day"], hit.start_line)
    # a note; one that says to be of a session is of none that anybody knows
    return _Owned("memory", None, None, True) if hit.source == "memory" else None


def _record(store: apsw.Connection, token: str | None, folder: str | None, day: str, line: int) -> _Owned | None:
    where = "r.folder = 'agent-profiles'" if token is None else "s.token = ?3 AND r.folder = ?4"
    more: tuple[Any, ...] = () if token is None else (token, folder)
    row = store.execute(
        "SELECT r.session_id, s.key, r.agent_wide OR (r.layer <> 'L3' AND s.chat_type = 'direct' AND"
        f" s.sender_is_owner IS 1) FROM records r JOIN sessions s ON s.id = r.session_id WHERE r.day = ?1"
        f" AND r.ordinal = ?2 AND {where}",
        (day, line, *more),
    ).fetchone()
    if row is None:
        return None
    session_id, key, private = row
    assert isinstance(session_id, int), "the column is an integer"
    return _Owned("memory", session_id, str(key), bool(private))
