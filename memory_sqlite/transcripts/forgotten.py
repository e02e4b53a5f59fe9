"""Whether what arrives was forgotten: asked inside the transaction that would store it, so that no race brings it back.

A turn that holds anything forgotten is refused whole, because an answer repeats what it answers. A forgotten session
is never imported again, whatever a file of it holds by now; a person who goes on talking in it begins anew, from the
moment of forgetting. Called by ``layers.remember`` and the importers.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from memory_sqlite.model import Message
from memory_sqlite.storage import tombstones
from memory_sqlite.transcripts.identity import text_digest
from memory_sqlite.transcripts.turns import Way


class Guard:
    """What was forgotten of one session, for one call that wants to store something in it."""

    def __init__(self, connection: apsw.Connection, key: bytes, token: str, way: Way, now: int) -> None:
        self._connection = connection
        self._key = key
        self._token = token
        self._way = way
        self._now = now
        # most stores never forget anything: one look, and every question after it is free
        self._any = bool(connection.execute("SELECT EXISTS (SELECT 1 FROM tombstones WHERE kind <> 'note')").get)
        self._spans: list[tuple[int, int]] = []
        if self._any:
            self._spans = tombstones.bounds(connection, "session", token)
            self._spans += tombstones.bounds(connection, "span", tombstones.EVERYWHERE)

    def refuses_session(self) -> bool:
        """True for an import of a session that was forgotten whole: never again, also what was said in it since."""
        return self._any and self._way == "import" and tombstones.is_whole(self._connection, "session", self._token)

    def refuses(self, messages: Iterable[Message]) -> bool:
        """Whether the turn made of these messages holds anything forgotten."""
        return self._any and any(self._refuses(message) for message in messages)

    def refuses_moment(self, at: int | None, sender: str | None = None) -> bool:
        """Whether what was said then, and by that person, was forgotten. Without a time only an import is judged: what
        is said live is said now, after everything that was forgotten."""
        if not self._any:
            return False
        spans = list(self._spans)
        if sender is not None:
            named = tombstones.participant(self._key, sender)
            spans += tombstones.bounds(self._connection, "participant", named)
        if at is None:
            # nobody can say when it was: it counts as said before, where everything before was forgotten
            return self._way == "import" and any(since == tombstones.FIRST for since, _ in spans)
        return any(since <= at <= until for since, until in spans)

    def _refuses(self, message: Message) -> bool:
        if self.refuses_moment(message.at, message.sender or message.name):
            return True
        ids = {*message.entry_ids, *((message.host_id,) if message.host_id is not None else ())}
        digest = text_digest(message.role, message.text)
        for entry_id in ids:
            # a transcript keeps its ids; a host that starts again may give an old id to something new
            named = tombstones.entry(self._key, self._token, entry_id)
            if self._way != "import":
                named = tombstones.spoken_entry(self._key, self._token, entry_id, digest)
            if tombstones.bounds(self._connection, "entry", named):
                return True
        named = tombstones.message(self._key, self._token, self._way, digest)
        said_at = message.at if message.at is not None or self._way == "import" else self._now
        return any(
            said_at is None or since <= said_at <= until
            for since, until in tombstones.bounds(self._connection, "message", named)
        )
