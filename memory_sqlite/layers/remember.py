"""Remembering turns: L0 and what follows from it in one store transaction, or nothing at all.

Who calls it: the door (``remember``) and the importers. A write transaction holds no file walk, no model, no callback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.layers.writing import write_layers
from memory_sqlite.model import Message, SessionInfo
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import names, sessions, turns
from memory_sqlite.transcripts.forgotten import Guard
from memory_sqlite.transcripts.identity import split_turns
from memory_sqlite.transcripts.turns import Way
from memory_sqlite.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Advancement:
    """The key a host commits a turn under: ``label`` is the key as it may be stored to be shown."""

    key: str
    label: str


@dataclass
class Remembered:
    """What one transaction stored."""

    session: str
    ordinals: list[int] = field(default_factory=list)
    new_turns: int = 0
    known_turns: int = 0
    messages: int = 0
    episodes: list[str] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    forgotten: int = 0
    """Turns that were not stored, because they or their session were forgotten."""
    repeated: bool = False
    """The advancement key was filed before: nothing was looked at, nothing stored."""


def remember_turns(
    store: Store,
    info: SessionInfo,
    messages: Sequence[Message],
    *,
    run_id: str | None,
    way: Way,
    settings: Settings,
    clock: Clock,
    also: Sequence[str] = (),
    advancement: Advancement | None = None,
) -> Remembered:
    """Store the turns in ``messages`` (normalised, bounded, in order) with their layers, each turn once for ever.

    ``also`` are further names the host has for the session of ``info``. With an ``advancement`` the key is filed in the
    same transaction, also when nothing is stored; a key that was filed before stores nothing.
    What was forgotten is left out. Raises the store's errors and ``SessionConflict``; after any of them nothing of the
    call is stored.
    """
    result = Remembered(info.key)
    with store.transaction() as connection:
        if advancement is not None and turns.is_advanced(connection, advancement.key):
            result.repeated = True
            return result
        now = clock.now_ms()
        known = names.meant(connection, (info.key, *also), messages)
        if known is not None and not sessions.fits(known, info):
            # what is called by a further name of another kind of conversation is one of its own
            known, also = sessions.by_key(connection, info.key), ()
        own = [info.key, *((known.key, *names.further(connection, known.id)) if known is not None else ())]
        called = [*own, *also]
        parts = list(enumerate(split_turns(messages)))
        guards = {name: Guard(connection, store.key, store.token(name), way, now) for name in called}
        kept = [(part, turn) for part, turn in parts if not any(guard.refuses(turn) for guard in guards.values())]
        # what was said later under a key that was forgotten begins anew, in a transcript of its own
        if any(guards[name].refuses_session() for name in own):
            kept = []
        result.forgotten = len(parts) - len(kept)
        if not kept and (parts or advancement is not None):
            if advancement is not None:
                turns.advance(connection, advancement.key, advancement.label, None)
            return result  # not even the session comes back
        info = replace(info, key=known.key if known is not None else info.key)
        first = next((message.at for message in messages if message.at is not None), now)
        session = sessions.ensure(store, info, at=first, now=now)
        if also:
            names.keep(connection, session, called)
        turn_ids: list[int] = []
        # in a direct chat the flag belongs to the session; elsewhere many speak, and it belongs to this call's sender
        from_owner = session.sender_is_owner if session.chat_type == "direct" else info.sender_is_owner
        if way == "import" and info.sender_is_owner is None:
            from_owner = None  # a file that only names a session's key does not speak for its owner
        for part, turn_messages in kept:
            accepted = turns.accept(
                connection,
                session,
                turn_messages,
                way=way,
                run_id=run_id,
                part=part,
                from_owner=from_owner is True,
                now=now,
            )
            if accepted.ordinal:  # a run that was accepted and deleted since has no turn any more
                result.ordinals.append(accepted.ordinal)
            turn_ids.append(accepted.turn_id)
            result.messages += len(accepted.stored)
            if not accepted.is_new:
                result.known_turns += 1
                continue
            result.new_turns += 1
            written = write_layers(connection, session, accepted, settings=settings, clock=clock)
            result.episodes += written.episodes
            result.scenarios += written.scenarios
            result.facts += written.facts
            result.superseded += written.superseded
        if advancement is not None:
            turns.advance(connection, advancement.key, advancement.label, turn_ids[0])
    return result
