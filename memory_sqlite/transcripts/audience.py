"""Who sees what: one rule for search, get and recall.

The operator (no session) sees the whole agent. The owner's direct sessions see what is owner-private: notes, agent-wide
facts, and each other. Every other session (group, channel, unknown, a stranger's direct chat) sees only itself.
Unknown is the most restricted, in both directions.
"""

from __future__ import annotations

import apsw

from memory_sqlite import errors
from memory_sqlite.transcripts import sessions
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Audience:
    """On whose behalf something is read."""

    operator: bool
    session_id: int | None = None
    owner_private: bool = False

    @property
    def may_see_notes(self) -> bool:
        """Notes are owner-private: the operator and the owner's direct sessions see them, nobody else."""
        return self.operator or self.owner_private

    def may_read(self, *, session_id: int | None, owner_private: bool) -> bool:
        """Whether a document of a session (or of none) may be shown."""
        if self.operator or (session_id is not None and session_id == self.session_id):
            return True
        return self.owner_private and owner_private

    def require(self, *, session_id: int | None, owner_private: bool, what: str) -> None:
        """Raise ``AccessDenied`` unless ``may_read``; ``what`` names the kind of thing, never its content."""
        if not self.may_read(session_id=session_id, owner_private=owner_private):
            raise errors.AccessDenied(f"this session may not read that {what}")


OPERATOR = Audience(operator=True)
NOBODY_YET = Audience(operator=False)
"""A session that has said nothing so far: it has nothing of its own and is not known to be the owner's."""


def of_session(connection: apsw.Connection, session: str | None) -> Audience:
    """The audience of a session key; ``None`` is the operator at their own machine. Raises ``InvalidArgument``."""
    if session is None:
        return OPERATOR
    row = sessions.by_key(connection, sessions.check_key(session))
    if row is None:
        return NOBODY_YET
    return Audience(operator=False, session_id=row.id, owner_private=row.owner_private)
