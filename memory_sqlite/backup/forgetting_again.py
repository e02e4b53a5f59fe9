"""What was forgotten after a backup was made is forgotten again in what is restored from it, before it takes its place.

A tombstone has no words: what it means is found by making the names of everything there is and comparing. The rows are
the very same ones that were forgotten, so entries and moments match exactly. From there it goes the way of every
forgetting: tombstones and list in one transaction, rows, bytes. Called by ``restoring``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from memory_sqlite import paths
from memory_sqlite.backup.earlier import Tomb
from memory_sqlite.backup.reports import ForgottenAgain
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import compact, rows, waiting
from memory_sqlite.forgetting.choose import Chosen
from memory_sqlite.forgetting.rows import Tally
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.forgetting.selection import Asked
from memory_sqlite.limits import SAME_TURN_WINDOW_MS
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import names, sessions

_WAYS = ("remember", "commit", "import")
_ARRIVED_WITHOUT_ID = "="
_WHEN = (
    "(t.at BETWEEN ?1 AND ?2 OR EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = t.id AND m.at BETWEEN ?1 AND ?2))"
)


def apply(store: Store, tombs: Iterable[Tomb], settings: Settings, clock: Clock) -> ForgottenAgain:
    """Take in the tombstones that the store does not have and forget what they mean, down to the bytes.

    Raises the store's errors; what was begun then is gone on with by the next open.
    """
    tally = Tally()
    with store.transaction() as connection:
        new = [
            tomb
            for tomb in tombs
            if tombstones.add(
                connection, tomb.kind, tomb.subject,
                reason=tomb.reason, at=tomb.at, since=tomb.since, until=tomb.until,
            )
        ]  # fmt: skip
        meant = _Meant(store, new)
        chosen = meant.choose()
        now = clock.now_ms()
        for asked in meant.asked():
            tally.waiting += waiting.forget(store, asked, chosen, Samples(), now)
        number = rows.begin(store, chosen, (), "[]", tally, now)
    more = True
    while more:
        with store.transaction():
            more = rows.step(store, settings, clock, tally, Samples())
    if chosen.sessions or chosen.turns or chosen.records or tally.waiting:
        compact.write_anew(store.connection, store.directory / paths.STORE_FILE)
    with store.transaction() as connection:
        rows.finish(connection, (number,))
    return ForgottenAgain(
        store.agent, len(new), tally.sessions, tally.turns, tally.messages, tally.records.total(), tally.waiting
    )


class _Meant:
    """What some tombstones stand for in a store."""

    def __init__(self, store: Store, tombs: Iterable[Tomb]) -> None:
        self._store = store
        self._connection = store.connection
        self._tombs: dict[tuple[str, str], list[Tomb]] = defaultdict(list)
        for tomb in tombs:
            self._tombs[tomb.kind, tomb.subject].append(tomb)
        self._chosen = Chosen()
        self._asked: list[Asked] = []

    def choose(self) -> Chosen:
        """The rows."""
        self._sessions()
        self._people()
        for tomb in self._of("span", tombstones.EVERYWHERE):
            self._turns(_WHEN, (tomb.since, tomb.until))
            self._loose("?3", (tomb.since, tomb.until, 1))
            self._asked.append(_asked(tomb))
        self._messages()
        for record_id, row_id in all_rows(self._connection, "SELECT record_id, id FROM records"):
            if ("record", record_id) in self._tombs:
                self._chosen.records.add(row_id)
        return self._chosen

    def asked(self) -> list[Asked]:
        """The same for turns that wait in a host's outbox, which are named by session, person and time alone."""
        return self._asked

    def _tokens(self, session_id: int, token: str) -> list[str]:
        return [token, *(self._store.token(name) for name in names.further(self._connection, session_id))]

    def _sessions(self) -> None:
        for session_id, token in all_rows(self._connection, "SELECT id, token FROM sessions"):
            for tomb in self._of("session", *self._tokens(session_id, token)):
                if _is_whole(tomb):
                    row = sessions.by_id(self._connection, session_id)
                    assert row is not None, "the session was just listed"
                    self._chosen.sessions[session_id] = row
                    self._turns("?1 <= ?2 AND t.session_id = ?3", (0, 0, session_id))
                else:
                    self._turns(f"{_WHEN} AND t.session_id = ?3", (tomb.since, tomb.until, session_id))
                    self._loose("r.session_id = ?3", (tomb.since, tomb.until, session_id))
        for (kind, token), tombs in self._tombs.items():
            if kind == "session":
                self._asked += [_asked(tomb, sessions=(token,)) for tomb in tombs]

    def _people(self) -> None:
        for name in self._speakers():
            for tomb in self._of("participant", tombstones.participant(self._store.key, name)):
                self._turns(
                    "t.id IN (SELECT m.turn_id FROM messages m WHERE m.at BETWEEN ?1 AND ?2"
                    " AND (m.sender = ?3 OR (m.sender IS NULL AND m.name = ?3)))",
                    (tomb.since, tomb.until, name),
                )
                self._loose("r.sender = ?3", (tomb.since, tomb.until, name))
                self._asked.append(_asked(tomb, participants=(name,)))

    def _speakers(self) -> set[str]:
        """Everybody who speaks anywhere in the store."""
        found = {
            str(name)
            for (name,) in all_rows(
                self._connection,
                "SELECT DISTINCT coalesce(sender, name) FROM messages WHERE coalesce(sender, name) IS NOT NULL"
                " UNION SELECT sender FROM records WHERE sender IS NOT NULL",
            )
        }
        for (waits,) in all_rows(self._connection, "SELECT messages FROM turn_outbox WHERE messages IS NOT NULL"):
            for message in json.loads(waits):
                name = message.get("sender") or message.get("name")
                if isinstance(name, str):
                    found.add(name)
        return found

    def _messages(self) -> None:
        """Messages that were forgotten by themselves: by the entries they came from, or the words at their moment."""
        if not any(kind in ("entry", "message") for kind, _ in self._tombs):
            return
        entries: dict[int, set[str]] = defaultdict(set)
        for message_id, entry_id in all_rows(self._connection, "SELECT message_id, entry_id FROM message_entries"):
            if not entry_id.startswith(_ARRIVED_WITHOUT_ID):
                entries[message_id].add(entry_id)
        for session_id, token in all_rows(self._connection, "SELECT id, token FROM sessions"):
            tokens = self._tokens(session_id, token)
            for message_id, turn_id, host_id, at, digest in all_rows(
                self._connection,
                "SELECT id, turn_id, host_id, at, text_digest FROM messages WHERE session_id = ?",
                (session_id,),
            ):
                if any(self._forgot(one, entries[message_id], host_id, at, digest) for one in tokens):
                    self._chosen.turns.add(turn_id)

    def _forgot(self, token: str, entries: set[str], host_id: str | None, at: int, digest: bytes) -> bool:
        key = self._store.key
        # an entry belongs to one message for ever; a host that begins numbering anew may give its own id twice
        named = [tombstones.entry(key, token, entry_id) for entry_id in entries]
        named += [
            tombstones.spoken_entry(key, token, entry_id, digest)
            for entry_id in {*entries, *([host_id] if host_id is not None else [])}
        ]
        if any(("entry", subject) in self._tombs for subject in named):
            return True
        said = (tombstones.message(key, token, way, digest) for way in _WAYS)
        # the tombstone's stretch lies around the moment: the same words a minute later were another utterance
        return any(tomb.since == at - SAME_TURN_WINDOW_MS for tomb in self._of("message", *said))

    def _of(self, kind: str, *subjects: str) -> Iterator[Tomb]:
        for subject in subjects:
            yield from self._tombs.get((kind, subject), ())

    def _turns(self, where: str, bindings: tuple[Any, ...]) -> None:
        found = all_rows(self._connection, f"SELECT t.id FROM turns t WHERE {where}", bindings)
        self._chosen.turns |= {int(turn_id) for (turn_id,) in found}

    def _loose(self, where: str, bindings: tuple[Any, ...]) -> None:
        """Records whose turn is not in the store any more."""
        found = all_rows(
            self._connection,
            f"SELECT r.id FROM records r WHERE r.turn_id IS NULL AND r.event_at BETWEEN ?1 AND ?2 AND {where}",
            bindings,
        )
        self._chosen.records |= {int(row_id) for (row_id,) in found}


def _is_whole(tomb: Tomb) -> bool:
    """Whether a session was forgotten as it was, and not what was said in it until some time: such a tombstone speaks
    of everything until the moment it was made."""
    return tomb.since == tombstones.FIRST and tomb.until >= tomb.at


def _asked(tomb: Tomb, sessions: tuple[str, ...] = (), participants: tuple[str, ...] = ()) -> Asked:
    since = None if tomb.since == tombstones.FIRST else tomb.since
    return Asked(sessions, participants, (), (), (), since, tomb.until + 1, notes=False, keep_turns=False)
