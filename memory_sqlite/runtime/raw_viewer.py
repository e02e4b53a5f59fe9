"""How far a raw search for a session of a legacy host may look.

As far as that session may see, by what our store knows of it; a session that was made to recall for a private
conversation looks as far as that one, since what it was granted is decided afterwards, hit by hit (``authorizing``).
The legacy contract has no audiences: there the store's own session rows say who is who. Not here: the neutral runtime,
which goes by minted audiences alone (``visibility``).
"""

from __future__ import annotations

import re
from typing import Final

import apsw

from memory_sqlite.transcripts import audience, sessions
from memory_sqlite.transcripts.audience import Audience

RECALL_CHILD: Final = re.compile(r"^(?P<anchor>.+):active-memory:[0-9a-f]{12}$", re.DOTALL)
"""How the product names a session that recalls for another (2026.9.6): the anchor's key, then this suffix."""


def of(store: apsw.Connection, session_key: str | None) -> Audience:
    """``None`` is the operator. Raises ``InvalidArgument`` for what is no session key."""
    child = None if session_key is None else RECALL_CHILD.match(sessions.check_key(session_key))
    if child is not None:
        anchor = audience.of_session(store, child["anchor"])
        if anchor is not audience.NOBODY_YET:
            return anchor
    return audience.of_session(store, session_key)
