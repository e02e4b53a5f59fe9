"""The recalled block: L1 to L3 and curated notes that are relevant to what was just said, framed as untrusted history.

A floor keeps one shared common word from injecting anything; the block is bounded in results and size; it is there
before the deadline or not at all. Failures never block a reply. Not here: what is relevant (``relevance``), what is
asked for (``intents``, ``profile``), time (``deadline``), the frame itself (``text.frame``). Called by the door.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from memory_sqlite import limits
from memory_sqlite.agent import arguments, freshness, remembered
from memory_sqlite.agent.answer import answer
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.model import Hit, RecallBlock
from memory_sqlite.recall import facts, intents, profile
from memory_sqlite.recall.deadline import run_within
from memory_sqlite.recall.relevance import relevant
from memory_sqlite.recall.vocabulary import KnownWords
from memory_sqlite.text.frame import CLOSE, ITEM, NOTICE, OPEN, close_frame, one_line, strip_frames, whole_escapes
from memory_sqlite.text.units import cut_utf8, cut_utf16, utf8_length, utf16_length
from memory_sqlite.transcripts import audience

_READ_UNITS: Final = 64 * limits.KIB
"""Of longer words only this much is looked at for frames: they are a page, and the deadline runs."""
_LEAST_UNITS: Final = 16
"""An item cut shorter than this says nothing; it is left out instead."""
_CANDIDATES: Final = 3
"""Hits asked of the search for each one wanted: the floor takes some away, and never fetches more."""
_MORE: Final = "…"


def recall(
    opened: Opened,
    query: str,
    session: str | None,
    scopes: Sequence[str] | None,
    settings: Settings,
    clock: Clock,
    cancelled: threading.Event | None,
    lock: threading.RLock,
    zone: str | None = None,
    viewer: audience.Audience | None = None,
) -> RecallBlock:
    """The block for a session, within ``auto_recall_timeout_ms``; an empty one says why. Never raises.

    ``lock`` is the door's for writing: recall looks for changed notes first, as a search does. ``zone`` is whose day
    "yesterday" is; the clock's when it is not given. ``viewer`` is who asks, where the caller knows better than the
    store.
    """
    started = clock.monotonic()
    deadline = Deadline(settings.auto_recall_timeout_ms / 1000, clock, cancelled)
    words = _words(query)
    if not words:
        return RecallBlock("", reason="nothing")
    outcome = run_within(
        deadline, lambda guard: _find(opened, words, session, scopes, settings, clock, guard, lock, zone, viewer)
    )
    if outcome.value is None:
        return RecallBlock("", (), outcome.reason, _since(started, clock), outcome.warnings)
    hits, warnings = outcome.value
    text, shown = compose(hits, settings)
    reason: Literal["ok", "nothing"] = "ok" if text else "nothing"
    return RecallBlock(text, shown, reason, _since(started, clock), warnings)


def _words(query: object) -> str:
    """What the person said, without blocks that were recalled for it before."""
    if not isinstance(query, str):
        return ""
    return cut_utf16(strip_frames(query[:_READ_UNITS]), limits.RECALL_QUERY_UNITS).strip()


def _since(started: float, clock: Clock) -> float:
    return round((clock.monotonic() - started) * 1000, 3)


def _find(
    opened: Opened,
    words: str,
    session: str | None,
    scopes: Sequence[str] | None,
    settings: Settings,
    clock: Clock,
    guard: Deadline,
    lock: threading.RLock,
    zone: str | None,
    asker: audience.Audience | None,
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Runs in the recall's own thread, on connections of its own."""
    wanted = min(settings.auto_recall_max_results, settings.max_search_results)
    asked = arguments.check(
        words, wanted * _CANDIDATES, 0.0, ("memory",), None, None, None, None, "score", False, zone=zone
    )
    with opened.store.readers.borrow() as store, guard.interruptible(store):
        viewer = asker if asker is not None else audience.of_session(store, session)
        meant = facts.scopes_of(store, session, scopes)
        # a fact found in talk passes the floor or is asked for; its value alone is no name that somebody gave it
        named = facts.facts(store, viewer, words, meant, limits.FACTS_MAX, stated_only=True)
        asked_for = profile.asked_for(store, viewer, words, intents.wanted(words), wanted)
    fresh = freshness.Freshness()
    if viewer.may_see_notes:
        # changed notes may take half of the time that is left, never the search's half
        fresh = freshness.freshen(opened, clock, lock, min(limits.FRESHNESS_BUDGET_S, guard.left() / 2))
    guard.check()
    page = answer(opened, asked, viewer, fresh, settings, clock, guard=guard)
    with opened.keeper.reader() as index, guard.interruptible(index):
        first = [_short(hit) for hit in (*named.pinned, *named.named, *asked_for)]
        hits = relevant(words, page.hits, KnownWords(index), first, now_ms=clock.now_ms(), zone=zone or clock.zone)
    with opened.store.readers.borrow() as store, guard.interruptible(store):
        refused = profile.strangers_instructions(store, (hit.reference for hit in hits))
        refused |= facts.unasked(store, meant, named, hits)
    # facts were read before the search: one may have been forgotten since
    kept = remembered.still_there(opened, [hit for hit in hits if hit.reference not in refused])
    return _with_room(kept, {hit.reference for hit in named.pinned}, wanted), (*page.warnings, *named.warnings)


def _short(hit: Hit) -> Hit:
    """A fact as a search would show it: one long fact must not fill the block."""
    if utf16_length(hit.excerpt) <= limits.EXCERPT_MAX_CHARS:
        return hit
    return replace(hit, excerpt=cut_utf16(hit.excerpt, limits.EXCERPT_MAX_CHARS - len(_MORE)) + _MORE)


def _with_room(hits: Sequence[Hit], pinned: set[str], wanted: int) -> tuple[Hit, ...]:
    """At most ``wanted`` hits, pinned facts first: half of the places, and those that nothing else needs."""
    always = [hit for hit in hits if hit.reference in pinned]
    others = [hit for hit in hits if hit.reference not in pinned]
    places = max(wanted // 2, wanted - len(others))
    return (*always[:places], *others)[:wanted]


def compose(hits: Sequence[Hit], settings: Settings) -> tuple[str, tuple[Hit, ...]]:
    """The framed text and the hits that are in it, within the block's budget with its frame.

    The budget is ``auto_recall_max_chars`` UTF-16 units, or ``context_max_tokens`` UTF-8 bytes where that is set.
    """
    by_bytes = settings.context_max_tokens is not None
    size = utf8_length if by_bytes else utf16_length
    cut = cut_utf8 if by_bytes else cut_utf16
    budget = settings.context_max_tokens if settings.context_max_tokens is not None else settings.auto_recall_max_chars
    left = budget - size(OPEN) - size(NOTICE) - size(CLOSE) - 2
    lines: list[str] = []
    shown: list[Hit] = []
    for hit in hits:
        label = f"{ITEM}{_source(hit)}] ({_label(hit)}) "
        room = left - 1 - size(label)
        text = one_line(hit.excerpt)
        if size(text) > room:
            if room < _LEAST_UNITS:
                continue
            text = whole_escapes(cut(text, room - size(_MORE))).rstrip() + _MORE
        if not text or text == _MORE:
            continue
        line = label + text
        lines.append(line)
        shown.append(hit)
        left -= size(line) + 1
    return close_frame(lines), tuple(shown)


def _source(hit: Hit) -> str:
    """What ``get`` reads it back by: a note's citation, a record's reference, which is shorter than its path.

    A file may be named anything: its brackets must not end the label.
    """
    return one_line(hit.reference if hit.layer is not None else hit.citation).replace("[", "(").replace("]", ")")


def _label(hit: Hit) -> str:
    """What an item is and whose words it is: layer or note, origin class, day."""
    parts = [hit.layer or "note", str(hit.provenance.get("origin", "untrusted"))]
    if hit.time:
        parts.append(hit.time[:10])
    return ", ".join(parts)
