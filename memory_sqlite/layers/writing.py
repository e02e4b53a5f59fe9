"""L1 to L3 in the store: one accepted turn becomes its records, inside the turn's own transaction.

Extraction is elsewhere and pure (``layers.extract``); here are the rules of storing: the n-th turn's scenario covers
the last n turns as the store counts them, a changed fact supersedes, a repeated one is reinforced, nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from memory_sqlite import limits
from memory_sqlite.clock import Clock, utc_day
from memory_sqlite.config import Settings
from memory_sqlite.layers import compatible, standard
from memory_sqlite.layers.extract import extract
from memory_sqlite.layers.keywords import keywords
from memory_sqlite.model import Fact, Layer, OriginClass
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import all_rows, integer
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.transcripts.sessions import Session
from memory_sqlite.transcripts.turns import Accepted, StoredMessage
from memory_sqlite.values import dataclass, field

_FOLDERS = {"L1": "memories", "L2": "scenarios"}


def profile_folder(settings: Settings) -> str:
    """The folder of the virtual paths of L3."""
    return "agent-profiles" if settings.profile_scope == "agent" else "profiles"


def is_agent_wide(session: Session, settings: Settings, *, trusted: bool) -> bool:
    """Whether a fact is visible beyond its session: never a stranger's, always the owner's in a direct chat."""
    by_scope = settings.profile_scope == "agent"
    return trusted and (by_scope or (session.owner_private and settings.compatibility != "layered-memory"))


def next_line(connection: apsw.Connection, session_id: int, folder: str, day: str) -> int:
    """The next free line of a virtual day file."""
    place = "session_id = ? AND folder = ? AND folder <> 'agent-profiles' AND day = ?"
    bindings: tuple[object, ...] = (session_id, folder, day)
    if folder == "agent-profiles":
        place, bindings = "folder = 'agent-profiles' AND day = ?", (day,)
    return integer(connection, f"SELECT coalesce(max(ordinal), 0) + 1 FROM records WHERE {place}", bindings)


@dataclass
class Written:
    """What the layers made of a turn: record ids by layer."""

    episodes: list[str] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)


def write_layers(
    connection: apsw.Connection, session: Session, turn: Accepted, *, settings: Settings, clock: Clock
) -> Written:
    """Make the L1 episode, on every n-th turn the L2 scenario, and the L3 facts of a new turn.

    Sessions of the host's own (cron, heartbeat, sub-agent) make none.
    """
    written = Written()
    if session.is_internal or not turn.is_new:
        return written
    writer = _Writer(connection, session, turn, settings, clock)
    for stored in turn.stored:
        if stored.message.role == "user" and not stored.message.is_tool_output:
            writer.remember_words(stored, written)
    if turn.ordinal % settings.extraction_interval == 0:
        writer.remember_scenario(written)
    return written


def remember_fact_again(
    connection: apsw.Connection,
    session: Session,
    turn: Accepted,
    stored: StoredMessage,
    fact: Fact,
    *,
    settings: Settings,
    clock: Clock,
) -> str:
    """Store a fact anew from a turn that had only reinforced it, for the turn whose words it had is forgotten; returns
    its record id. Inside the caller's transaction, after the old record is gone."""
    return _Writer(connection, session, turn, settings, clock).remember_fact(fact, stored)


@dataclass
class _Writer:
    connection: apsw.Connection
    session: Session
    turn: Accepted
    settings: Settings
    clock: Clock
    _inserted: int = 0

    @property
    def compatible(self) -> bool:
        return self.settings.compatibility == "layered-memory"

    def remember_words(self, stored: StoredMessage, written: Written) -> None:
        """L1 and L3 of one message."""
        trusted = stored.origin == "owner"
        extraction = extract(stored.message.text, mode=self.settings.compatibility, trusted=trusted or self.compatible)
        if extraction.episode is not None:
            content, words = extraction.episode
            written.episodes.append(self._insert("L1", None, content, words, stored.origin, False, stored))
        for fact in extraction.facts:
            record_id, superseded = self._remember_fact(fact, stored, trusted)
            written.facts.append(record_id)
            written.superseded += superseded

    def remember_scenario(self, written: Written) -> None:
        """L2: in standard mode over the person's words of the last n turns, in compatible mode of this turn alone."""
        covered: list[int] = []
        if self.compatible:
            own = [
                s.message.text for s in self.turn.stored if s.message.role == "user" and not s.message.is_tool_output
            ]
            content, words = compatible.scenario(own)
        else:
            turns = self._last_turns(self.settings.extraction_interval)
            if not turns:
                return
            covered = list(turns)
            content, words = standard.scenario(list(turns.values()))
        if content:
            origin: OriginClass = "owner" if all(s.origin != "untrusted" for s in self.turn.stored) else "untrusted"
            written.scenarios.append(self._insert("L2", None, content, words, origin, False, None))
            self._rest_on(self._inserted, covered)

    def _rest_on(self, row_id: int, turn_ids: Sequence[int]) -> None:
        """Note which further turns a record rests on: forgetting one of them must find it."""
        self.connection.executemany(
            "INSERT OR IGNORE INTO record_sources (record_id, turn_id)"
            " SELECT id, ?2 FROM records WHERE id = ?1 AND turn_id IS NOT ?2",  # its own turn it names itself
            [(row_id, turn_id) for turn_id in turn_ids],
        )

    def _last_turns(self, count: int) -> dict[int, list[str]]:
        rows = self.connection.execute(
            "SELECT t.id, m.text FROM turns t JOIN messages m ON m.turn_id = t.id"
            " WHERE t.session_id = ? AND t.ordinal > ? AND t.ordinal <= ? AND m.role = 'user' AND m.is_tool_output = 0"
            " ORDER BY t.ordinal, m.position",
            (self.session.id, self.turn.ordinal - count, self.turn.ordinal),
        )
        turns: dict[int, list[str]] = {}
        for turn_id, text in rows:
            turns.setdefault(turn_id, [])
            if text:
                turns[turn_id].append(text)
        return {turn_id: texts for turn_id, texts in turns.items() if texts}

    def _event_time(self, stored: StoredMessage | None) -> int:
        """When it was said. A clock that is ahead must not make a fact that nothing said later can ever correct: what
        comes out of the future was said now. The message itself keeps the host's time."""
        at = stored.message.at if stored is not None and stored.message.at is not None else self.turn.at
        now = self.clock.now_ms()
        return at if at <= now + limits.SAME_TURN_WINDOW_MS else now

    def remember_fact(self, fact: Fact, stored: StoredMessage) -> str:
        """L3 of one fact alone."""
        return self._remember_fact(fact, stored, stored.origin == "owner")[0]

    def _remember_fact(self, fact: Fact, stored: StoredMessage, trusted: bool) -> tuple[str, list[str]]:
        agent_wide = is_agent_wide(self.session, self.settings, trusted=trusted)
        at = self._event_time(stored)
        rivals = [] if fact.slot is None else self._active_facts(fact.slot, agent_wide, stored.origin)
        # "I don't live in Oslo any more" speaks of Oslo only and leaves Bergen alone; so does the reverse
        rivals = [r for r in rivals if r[2] == fact.value or (fact.polarity > 0 and r[3] > 0)]
        for row_id, record_id, value, polarity, event_at in rivals:
            if value == fact.value and polarity == fact.polarity:
                self.connection.execute(
                    "UPDATE records SET reinforced = reinforced + 1, reinforced_at = ?, event_at = max(event_at, ?)"
                    " WHERE id = ?",
                    (at, at, row_id),
                )
                self._rest_on(row_id, [self.turn.turn_id])
                change_log.append(self.connection, "record", row_id)
                self._supersede([r for r in rivals if r[0] != row_id and r[4] <= max(at, event_at)], row_id)
                return record_id, []
        record_id = self._insert(
            "L3", fact, fact.content, tuple(keywords(fact.content)), stored.origin, agent_wide, stored
        )
        row_id = self._inserted
        newer = [rival for rival in rivals if rival[4] > at]
        if newer:
            # an older transcript imported late: what was said after it still stands
            self._supersede([(row_id, record_id, fact.value, fact.polarity, at)], newer[0][0])
            return record_id, [record_id]
        return record_id, self._supersede(rivals, row_id)

    def _active_facts(
        self, slot: str, agent_wide: bool, origin: OriginClass
    ) -> list[tuple[int, str, str | None, int, int]]:
        """Active facts on the same matter that this one may speak to: agent-wide ones among themselves, a session's
        among themselves; a stranger's words never touch the owner's."""
        trust = "origin = 'owner'" if origin == "owner" else "origin <> 'owner'"
        scope = "agent_wide = 1" if agent_wide else "agent_wide = 0 AND session_id = ?"
        bindings: tuple[object, ...] = (slot,) if agent_wide else (slot, self.session.id)
        return all_rows(
            self.connection,
            "SELECT id, record_id, value, polarity, event_at FROM records"
            f" WHERE slot = ? AND status = 'active' AND layer = 'L3' AND {scope} AND {trust} ORDER BY id",
            bindings,
        )

    def _supersede(self, rivals: Sequence[tuple[int, str, str | None, int, int]], by: int) -> list[str]:
        for row_id, *_ in rivals:
            self.connection.execute(
                "UPDATE records SET status = 'superseded', superseded_by = ? WHERE id = ?", (by, row_id)
            )
            change_log.append(self.connection, "record", row_id)
        return [rival[1] for rival in rivals]

    def _insert(
        self,
        layer: Layer,
        fact: Fact | None,
        content: str,
        words: Sequence[str],
        origin: OriginClass,
        agent_wide: bool,
        stored: StoredMessage | None,
    ) -> str:
        now = self.clock.now_ms()
        day = utc_day(now)
        folder = _FOLDERS.get(layer) or profile_folder(self.settings)
        ordinal = next_line(self.connection, self.session.id, folder, day)
        record_id = self.clock.record_id()
        message = stored.message if stored else None
        self.connection.execute(
            "INSERT INTO records (record_id, layer, kind, content, keywords, session_id, turn_id, sender, run_id,"
            " origin, agent_wide, projects, slot, value, polarity, day, folder, ordinal, event_at, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record_id,
                layer,
                fact.kind if fact else None,
                # compatible mode may cut an astral character in two, which no UTF-8 text can hold
                valid_unicode(content),
                json.dumps(list(words), ensure_ascii=True, separators=(",", ":")),
                self.session.id,
                self.turn.turn_id,
                message.sender if message else None,
                self.turn.run_id,
                origin,
                int(agent_wide),
                json.dumps([self.session.project] if self.session.project else []),
                fact.slot if fact else None,
                fact.value if fact else None,
                fact.polarity if fact else 1,
                day,
                folder,
                ordinal,
                self._event_time(stored),
                now,
            ),
        )
        self._inserted = self.connection.last_insert_rowid()
        change_log.append(self.connection, "record", self._inserted)
        return record_id
