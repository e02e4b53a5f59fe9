"""What the names of a forgetting stand for in the store: sessions, turns, records, stretches of notes, tombstones.

The unit of what was said is the turn, because an answer repeats what it answers; a fact or an episode stands for the
turns it rests on. Exact names only. Reads inside the caller's transaction, writes nothing. Called by ``rows``.
"""

from __future__ import annotations

import re
from typing import Final

import apsw

from memory_sqlite.forgetting.selection import Asked
from memory_sqlite.sources.reading import RECORD_PATH, TRANSCRIPT_PATH
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.storage.tombstones import Kind
from memory_sqlite.transcripts import names, sessions
from memory_sqlite.transcripts.sessions import Session
from memory_sqlite.values import dataclass, field

Tombstone = tuple[Kind, str, int, int]
"""Kind, subject and the bounds between which it speaks, ms, both included."""

_LINES: Final = re.compile(r"#L(\d{1,9})(?:-L(\d{1,9}))?$")
_SAID_BY: Final = "(m.sender = ?1 OR (m.sender IS NULL AND m.name = ?1))"


@dataclass(frozen=True, slots=True)
class NoteWish:
    """Lines of a note that a reference names, 1-based and inclusive; without lines the whole file."""

    named: str
    path: str
    first: int | None = None
    last: int | None = None


@dataclass
class Chosen:
    """What one forgetting takes. ``mixed`` are turns of a participant in which others spoke too: they go whole."""

    sessions: dict[int, Session] = field(default_factory=dict)
    turns: set[int] = field(default_factory=set)
    records: set[int] = field(default_factory=set)
    notes: list[NoteWish] = field(default_factory=list)
    tombstones: list[Tombstone] = field(default_factory=list)
    mixed: set[int] = field(default_factory=set)
    unresolved: list[str] = field(default_factory=list)


def choose(store: Store, asked: Asked, now: int) -> Chosen:
    """Resolve every name. One that stands for nothing is ``unresolved``, and still gets its tombstone where it names a
    session or a person: what is not here yet must not come later."""
    return _Resolver(store, asked, now).run()


class _Resolver:
    def __init__(self, store: Store, asked: Asked, now: int) -> None:
        self._store = store
        self._connection = store.connection
        self._asked = asked
        self._low = asked.since if asked.since is not None else tombstones.FIRST
        self._high = asked.until - 1 if asked.until is not None else now
        self._now = now
        self._chosen = Chosen()

    def run(self) -> Chosen:
        for name in self._asked.sessions:
            self._session(name)
        for name in self._asked.participants:
            self._participant(name)
        for name in self._asked.hook_sources:
            self._hook_source(name)
        for name in self._asked.records:
            self._record(name, name.removeprefix("record:"))
        for name in self._asked.references:
            self._reference(name)
        if self._asked.is_bounded and not self._asked.names_anybody:
            self._stretch()
        for session_id in self._chosen.sessions:
            self._turns("t.session_id = ?1", (session_id,))
        return self._chosen

    # --- who spoke ---------------------------------------------------------------------------------------------------

    def _session(self, name: str) -> None:
        row = sessions.by_key(self._connection, name) or sessions.by_token(self._connection, name)
        token = row.token if row is not None else self._store.token(name)
        self._keep("session", token)
        for other in self._other_tokens(row):
            self._keep("session", other)
        if row is None:
            self._chosen.unresolved.append(name)
        else:
            self._take_session(row)

    def _other_tokens(self, row: Session | None) -> list[str]:
        """A session that goes takes its further names with it: under none of them may it come back."""
        return [self._store.token(name) for name in names.further(self._connection, row.id)] if row is not None else []

    def _take_session(self, row: Session) -> None:
        if not self._asked.is_bounded:
            self._chosen.sessions[row.id] = row
            return
        self._turns(f"{_WHEN} AND t.session_id = ?3", (self._low, self._high, row.id))
        self._loose_records("r.session_id = ?3", (row.id,))

    def _participant(self, name: str) -> None:
        self._keep("participant", tombstones.participant(self._store.key, name))
        before = len(self._chosen.turns), len(self._chosen.records)
        spoken = {
            int(turn_id)
            for (turn_id,) in all_rows(
                self._connection,
                f"SELECT DISTINCT m.turn_id FROM messages m WHERE {_SAID_BY} AND m.at BETWEEN ?2 AND ?3",
                (name, self._low, self._high),
            )
        }
        for turn_id in spoken:
            others = self._connection.execute(
                f"SELECT EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = ?2 AND m.role = 'user'"
                f" AND m.is_tool_output = 0 AND NOT coalesce({_SAID_BY}, 0))",
                (name, turn_id),
            ).get
            if others:
                self._chosen.mixed.add(turn_id)
        self._chosen.turns |= spoken
        self._loose_records("r.sender = ?3", (name,))
        if not spoken and before == (len(self._chosen.turns), len(self._chosen.records)):
            self._chosen.unresolved.append(name)

    def _hook_source(self, name: str) -> None:
        """Sessions whose key is ``hook:<source>`` or ``hook:<source>:…``, also behind ``agent:<id>:``."""
        found = False
        called = "SELECT id, key FROM sessions UNION SELECT session_id, name FROM session_names"
        for session_id, key in all_rows(self._connection, called):
            parts = str(key).split(":")
            rest = parts[2:] if parts[0] == "agent" else parts
            if rest[:2] == ["hook", name]:
                row = sessions.by_id(self._connection, session_id)
                assert row is not None, "the session was just listed"
                found = True
                self._keep("session", row.token)
                for other in self._other_tokens(row):
                    self._keep("session", other)
                self._take_session(row)
        if not found:
            self._chosen.unresolved.append(name)

    def _stretch(self) -> None:
        self._keep("span", tombstones.EVERYWHERE)
        self._turns(_WHEN, (self._low, self._high))
        self._loose_records("?3", (1,))

    def _turns(self, where: str, bindings: tuple[int, ...]) -> None:
        rows = all_rows(self._connection, f"SELECT t.id FROM turns t WHERE {where}", bindings)
        self._chosen.turns |= {int(turn_id) for (turn_id,) in rows}

    def _loose_records(self, where: str, bindings: tuple[object, ...]) -> None:
        """Records whose turn is not in the store (any more): imported ones, and facts that outlived retention."""
        rows = all_rows(
            self._connection,
            f"SELECT r.id FROM records r WHERE r.turn_id IS NULL AND r.event_at BETWEEN ?1 AND ?2 AND {where}",
            (self._low, self._high, *bindings),
        )
        self._chosen.records |= {int(row_id) for (row_id,) in rows}

    def _keep(self, kind: Kind, named: str) -> None:
        self._chosen.tombstones.append((kind, named, self._low, self._high))

    # --- what was found ----------------------------------------------------------------------------------------------

    def _reference(self, named: str) -> None:
        kind, _, rest = named.partition(":")
        if kind == "message":
            self._message(named, rest)
        elif kind == "record":
            self._record(named, rest)
        else:
            self._place(named, rest if kind == "note" else named)

    def _message(self, named: str, key: str) -> None:
        row = None
        if key.isascii() and key.isdigit() and len(key) < 19:
            row = self._connection.execute("SELECT turn_id FROM messages WHERE id = ?", (int(key),)).get
        if isinstance(row, int):
            self._chosen.turns.add(row)
        else:
            self._chosen.unresolved.append(named)

    def _record(self, named: str, record_id: str) -> None:
        row = self._connection.execute(
            "SELECT id, layer, turn_id FROM records WHERE record_id = ?", (record_id,)
        ).fetchone()
        if row is None:
            self._chosen.unresolved.append(named)
        else:
            self._take_record(int(str(row[0])), str(row[1]), row[2])

    def _take_record(self, row_id: int, layer: str, turn_id: object) -> None:
        self._chosen.records.add(row_id)
        # a scenario is about many turns and not what any of them said; episodes and facts are what their turns said
        if self._asked.keep_turns or layer == "L2":
            return
        rows = all_rows(self._connection, "SELECT turn_id FROM record_sources WHERE record_id = ?", (row_id,))
        self._chosen.turns |= {int(source) for (source,) in rows}
        if isinstance(turn_id, int):
            self._chosen.turns.add(turn_id)

    def _place(self, named: str, target: str) -> None:
        first = last = None
        match = _LINES.search(target)
        if match:
            target = target[: match.start()]
            first = int(match[1])
            last = max(first, int(match[2] or first))
        transcript = TRANSCRIPT_PATH.match(target)
        records = RECORD_PATH.match(target)
        if transcript:
            self._transcript(named, transcript[1], first, last)
        elif records:
            self._record_lines(named, records, first, last)
        else:
            self._chosen.notes.append(NoteWish(named, target, first, last))

    def _transcript(self, named: str, token: str, first: int | None, last: int | None) -> None:
        row = sessions.by_token(self._connection, token)
        if row is None:
            self._chosen.unresolved.append(named)
            return
        if first is None or last is None:
            self._chosen.tombstones.append(("session", row.token, tombstones.FIRST, self._now))
            self._chosen.sessions[row.id] = row
            return
        rows = all_rows(
            self._connection,
            "SELECT DISTINCT turn_id FROM messages WHERE session_id = ? AND position BETWEEN ? AND ?",
            (row.id, first, last),
        )
        self._chosen.turns |= {int(turn_id) for (turn_id,) in rows}
        if not rows:
            self._chosen.unresolved.append(named)

    def _record_lines(self, named: str, match: re.Match[str], first: int | None, last: int | None) -> None:
        where, bindings = "r.folder = 'agent-profiles' AND r.day = ?", [match["day"]]
        if match["token"] is not None:
            where = "s.token = ? AND r.folder = ? AND r.day = ?"
            bindings = [match["token"], match["folder"], match["day"]]
        rows = all_rows(
            self._connection,
            f"SELECT r.id, r.layer, r.turn_id FROM records r JOIN sessions s ON s.id = r.session_id WHERE {where}"
            " AND r.ordinal BETWEEN ? AND ?",
            (*bindings, first if first is not None else 1, last if last is not None else tombstones.LAST),
        )
        for row_id, layer, turn_id in rows:
            self._take_record(row_id, layer, turn_id)
        if not rows:
            self._chosen.unresolved.append(named)


_WHEN: Final = (
    "(t.at BETWEEN ?1 AND ?2 OR EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = t.id AND m.at BETWEEN ?1 AND ?2))"
)
"""A turn of which anything was said between two moments."""


def derived_records(connection: apsw.Connection, turn_ids: list[int]) -> list[int]:
    """Records made from these turns: their own episodes and facts, and the scenarios that cover any of them."""
    found: set[int] = set()
    for turn_id in turn_ids:
        rows = all_rows(
            connection,
            "SELECT id FROM records WHERE turn_id = ?1 UNION SELECT r.id FROM record_sources s JOIN records r"
            " ON r.id = s.record_id WHERE s.turn_id = ?1 AND r.layer = 'L2'",
            (turn_id,),
        )
        found |= {int(row_id) for (row_id,) in rows}
    return sorted(found)
