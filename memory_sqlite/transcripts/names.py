"""Which stored session a host means that calls one conversation by two names: by its key, and by the id of its
transcript's file, which is how an import of that file names it.

What a host says when it commits a turn is kept, so that the same turn is the same session by whatever way it comes
next. Not here: rows of ``sessions``, found by any of their names (``sessions.by_key``). Called by ``layers.remember``,
``forgetting`` and ``context``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from memory_sqlite.model import Message
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.sessions import Session


def further(connection: apsw.Connection, session_id: int) -> list[str]:
    """The names of a session beside its key."""
    rows = all_rows(connection, "SELECT name FROM session_names WHERE session_id = ? ORDER BY name", (session_id,))
    return [str(name) for (name,) in rows]


def keep(connection: apsw.Connection, session: Session, names: Iterable[str]) -> None:
    """Note that the session is called so too; a name that another session has stays that one's."""
    for name in names:
        if name != session.key and sessions.by_key(connection, name) is None:
            connection.execute("INSERT INTO session_names (name, session_id) VALUES (?, ?)", (name, session.id))


def meant(connection: apsw.Connection, names: Sequence[str], messages: Iterable[Message] = ()) -> Session | None:
    """The session that these names mean, the first of them before the others; ``None`` when none of them is known.

    Where two of them are different sessions (an import came before the host said that they are one), it is the one
    that has the first of the messages. A further name that a host gave to a session of another key means nothing here:
    no conversation gets into another's by naming its id.
    """
    found: dict[int, Session] = {}
    for place, name in enumerate(names):
        row = sessions.by_key(connection, name)
        if row is not None and (place == 0 or (row.key == name and not further(connection, row.id))):
            found[row.id] = row
    if len(found) > 1:
        for message in messages:
            for row in found.values():
                if _has(connection, row.id, message.entry_ids):
                    return row
    return next(iter(found.values()), None)


def _has(connection: apsw.Connection, session_id: int, entry_ids: Iterable[str]) -> bool:
    sql = "SELECT EXISTS (SELECT 1 FROM message_entries WHERE session_id = ? AND entry_id = ?)"
    return any(connection.execute(sql, (session_id, entry_id)).get for entry_id in entry_ids)
