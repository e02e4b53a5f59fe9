"""How often what a session's transcript shows was changed other than by adding to it.

Adding a message leaves the number as it is; a message that grew or was taken away raises it, and whoever reads the
transcript on from a place (``context.deltas``) begins anew. Called by ``turns``, forgetting and retention.
"""

from __future__ import annotations

import apsw


def number(connection: apsw.Connection, session_id: int) -> int:
    """The session's number, 0 for one that was only added to."""
    value = connection.execute("SELECT number FROM transcript_generations WHERE session_id = ?", (session_id,)).get
    return value if isinstance(value, int) else 0


def note(connection: apsw.Connection, session_id: int) -> None:
    """A message of the session was changed or taken away; inside the caller's transaction."""
    connection.execute(
        "INSERT INTO transcript_generations (session_id, number) VALUES (?, 1)"
        " ON CONFLICT (session_id) DO UPDATE SET number = number + 1",
        (session_id,),
    )
