"""What an engine stores: a committed turn, messages after a turn, history that a host's transcript shows.

Each call is one transaction of the store, then the index learns of it; an index that cannot take it now gets it later.
Not here: when an engine is asked to (``engine``), how a turn is stored (``layers.remember``).
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_sqlite import errors, limits
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.context.host_sessions import HostSession
from memory_sqlite.layers.remember import Advancement, Remembered, remember_turns
from memory_sqlite.model import Message
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.text.secrets import mask_label
from memory_sqlite.text.units import utf8_length, valid_unicode
from memory_sqlite.transcripts.turns import Way


def store(
    rooms: AgentRooms,
    session: HostSession,
    messages: Sequence[Message],
    way: Way,
    advancement: Advancement | None = None,
) -> Remembered:
    """Store messages of one session with all that follows from them. Raises the store's errors, ``SessionConflict``."""
    also = session.called[1:]
    with rooms.lock:
        stored = remember_turns(
            rooms.opened.store,
            session.info,
            messages,
            run_id=None,
            way=way,
            settings=rooms.settings,
            clock=rooms.clock,
            also=also,
            advancement=advancement,
        )
        if stored.messages:
            apply_quietly(rooms.opened)
    return stored


def advancement(rooms: AgentRooms, key: object) -> Advancement:
    """An advancement key, checked. Raises ``InvalidArgument``."""
    if not isinstance(key, str) or not key.strip():
        raise errors.InvalidArgument("advancement_key must be a string that is not blank")
    if "\0" in key or valid_unicode(key) != key or utf8_length(key) > limits.ADVANCEMENT_KEY_MAX_BYTES:
        most = limits.ADVANCEMENT_KEY_MAX_BYTES
        raise errors.InvalidArgument(f"advancement_key must be valid Unicode without NUL, at most {most} bytes of it")
    return Advancement(key, mask_label(key) if rooms.settings.redact_secrets else key)
