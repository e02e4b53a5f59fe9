"""Messages that a host hands over outside of the durable path: one by one, in batches, or after a turn.

Answers to a person join that person's turn, also when they come one by one. Called by the engine; stored as ``storing``
stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.clock import iso
from memory_sqlite.context.host_sessions import HostSession
from memory_sqlite.context.messages import check_messages, is_marked, taken
from memory_sqlite.context.storing import store
from memory_sqlite.context.turn_units import is_person, units
from memory_sqlite.runtime.agents import AgentRooms

_SESSIONS_MAX: Final = 1_024
"""Sessions whose open turn is remembered; of more, those that spoke least recently are forgotten here."""


class Ingesting:
    """The open turn of each session of one engine: what its person said, so that an answer finds it."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, ...], tuple[Mapping[str, Any], ...]] = {}

    def store(
        self, rooms: AgentRooms, session: HostSession, messages: Sequence[Mapping[str, Any]], *, is_heartbeat: bool
    ) -> int:
        """Store what is new of these messages; how many those are. What has neither an id nor a time is new, and said
        now. Raises ``InvalidArgument`` and the store's errors."""
        now = iso(rooms.clock.now_ms())
        said = [one if is_marked(one) else {**one, "at": now} for one in check_messages(messages)]
        if not said:
            return 0
        opening = self._open.pop(session.called, ())
        before = () if is_person(said[0]) else opening
        kept = taken((*before, *said), rooms.settings, is_heartbeat=is_heartbeat)
        stored = store(rooms, session, kept, "commit") if kept else None
        begun = [said[index] for index in units(said)[-1]]
        self._open[session.called] = tuple(filter(is_person, begun)) if is_person(begun[0]) else opening
        while len(self._open) > _SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        return stored.messages if stored is not None else 0


def of_turn(messages: Sequence[Mapping[str, Any]], before: int) -> Sequence[Mapping[str, Any]]:
    """The messages of the turn that has ended, when so many were there before it. Where a compaction in the turn left
    fewer than that, it is the newest turn. Raises ``InvalidArgument``."""
    said = check_messages(messages)
    if type(before) is not int or before < 0:
        raise errors.InvalidArgument("pre_prompt_message_count must be an integer that is not negative")
    if before <= len(said):
        return said[before:]
    newest = units(said)[-1] if said else range(0)
    return [said[index] for index in newest]
