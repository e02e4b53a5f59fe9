"""Records of an export into the store, with the turns they rest on and what supersedes what.

A record goes the way of what it was made from: an episode or a scenario of a turn that may not come does not come
either. Inside the import's transaction. Called by ``jsonl_import``, after the sessions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import apsw

from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_masking as masking
from memory_sqlite.interop.jsonl_forgotten import Forgotten
from memory_sqlite.interop.jsonl_format import Record
from memory_sqlite.interop.jsonl_sessions import SessionMerger
from memory_sqlite.interop.jsonl_tally import CONFLICT, Outcome, Tally
from memory_sqlite.layers.writing import next_line
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import one_row
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import sessions
from memory_sqlite.values import dataclass

_TURN = "SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session_id WHERE s.key = ? AND t.ordinal = ?"
_RECORD = (
    "SELECT r.id, r.layer, r.kind, r.content, r.keywords, s.key, ts.key, t.ordinal, r.sender, r.run_id, r.origin,"
    " r.agent_wide, r.importance, r.triggers, r.projects, r.slot, r.value, r.polarity, r.status, b.record_id,"
    " r.reinforced, r.reinforced_at, r.day, r.folder, r.event_at, r.created_at"
    " FROM records r JOIN sessions s ON s.id = r.session_id LEFT JOIN turns t ON t.id = r.turn_id"
    " LEFT JOIN sessions ts ON ts.id = t.session_id LEFT JOIN records b ON b.id = r.superseded_by"
    " WHERE r.record_id = ?"
)


_STATUS: Final = 17
"""Place of the status in ``_RECORD`` from the layer on,"""
_LASTING: Final = (0, 2, 4, 5, 6, 9, 10, 14, 15, 16, 21, 22, 24)
"""and of what never changes: layer, content, session, turn, origin, reach, slot, value, polarity, day, folder,
time of writing."""


@dataclass
class _Record:
    """The record whose further sources are coming. ``sources`` counts their lines, ``lost`` those that may not come."""

    line: Record
    outcome: Outcome
    id: int
    number: int
    sources: int = 0
    lost: int = 0
    redactions: int = 0


@dataclass(frozen=True, slots=True)
class _Superseded:
    """A record that waits for its successor; ``was_here`` before, and in force until the successor comes."""

    id: int
    line: int
    was_here: bool


class RecordMerger:
    """One import's records."""

    def __init__(
        self, store: Store, forgotten: Forgotten, merged: SessionMerger, settings: Settings, tally: Tally
    ) -> None:
        self._store = store
        self._connection: apsw.Connection = store.connection
        self._forgotten = forgotten
        self._merged = merged
        self._redact = settings.redact_secrets
        self._tally = tally
        self._record: _Record | None = None
        self._waiting: dict[str, list[_Superseded]] = {}
        """Records that are superseded by one that has not come yet, by its record id."""

    def record(self, line: Record, number: int) -> None:
        """A record begins; the one before it is settled."""
        self._settle()
        row = one_row(self._connection, _RECORD, (line["record_id"],))
        if row is not None:
            outcome = self._met(row[1:], line)
            if outcome == "conflicts":
                self._tally.problem(f"the record {CONFLICT}", number)
            self._record = _Record(line, outcome, int(row[0]), number)
            return
        refusal = self._refusal(line)
        if refusal is not None:
            self._record = _Record(line, refusal, 0, number)
            return
        redactions = 0
        if self._redact:
            line, redactions = masking.masked_record(line)
        self._connection.execute("SAVEPOINT jsonl_record")
        self._record = _Record(line, "added", self._insert(line), number, redactions=redactions)

    def _met(self, row: Sequence[Any], line: Record) -> Outcome:
        """How a record fares against the one of its id. One that is in force here and was superseded there since is
        superseded here too: else the old fact and the new one would both be in force."""
        values = list(row)
        for place in (3, 12, 13):
            values[place] = json.loads(values[place])
        candidates = [_columns(line)]
        if self._redact:
            candidates.append(_columns(masking.masked_record(line)[0]))
        if values in candidates:
            return "present"
        if line["status"] == "active" or values[_STATUS] != "active":
            return "conflicts"
        is_same = [values[place] for place in _LASTING] in [[one[place] for place in _LASTING] for one in candidates]
        return "updated" if is_same else "conflicts"

    def _refusal(self, line: Record) -> Outcome | None:
        """Why a record that is not here may not come; ``None`` when it may."""
        refused = self._merged.refused_sessions.get(line["session"])
        if refused is None and line["turn"] is not None:
            refused = self._merged.refused_turns.get((line["turn"][0], line["turn"][1]))
            refused = refused or self._merged.refused_sessions.get(line["turn"][0])
        if refused is not None:
            return refused
        if self._forgotten.refuses_record(line["record_id"]):
            return "forgotten"
        if line["turn"] is not None and self._turn_id(line["turn"]) is None:
            return "forgotten"  # between two steps of the import, by somebody else
        if sessions.by_key(self._connection, line["session"]) is None:
            return "forgotten"
        token = self._store.token(line["session"])
        return "forgotten" if self._forgotten.refuses_moment(token, line["event_at"], line["sender"]) else None

    def _insert(self, line: Record) -> int:
        session = sessions.by_key(self._connection, line["session"])
        assert session is not None, "a session that was not refused is here"
        turn_id = None if line["turn"] is None else self._turn_id(line["turn"])
        self._connection.execute(
            "INSERT INTO records (record_id, layer, kind, content, keywords, session_id, turn_id, sender, run_id,"
            " origin, agent_wide, importance, triggers, projects, slot, value, polarity, status, superseded_by,"
            " reinforced, reinforced_at, day, folder, ordinal, event_at, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                line["record_id"],
                line["layer"],
                line["record_kind"],
                line["content"],
                _list(line["keywords"]),
                session.id,
                turn_id,
                line["sender"],
                line["run_id"],
                line["origin"],
                int(line["agent_wide"]),
                line["importance"],
                _list(line["triggers"]),
                _list(line["projects"]),
                line["slot"],
                line["value"],
                line["polarity"],
                line["status"],
                None,
                line["reinforced"],
                line["reinforced_at"],
                line["day"],
                line["folder"],
                self._place(line, session.id),
                line["event_at"],
                line["created_at"],
            ),
        )
        return self._connection.last_insert_rowid()

    def _place(self, line: Record, session_id: int) -> int:
        """Its line in its day's file; the next free one where that is another record's here."""
        where, bindings = "session_id = ? AND folder = ? AND folder <> 'agent-profiles' AND day = ?", (session_id,)
        if line["folder"] == "agent-profiles":
            where, bindings = "folder = ? AND folder = 'agent-profiles' AND day = ?", ()  # type: ignore[assignment]
        sql = f"SELECT 1 FROM records WHERE {where} AND ordinal = ?"
        place = (*bindings, line["folder"], line["day"], line["ordinal"])
        if one_row(self._connection, sql, place) is None:
            return int(line["ordinal"])
        self._tally.moved += 1
        return next_line(self._connection, session_id, line["folder"], line["day"])

    def _turn_id(self, turn: Sequence[Any]) -> int | None:
        row = one_row(self._connection, _TURN, tuple(turn))
        return None if row is None else int(row[0])

    def source(self, line: Record, number: int) -> None:
        """A further turn of the record that is coming."""
        record = self._record
        assert record is not None, "the check has seen to it that a record comes first"
        record.sources += 1
        if record.outcome in ("conflicts", "forgotten"):
            return
        key, ordinal = line["turn"]
        refused = self._merged.refused_turns.get((key, ordinal)) or self._merged.refused_sessions.get(key)
        if refused is not None and record.outcome == "added":
            if record.line["layer"] != "L3":
                # a scenario tells of every turn that it covers
                self._connection.execute("ROLLBACK TO jsonl_record")
                self._connection.execute("RELEASE jsonl_record")
                record.outcome = refused
            else:
                record.lost += 1
            return
        turn_id = self._turn_id(line["turn"])
        if turn_id is not None:
            self._connection.execute("INSERT OR IGNORE INTO record_sources VALUES (?, ?)", (record.id, turn_id))

    def _settle(self) -> None:
        record, self._record = self._record, None
        if record is None:
            return
        if record.outcome == "added":
            if record.lost:
                self._weaken(record)
            self._connection.execute("RELEASE jsonl_record")
            self._succeed(record)
            self._tally.redactions += record.redactions
            change_log.append(self._connection, "record", record.id)
        self._tally.count(
            "present" if record.outcome == "updated" else record.outcome, "record_source", record.sources - record.lost
        )
        self._tally.count("forgotten", "record_source", record.lost)
        if record.outcome != "updated":
            self._tally.count(record.outcome, "record")
        if record.outcome in ("added", "updated"):
            self._supersede(record)

    def _weaken(self, record: _Record) -> None:
        """A fact that turns which may not come had reinforced: so many times less, and as old as what remains."""
        self._connection.execute(
            "UPDATE records AS r SET reinforced = max(1, reinforced - ?1),"
            " reinforced_at = (SELECT max(t.at) FROM record_sources s JOIN turns t ON t.id = s.turn_id"
            "   WHERE s.record_id = r.id),"
            " event_at = coalesce((SELECT max(t.at) FROM turns t WHERE t.id = r.turn_id OR t.id IN"
            "   (SELECT s.turn_id FROM record_sources s WHERE s.record_id = r.id)), event_at)"
            " WHERE id = ?2",
            (record.lost, record.id),
        )

    def _succeed(self, record: _Record) -> None:
        """What waited for this record is superseded by it."""
        for waiting in self._waiting.pop(record.line["record_id"], ()):
            self._replace(waiting, record.id)

    def _supersede(self, record: _Record) -> None:
        """Superseded as the line says, now or when its successor has come."""
        waiting = _Superseded(record.id, record.number, record.outcome == "updated")
        successor = record.line["superseded_by"]
        if successor is None:
            if waiting.was_here:
                self._replace(waiting, None)
            return
        row = one_row(self._connection, "SELECT id FROM records WHERE record_id = ?", (successor,))
        if row is None:
            self._waiting.setdefault(successor, []).append(waiting)
        else:
            self._replace(waiting, int(row[0]))

    def _replace(self, waiting: _Superseded, by: int | None) -> None:
        self._connection.execute(
            "UPDATE records SET status = 'superseded', superseded_by = ? WHERE id = ?", (by, waiting.id)
        )
        if waiting.was_here:
            self._tally.count("updated", "record")
            change_log.append(self._connection, "record", waiting.id)

    def finish(self) -> None:
        """No more records. What only a forgotten record had replaced is in force, as after forgetting it here."""
        self._settle()
        for waiting in [one for ones in self._waiting.values() for one in ones]:
            if waiting.was_here:
                self._tally.count("conflicts", "record")
                self._tally.problem(f"the record {CONFLICT}", waiting.line)
            else:
                self._connection.execute("UPDATE records SET status = 'active' WHERE id = ?", (waiting.id,))
        self._waiting.clear()


def _list(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=True, separators=(",", ":"))


def _columns(line: Record) -> list[Any]:
    """A record as ``_RECORD`` has it, from its layer on. Its line in the day's file may be another one here."""
    key, ordinal = line["turn"] or (None, None)
    return [
        line["layer"],
        line["record_kind"],
        line["content"],
        line["keywords"],
        line["session"],
        key,
        ordinal,
        line["sender"],
        line["run_id"],
        line["origin"],
        int(line["agent_wide"]),
        line["importance"],
        line["triggers"],
        line["projects"],
        line["slot"],
        line["value"],
        line["polarity"],
        line["status"],
        line["superseded_by"],
        line["reinforced"],
        line["reinforced_at"],
        line["day"],
        line["folder"],
        line["event_at"],
        line["created_at"],
    ]
