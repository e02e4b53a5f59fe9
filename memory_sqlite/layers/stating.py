"""Stated facts in the store: one call becomes records of L3, inside the caller's transaction.

The newest statement about the same (scopes and name) stands whole, the one before is superseded; said again word for
word it is reinforced and takes the newest names. Not here: what may be stated (``layers.stated``), facts found in what
was said (``layers.writing``). Called by ``agent.stating``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from memory_sqlite.clock import Clock, utc_day
from memory_sqlite.config import Settings
from memory_sqlite.layers.keywords import keywords
from memory_sqlite.layers.labels import PINNED
from memory_sqlite.layers.stated import Stated
from memory_sqlite.layers.writing import is_agent_wide, next_line, profile_folder
from memory_sqlite.model import OriginClass
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.transcripts.sessions import Session
from memory_sqlite.values import dataclass, field


@dataclass
class Kept:
    """What became of a call: record ids, and how many facts were new or refused."""

    facts: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    new: int = 0
    refused: int = 0
    """Standing instructions of somebody who is not the owner: they are never kept."""


def store_facts(
    connection: apsw.Connection,
    session: Session,
    facts: Sequence[Stated],
    *,
    from_owner: bool,
    settings: Settings,
    clock: Clock,
    origin: OriginClass | None = None,
    agent_wide: bool | None = None,
) -> Kept:
    """Store the facts in their order. A stranger's are never pinned and never an instruction, since both would be put
    before every prompt.

    ``origin`` and ``agent_wide`` are what a provider's own tool says of facts that a model states (``from_owner`` is
    false); ``None``: as for what a host states.
    """
    kept = Kept()
    for fact in facts:
        if fact.kind == "instruction" and not from_owner:
            kept.refused += 1
            continue
        _Stating(connection, session, from_owner, settings, clock, origin, agent_wide).store(fact, kept)
    return kept


def end_facts(connection: apsw.Connection, record_ids: Sequence[str]) -> list[str]:
    """End facts that are in force, with nothing in their place; inside the caller's transaction. Returns which."""
    ended: dict[str, None] = {}
    for record_id in record_ids:
        rows = all_rows(
            connection,
            "SELECT id FROM records WHERE record_id = ? AND layer = 'L3' AND slot IS NOT NULL AND status = 'active'",
            (record_id,),
        )
        for (row_id,) in rows:
            connection.execute("UPDATE records SET status = 'superseded', superseded_by = NULL WHERE id = ?", (row_id,))
            change_log.append(connection, "record", row_id)
            ended[record_id] = None
    return list(ended)


@dataclass
class _Stating:
    connection: apsw.Connection
    session: Session
    from_owner: bool
    settings: Settings
    clock: Clock
    said_origin: OriginClass | None = None
    said_agent_wide: bool | None = None

    @property
    def agent_wide(self) -> bool:
        if self.said_agent_wide is not None:
            return self.said_agent_wide
        return is_agent_wide(self.session, self.settings, trusted=self.from_owner)

    @property
    def origin(self) -> OriginClass:
        return self.said_origin or ("owner" if self.from_owner else "untrusted")

    def store(self, fact: Stated, kept: Kept) -> None:
        """Reinforce what says the same, supersede what says otherwise, and keep what is new."""
        before = self._active(fact.slot)
        same = [row for row in before if row[2] == fact.content]
        if fact.status == "superseded":
            if not same:
                self._insert(fact, kept)
            self._supersede(before, None, kept)
        elif same:
            row_id, record_id, _ = same[-1]
            self._reinforce(row_id, fact)
            kept.facts.append(record_id)
            self._supersede([row for row in before if row[0] != row_id], row_id, kept)
        else:
            self._supersede(before, self._insert(fact, kept), kept)

    def _active(self, slot: str) -> list[tuple[int, str, str]]:
        """Facts in force about the same: agent-wide ones among themselves, a session's among themselves."""
        trust = "origin = 'owner'" if self.from_owner else "origin <> 'owner'"
        scope, bindings = "agent_wide = 1", (slot,)
        if not self.agent_wide:
            scope, bindings = "agent_wide = 0 AND session_id = ?", (slot, self.session.id)  # type: ignore[assignment]
        return all_rows(
            self.connection,
            "SELECT id, record_id, content FROM records"
            f" WHERE slot = ? AND status = 'active' AND layer = 'L3' AND {scope} AND {trust} ORDER BY id",
            bindings,
        )

    def _reinforce(self, row_id: int, fact: Stated) -> None:
        now = self.clock.now_ms()
        self.connection.execute(
            "UPDATE records SET reinforced = reinforced + 1, reinforced_at = ?1, event_at = max(event_at, ?1),"
            " kind = ?2, triggers = ?3, importance = ?4 WHERE id = ?5",
            (now, fact.kind, _json(fact.names), self._importance(fact), row_id),
        )
        change_log.append(self.connection, "record", row_id)

    def _supersede(self, rows: Sequence[tuple[int, str, str]], by: int | None, kept: Kept) -> None:
        for row_id, record_id, _ in rows:
            self.connection.execute(
                "UPDATE records SET status = 'superseded', superseded_by = ? WHERE id = ?", (by, row_id)
            )
            change_log.append(self.connection, "record", row_id)
            kept.superseded.append(record_id)

    def _importance(self, fact: Stated) -> int | None:
        return PINNED if fact.pinned and self.from_owner else None

    def _insert(self, fact: Stated, kept: Kept) -> int:
        now = self.clock.now_ms()
        day, folder = utc_day(now), profile_folder(self.settings)
        ordinal = next_line(self.connection, self.session.id, folder, day)
        record_id = self.clock.record_id()
        words = [word for word in keywords(fact.content) if word == valid_unicode(word)]
        self.connection.execute(
            "INSERT INTO records (record_id, layer, kind, content, keywords, session_id, origin, agent_wide,"
            " importance, triggers, projects, slot, status, day, folder, ordinal, event_at, created_at)"
            " VALUES (?, 'L3', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record_id,
                fact.kind,
                fact.content,
                _json(words),
                self.session.id,
                self.origin,
                int(self.agent_wide),
                self._importance(fact),
                _json(fact.names),
                _json(fact.scopes),
                fact.slot,
                fact.status,
                day,
                folder,
                ordinal,
                now,
                now,
            ),
        )
        row_id = self.connection.last_insert_rowid()
        change_log.append(self.connection, "record", row_id)
        kept.facts.append(record_id)
        kept.new += 1
        return row_id


def _json(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=True, separators=(",", ":"))
