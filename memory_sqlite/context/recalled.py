"""What is recalled for a prompt: the memory block, and messages of this session that did not fit into it.

Both are looked for at once and within the deadline of automatic recall: what is not there by then is left out, and the
prompt is made without it. Both are shown in one frame, as untrusted history. Called by ``assemble``, in a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from memory_sqlite import errors, limits
from memory_sqlite.agent import arguments
from memory_sqlite.agent.answer import answer
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.context.budget import Counter
from memory_sqlite.context.host_sessions import HostSession
from memory_sqlite.model import Hit
from memory_sqlite.recall import block
from memory_sqlite.recall.deadline import run_within
from memory_sqlite.recall.relevance import relevant
from memory_sqlite.recall.vocabulary import KnownWords
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.text.frame import strip_frames
from memory_sqlite.text.units import cut_utf16
from memory_sqlite.transcripts.audience import Audience


@dataclass(frozen=True)
class Wanted:
    """What a prompt is to be helped with. ``shown`` are the words that are in it already, each message on one line;
    ``earlier`` says whether messages of the session were left out of it."""

    session: HostSession
    query: str
    shown: frozenset[str]
    earlier: bool
    cancelled: threading.Event | None = None


@dataclass(frozen=True)
class Item:
    """One thing recalled, and its words on one line: what the prompt shows already is not shown again."""

    hit: Hit
    words: str


def recall(rooms: AgentRooms, wanted: Wanted) -> tuple[Item, ...]:
    """What of memory and of earlier messages has to do with the query, the best of each first. Never raises for a slow
    or broken search."""
    query = cut_utf16(strip_frames(wanted.query), limits.RECALL_QUERY_UNITS).strip()
    if not query:
        return ()
    try:
        with rooms.opened.store.readers.borrow() as connection:
            stored = wanted.session.stored(connection)
    except errors.MemorySqliteError:  # who asks cannot be told now, so nothing is shown
        return ()
    viewer = wanted.session.viewer(stored)
    with ThreadPoolExecutor(1, thread_name_prefix="memory-sqlite-earlier") as beside:
        earlier = None
        if wanted.earlier and viewer.session_id is not None:
            earlier = beside.submit(_earlier_in_time, rooms, wanted, query, viewer.session_id)
        remembered: tuple[Hit, ...] = ()
        if rooms.settings.auto_recall:
            remembered = block.recall(
                rooms.opened,
                query,
                stored.key if stored is not None else None,
                None if stored is not None else (),
                rooms.settings,
                rooms.clock,
                wanted.cancelled,
                rooms.lock,
                viewer=viewer,
            ).hits
        # an episode is what was said in a turn, and that turn may be in the prompt
        items = [Item(hit, " ".join(hit.excerpt.split())) for hit in remembered]
        return (
            *(item for item in items if item.words not in wanted.shown),
            *(earlier.result() if earlier is not None else ()),
        )


def _earlier_in_time(rooms: AgentRooms, wanted: Wanted, query: str, session_id: int) -> tuple[Item, ...]:
    deadline = Deadline(rooms.settings.auto_recall_timeout_ms / 1000, rooms.clock, wanted.cancelled)
    return run_within(deadline, lambda guard: _earlier(rooms, wanted, query, session_id, guard)).value or ()


def _earlier(rooms: AgentRooms, wanted: Wanted, query: str, session_id: int, guard: Deadline) -> tuple[Item, ...]:
    """Messages of this session alone, whatever else it may see: they are its own history."""
    opened = rooms.opened
    most = min(2 * limits.EARLIER_MESSAGES_MAX, rooms.settings.max_search_results)
    asked = arguments.check(query, most, 0.0, ("sessions",), None, None, None, None, "score", False)
    page = answer(opened, asked, Audience(False, session_id), Freshness(), rooms.settings, rooms.clock, guard=guard)
    with opened.keeper.reader() as index, guard.interruptible(index):
        now, zone = rooms.clock.now_ms(), rooms.clock.zone
        hits = relevant(query, page.hits, KnownWords(index), now_ms=now, zone=zone)
    with opened.store.readers.borrow() as store, guard.interruptible(store):
        kept = []
        for hit in hits:
            named = hit.reference.partition(":")[2]
            text = store.execute("SELECT text FROM messages WHERE id = ?", (int(named),)).get
            words = " ".join(text.split()) if isinstance(text, str) else ""
            if words and words not in wanted.shown:
                kept.append(Item(hit, words))
    return tuple(kept[: limits.EARLIER_MESSAGES_MAX])


def framed(rooms: AgentRooms, items: Sequence[Item], counter: Counter, room: int | None) -> str:
    """The items in their frame within so many tokens; the last ones are left out where it is too little for all."""
    for count in range(len(items), 0, -1):
        text, _ = block.compose([item.hit for item in items[:count]], rooms.settings)
        if text and (room is None or counter.addition(text) <= room):
            return text
    return ""
