"""Sessions that are kept: a pin keeps one from retention, a legal hold from retention and from forgetting.

Rows of ``session_holds``, inside the caller's transaction. Not here: what retention and forgetting are. Called by the
door's methods through ``retention``, by ``forgetting``, and by both rules of retention.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.transcripts import names
from memory_sqlite.values import dataclass

HoldKind = Literal["legal", "pin"]
KINDS: Final[tuple[HoldKind, ...]] = ("legal", "pin")


@dataclass(frozen=True, slots=True)
class Hold:
    """One session that is kept. ``session`` is its key, ``at`` when it was placed, ms."""

    session: str
    token: str
    kind: HoldKind
    reason: str | None
    at: int


def place(connection: apsw.Connection, session_id: int, kind: HoldKind, reason: str | None, at: int) -> bool:
    """Keep a session from now on; ``False`` where it was kept so already: then only a new reason is taken."""
    known = connection.execute("SELECT 1 FROM session_holds WHERE session_id = ? AND kind = ?", (session_id, kind)).get
    if known is None:
        connection.execute(
            "INSERT INTO session_holds (session_id, kind, reason, at) VALUES (?, ?, ?, ?)",
            (session_id, kind, reason, at),
        )
        return True
    if reason is not None:
        connection.execute(
            "UPDATE session_holds SET reason = ? WHERE session_id = ? AND kind = ?", (reason, session_id, kind)
        )
    return False


def release(connection: apsw.Connection, session_id: int, kind: HoldKind) -> bool:
    """End one; ``False`` where there was none."""
    connection.execute("DELETE FROM session_holds WHERE session_id = ? AND kind = ?", (session_id, kind))
    return connection.changes() > 0


def listing(connection: apsw.Connection) -> list[Hold]:
    """Every hold and pin, the oldest first."""
    rows = all_rows(
        connection,
        "SELECT s.key, s.token, h.kind, h.reason, h.at FROM session_holds h JOIN sessions s ON s.id = h.session_id"
        " ORDER BY h.at, s.key, h.kind",
    )
    return [Hold(*row) for row in rows]


def held_names(connection: apsw.Connection) -> frozenset[str]:
    """Every name of every session under a legal hold: key and further names."""
    found: set[str] = set()
    for session_id, key in all_rows(
        connection,
        "SELECT s.id, s.key FROM session_holds h JOIN sessions s ON s.id = h.session_id WHERE h.kind = 'legal'",
    ):
        found |= {str(key), *names.further(connection, int(session_id))}
    return frozenset(found)


def refuse(connection: apsw.Connection, what: str, session_ids: Iterable[int]) -> None:
    """Raise ``SessionHeld`` where any of these sessions is under a legal hold. ``what`` is what was asked for."""
    held = {
        int(session_id): str(token)
        for session_id, token in all_rows(
            connection,
            "SELECT s.id, s.token FROM session_holds h JOIN sessions s ON s.id = h.session_id WHERE h.kind = 'legal'",
        )
    }
    for session_id in session_ids:
        if session_id in held:
            raise held_error(what, held[session_id])


def held_error(what: str, token: str) -> errors.SessionHeld:
    """The error, which names the session by its token: a key may be somebody's telephone number."""
    return errors.SessionHeld(f"{what} would take something of the session {token}, which is under a legal hold")
