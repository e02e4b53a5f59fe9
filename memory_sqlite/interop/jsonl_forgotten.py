"""Whether a row of an export was forgotten here: held against the tombstones that were here before and that the file
does not have too.

A tombstone that the file has says nothing against the file's rows: where it came from, they live beside it (somebody
went on talking in a session that was forgotten). One that only this store has wins: what was forgotten here does not
come back, by whatever way it came once. Called by the merging modules, inside the import's transaction.
"""

from __future__ import annotations

import apsw

from memory_sqlite.interop.jsonl_format import Record
from memory_sqlite.interop.jsonl_keys import subject_under
from memory_sqlite.interop.jsonl_tally import Tally
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.fetch import all_rows, integer, one_row
from memory_sqlite.storage.store import Store
from memory_sqlite.storage.tombstones import Kind
from memory_sqlite.transcripts.identity import text_digest

_WAYS = ("remember", "commit", "import")


class Forgotten:
    """The tombstones of one import: those of the file are taken in first, then each row is asked about."""

    def __init__(self, store: Store, tally: Tally, *, same_key: bool) -> None:
        self._store = store
        self._connection: apsw.Connection = store.connection
        self._tally = tally
        self._same_key = same_key
        self._last = self._newest()
        self._end: int | None = None
        """The newest that the file brought; what is newer was forgotten here between two steps."""
        self._own = integer(self._connection, "SELECT count(*) FROM tombstones")
        self._shared: set[int] = set()

    def close_file(self) -> None:
        """All tombstones of the file have come: newer ones, once others may write, are this store's own."""
        if self._end is None:
            self._end = self._newest()

    def look_again(self) -> None:
        """Others may have forgotten something since."""
        self._own = integer(
            self._connection, "SELECT count(*) FROM tombstones WHERE id <= ? OR id > ?", (self._last, self._end)
        )

    def _newest(self) -> int:
        return integer(self._connection, "SELECT coalesce(max(id), 0) FROM tombstones")

    def take(self, line: Record) -> None:
        """A tombstone of the file: kept from now on, under this store's key where that can be told."""
        subject = subject_under(self._store, line, same_key=self._same_key)
        if subject is None:
            self._tally.count("left", "tombstone")
            return
        bindings = (line["subject_kind"], subject, line["since_at"], line["until_at"])
        known = one_row(
            self._connection,
            "SELECT id FROM tombstones WHERE kind = ? AND subject = ? AND since_at = ? AND until_at = ?",
            bindings,
        )
        if known is not None:
            self._shared.add(int(known[0]))
            self._tally.count("present", "tombstone")
            return
        self._connection.execute(
            "INSERT INTO tombstones (kind, subject, since_at, until_at, reason, at) VALUES (?, ?, ?, ?, ?, ?)",
            (*bindings, line["reason"], line["at"]),
        )
        self._tally.count("added", "tombstone")

    def refuses_session(self, token: str) -> bool:
        """Whether a session was forgotten whole: nothing of it is imported again, nor what it was, even where somebody
        has gone on in it here."""
        return any(since == tombstones.FIRST for since, _ in self._bounds("session", token))

    def refuses_moment(self, token: str, at: int, sender: str | None) -> bool:
        """Whether what was said then in that session, or by that person, was forgotten."""
        if self._has_none():
            return False
        spans = self._bounds("session", token) + self._bounds("span", tombstones.EVERYWHERE)
        if sender is not None:
            spans += self._bounds("participant", tombstones.participant(self._store.key, sender))
        return any(since <= at <= until for since, until in spans)

    def refuses_message(self, token: str, line: Record) -> bool:
        """Whether a message was forgotten, by its moment, its speaker, its entries or its words."""
        if self._has_none():
            return False
        at = line["at"]
        if self.refuses_moment(token, at, line["sender"] or line["name"]):
            return True
        key, digest = self._store.key, text_digest(line["role"], line["text"])
        entries = {(entry, way) for entry, way in line["entries"] if entry is not None}
        if line["host_id"] is not None:
            entries.add((line["host_id"], "remember"))
        for entry, way in entries:
            # a transcript keeps its ids; a host that starts again may give an old id to something new
            if way == "import" and self._bounds("entry", tombstones.entry(key, token, entry)):
                return True
            if self._bounds("entry", tombstones.spoken_entry(key, token, entry, digest)):
                return True
        return any(
            since <= at <= until
            for way in _WAYS
            for since, until in self._bounds("message", tombstones.message(key, token, way, digest))
        )

    def refuses_record(self, record_id: str) -> bool:
        """Whether that record was forgotten by its id."""
        return bool(self._bounds("record", record_id))

    def _has_none(self) -> bool:
        return self._own == len(self._shared)

    def _bounds(self, kind: Kind, subject: str) -> list[tuple[int, int]]:
        if self._has_none():
            return []
        rows = all_rows(
            self._connection,
            "SELECT id, since_at, until_at FROM tombstones WHERE kind = ? AND subject = ? AND (id <= ? OR id > ?)",
            (kind, subject, self._last, self._end if self._end is not None else 2**62),
        )
        return [(int(since), int(until)) for row_id, since, until in rows if row_id not in self._shared]
