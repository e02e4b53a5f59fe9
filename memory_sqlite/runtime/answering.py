"""What a lease of our provider answers: a page of hits, what a reference reads, candidates, health.

All of it runs in a thread, and calls ``check`` immediately before each read. Not here: the lease itself, and what is
asked before an answer leaves it (``handle``); the parts (``listing``, ``reading_back``, ``candidates``, ``health``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.agent import arguments, freshness
from memory_sqlite.agent.arguments import Asked
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.model import SOURCES, Hit
from memory_sqlite.runtime import candidates, cursors, health, listing, reading_back
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.candidates import Entry, automatic_recall
from memory_sqlite.runtime.cursors import Place
from memory_sqlite.runtime.holding import Holding
from memory_sqlite.runtime.references import Naming
from memory_sqlite.runtime.shapes import (
    CandidateRequest,
    Citation,
    GetRequest,
    GetResult,
    Health,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)
from memory_sqlite.runtime.visibility import Access, View, view_of
from memory_sqlite.text.frame import one_line

_DUPLICATES_CITED: Final = 20
_BEHIND: Final = "not everything that is searched is up to date"
_SESSIONS_ONLY: Final = "the recall pass admits what was said in sessions alone"


@dataclass(frozen=True)
class Asking:
    """One call: of which memory, on whose behalf, whether that is still so (``check`` raises), and until when."""

    rooms: AgentRooms
    agent_id: str
    access: Access
    check: Callable[[], None]
    guard: Deadline | None

    def view(self) -> View:
        """What the caller may see at this moment."""
        self.check()
        with self.rooms.opened.store.readers.borrow() as store:
            return view_of(self.access, store)


def asked(request: SearchRequest) -> Asked:
    """The request, valid: more results than are given are bounded, as is a floor outside of the scores."""
    score = request.min_score
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score)
    ):
        raise errors.InvalidArgument("min_score must be a finite number")
    most = request.max_results
    if isinstance(most, int) and not isinstance(most, bool):
        most = min(most, limits.OPERATOR_MAX_RESULTS)
    checked = arguments.check(
        request.query,
        most,
        min(1.0, max(0.0, float(score or 0.0))),
        SOURCES if request.sources is None else request.sources,
        None,
        None,
        None,
        None,
        "score",
        False,
        active_projects=request.active_project_keys,
    )
    return replace(checked, only_active=bool(checked.active_projects))


def search(asking: Asking, request: SearchRequest, wanted: Asked, holding: Holding) -> SearchPage:
    """A page of hits, the first or the one after a cursor. Raises ``InvalidArgument``, ``CursorExpired``."""
    rooms = asking.rooms
    wanted = replace(wanted, sources=tuple(one for one in wanted.sources if one in asking.access.sources))
    if not wanted.sources:
        return _nothing(_SESSIONS_ONLY)
    key, bound = rooms.opened.store.key, _binding(asking, request, wanted)
    after = None if request.cursor is None else cursors.read(key, bound, request.cursor)
    now_ms = rooms.clock.now_ms() if after is None else after.now_ms
    asking.check()
    fresh = freshness.freshen(rooms.opened, rooms.clock, rooms.lock)
    view = asking.view()
    if view.refusal is not None:
        return _nothing(view.refusal)
    fresh = _told(fresh, view)
    wanted = replace(wanted, except_session=view.anchor)
    with nullcontext(None) if after is None else holding.using(after.hold) as held:
        listed = listing.page(
            rooms,
            wanted,
            view,
            fresh,
            now_ms=now_ms,
            after=after,
            held=held,
            lexical_only=request.lexical_only,
            guard=asking.guard,
            check=asking.check,
        )
        asking.check()
        hits = [hit for hit in listed.hits if request.min_score is None or hit.score >= request.min_score]
        shown = _shown(rooms, hits, held)
    warnings = list(listed.warnings)
    if listed.bounded:
        warnings.append(f"only the first {limits.LISTING_MAX} hits are listed; ask more narrowly")
    cursor = None
    if listed.more:
        hold = after.hold if after is not None and held is not None else _take(asking, holding)
        moved = after is not None and (held is None or after.moved)
        given = () if after is None else after.seen
        given = (*given, *(cursors.seen(hit.reference) for hit in listed.hits))
        cursor = cursors.write(key, bound, Place(now_ms, listed.hits[-1].score, hold, given, moved))
    coverage = "partial" if listed.bounded else listed.coverage
    return SearchPage(shown, cursor, coverage, "; ".join(warnings) or None)


def get(asking: Asking, request: GetRequest) -> GetResult:
    """What a reference reads. Raises ``AccessDenied``."""
    view = asking.view()
    view.require()
    asking.check()
    return reading_back.read(asking.rooms, view, request, request.from_line, request.lines)


def candidate_page(asking: Asking, request: CandidateRequest) -> SearchPage:
    """Candidates of a kind; that the usual number was not enough is told."""
    rooms = asking.rooms
    asking.check()
    fresh = freshness.freshen(rooms.opened, rooms.clock, rooms.lock)
    view = asking.view()
    if view.refusal is not None:
        return _nothing(view.refusal)
    if "memory" not in asking.access.sources:
        return _nothing(_SESSIONS_ONLY)
    fresh = _told(fresh, view)
    limit = min(request.limit or limits.CANDIDATES_DEFAULT, limits.CANDIDATES_MAX)
    asking.check()
    found, more = candidates.entries(rooms, view, request.kind, limit, request.active_project_keys)
    asking.check()
    naming = Naming(rooms.opened)
    references = naming.references([entry.reference for entry in found])
    warnings = list(fresh.warnings)
    cut = more and (request.limit is None or request.limit > limit)
    if cut:
        warnings.append(f"only the {limit} most important candidates are given")
    return SearchPage(
        tuple(_candidate(naming, entry, reference) for entry, reference in zip(found, references, strict=True)),
        coverage="partial" if cut or fresh.stale else "complete",
        warning="; ".join(warnings) or None,
    )


def look(asking: Asking) -> Health:
    """How the provider is; with numbers for who may read all that is counted."""
    return health.look(asking.rooms, counts=asking.access.kind == "operator")


def refresh(asking: Asking) -> bool:
    """Take what is new into the index, and nothing else; ``False`` when somebody is writing, and nothing was done."""
    rooms = asking.rooms
    if not rooms.lock.acquire(blocking=False):
        return False
    try:
        asking.check()
        freshness.index(rooms.opened, rooms.settings, rooms.clock, full=False, progress=None)
    finally:
        rooms.lock.release()
    rooms.opened.brought()
    return True


def _nothing(why: str) -> SearchPage:
    """What is refused is never an empty success."""
    return SearchPage((), coverage="partial", warning=why)


def _told(fresh: Freshness, view: View) -> Freshness:
    """What may be said of how new the index is: how many notes there are trouble with is for those who see notes."""
    if view.audience.may_see_notes or not fresh.warnings:
        return fresh
    return Freshness(fresh.stale, (_BEHIND,) if fresh.stale else ())


def _binding(asking: Asking, request: SearchRequest, wanted: Asked) -> bytes:
    return cursors.binding(
        asking.agent_id,
        asking.access.caller,
        wanted.query,
        request.min_score,
        sorted(wanted.sources),
        request.lexical_only,
        sorted(wanted.active_projects),
    )


def _take(asking: Asking, holding: Holding) -> bytes:
    asking.check()
    return holding.take()


def _candidate(naming: Naming, entry: Entry, reference: Reference) -> ProviderHit:
    label = f"{entry.path}#L{entry.start_line}-L{entry.end_line}"
    citation = naming.citation(label, reference, entry.start_line, entry.end_line)
    return ProviderHit(
        reference, one_line(entry.text), source=entry.source, citations=(citation,), automatic_recall=entry.recall
    )


def _shown(rooms: AgentRooms, hits: list[Hit], held: apsw.Connection | None) -> tuple[ProviderHit, ...]:
    naming = Naming(rooms.opened)
    shown = []
    for hit, reference in zip(hits, naming.references([hit.reference for hit in hits], held), strict=True):
        others = (Citation(naming.shown(label)) for label in hit.duplicates[:_DUPLICATES_CITED])
        shown.append(
            ProviderHit(
                reference,
                one_line(hit.excerpt),
                hit.score,
                hit.source,
                (naming.citation(hit.citation, reference, hit.start_line, hit.end_line), *others),
                automatic_recall(hit.source, hit.provenance.get("origin"), hit.projects, hit.triggers, hit.importance),
            )
        )
    return tuple(shown)
