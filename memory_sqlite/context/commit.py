"""Committing a turn: its advancement key and all that is remembered of it, in one transaction, once for ever.

The host gives the inclusive range of one accepted turn, from the admitted user entry to the terminal one. A repeat of
the key, also after the turn was forgotten or has expired, changes nothing. A turn that came before by another way is
recognised: then its key is filed with it. Called by the engine, in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_sqlite import errors
from memory_sqlite.context.host_sessions import Describe, check_agent, host_session
from memory_sqlite.context.messages import check_messages, taken
from memory_sqlite.context.shapes import CommitResult, TurnAdmission, TurnAnchor
from memory_sqlite.context.storing import advancement, store
from memory_sqlite.runtime.agents import AgentRooms


def commit(
    rooms: AgentRooms,
    *,
    advancement_key: str,
    admission: TurnAdmission,
    terminal: TurnAnchor,
    messages: Sequence[Mapping[str, Any]],
    session_id: str,
    is_heartbeat: bool = False,
    describe: Describe | None = None,
) -> CommitResult:
    """``committed`` for the first write of the key, ``duplicate`` for every further one.

    Raises ``InvalidArgument`` for a key that is not the logical turn's, for anchors of another agent or session, for an
    end before the beginning, for no messages; and the store's errors, after which neither key nor turn is stored.
    """
    filed = advancement(rooms, advancement_key)
    if not isinstance(admission, TurnAdmission) or not all(map(_is_anchor, (admission.anchor, terminal))):
        raise errors.InvalidArgument("admission and terminal must be the entries that a turn begins and ends with")
    start = admission.anchor
    check_agent(rooms.settings.agent, start.agent_id, terminal.agent_id)
    if advancement_key != admission.logical_turn_id:
        raise errors.InvalidArgument("advancement_key must be the admission's logical_turn_id")
    if (start.session_id, terminal.session_id, terminal.session_key) != (session_id, session_id, start.session_key):
        raise errors.InvalidArgument("admission and terminal must be of the session that is committed")
    if admission.role != "user" or terminal.raw_seq < start.raw_seq:
        raise errors.InvalidArgument("a turn begins with a user entry and does not end before it")
    said = check_messages(messages)
    if not said:
        raise errors.InvalidArgument("messages must hold the turn from its admission to its end")
    session = host_session(start.session_key, session_id, describe)
    kept = taken(
        said,
        rooms.settings,
        is_heartbeat=is_heartbeat,
        first_entry=start.entry_id,
        last_entry=terminal.entry_id if len(said) > 1 else None,
        of_transcript=True,
    )
    return CommitResult("duplicate" if store(rooms, session, kept, "commit", filed).repeated else "committed")


def _is_anchor(anchor: object) -> bool:
    return isinstance(anchor, TurnAnchor) and isinstance(anchor.entry_id, str) and type(anchor.raw_seq) is int
