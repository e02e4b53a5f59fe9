"""An explanation for a caller: its audience and filters, one generation, and what the store knows besides.

Lives here: the way of ``answer`` with a notebook, always in this process, for nobody waits for an explanation; and the
name that the index does not hold, asked of the store and the notes as ``get`` asks. Not here: what is explained
(``search.explain``). Called by the door.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, Final, cast

from memory_sqlite import errors
from memory_sqlite.agent import arguments, freshness, meaning, remembered
from memory_sqlite.agent.answer import answer, filters_of
from memory_sqlite.agent.arguments import Asked
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock, iso
from memory_sqlite.search.assemble import Sort
from memory_sqlite.search.explain import explain
from memory_sqlite.search.explanation import CandidateReading, Explanation, Reason, TargetReading
from memory_sqlite.sources import reading
from memory_sqlite.transcripts import audience
from memory_sqlite.transcripts.audience import Audience

SENTENCES: Final[dict[Reason, str]] = {
    "unknown": "nothing is known by that name",
    "not_visible": "this session may not see it, or there is no such thing",
    "superseded": "it was replaced by {of}, and only what is in force is searched",
    "not_indexed": "it is there and not in the index: not taken in yet, or of a session that is not searched",
    "not_explained": "with compatibility layered-memory only what is found can be explained",
    "hit": "it is hit {place} of the answer",
}
_TRIES: Final = 3
"""As for a search: when something was forgotten meanwhile it is asked again, and then what is gone is left out."""


def disabled(query: str, clock: Clock) -> Explanation:
    """What a memory that is switched off says."""
    return Explanation(query, iso(clock.now_ms()), clock.zone, disabled=True)


def explained(
    opened: Opened,
    asked: Asked,
    reference: object,
    session: str | None,
    reveal: bool,
    clock: Clock,
    lock: threading.RLock,
) -> Explanation:
    """How the search is carried out for ``session``, and why what ``reference`` names was found or not.

    Raises ``InvalidArgument``, ``IndexUnavailable``, and ``PathNotAllowed`` for a path that is no note's.
    """
    target = None if reference is None else arguments.check_range(reference, 1, 1, 0, 1)[0]
    with opened.store.readers.borrow() as store:
        viewer = audience.of_session(store, session)
    fresh = freshness.freshen(opened, clock, lock)
    if opened.settings.compatibility == "layered-memory":
        return _layered(opened, asked, target, viewer, fresh, clock)
    vector, why_not = meaning.vector_of(opened, asked.query, None)
    for _ in range(_TRIES):
        mark = remembered.mark(opened)
        with opened.keeper.reader() as connection:
            explanation, _hits = explain(
                connection,
                asked.query,
                filters_of(asked, viewer),
                target,
                reveal=reveal,
                now_ms=clock.now_ms(),
                zone=asked.zone or clock.zone,
                max_results=asked.max_results,
                min_score=asked.min_score,
                max_bytes=opened.settings.max_search_bytes,
                sort=cast("Sort", asked.sort),
                vector=vector,
            )
        if remembered.mark(opened) == mark:
            break
    about = explanation.target
    if about is not None and about.reason == "not_indexed":
        about = _absent(opened, about, viewer)
    elif about is not None and about.citation is not None and not remembered.still_named(opened, [about.reference]):
        about = _say(about, "unknown")
    kept = remembered.still_named(opened, [row.reference for row in explanation.candidates])
    about_notes = fresh.warnings if viewer.may_see_notes else ()
    return replace(
        explanation,
        candidates=tuple(row for row in explanation.candidates if row.reference in kept),
        target=about,
        stale=fresh.stale,
        warnings=(*about_notes, *explanation.warnings, *([] if why_not is None else [why_not])),
    )


def _absent(opened: Opened, about: TargetReading, viewer: Audience) -> TargetReading:
    """What ``get`` would say about a name that these rows do not hold: the same rule decides what may be known."""
    place = reading.Place(opened.workspace, opened.settings.extra_paths)
    try:
        with opened.store.readers.borrow() as store:
            passage = reading.read(store, viewer, place, about.reference, 1, 1, 0)
    except errors.AccessDenied:
        return _say(about, "not_visible")
    if passage.status != "ok":
        return _say(about, "unknown")
    if passage.provenance.get("status") == "superseded":
        newer = passage.provenance.get("superseded_by")
        return _say(about, "superseded", of=None if newer is None else f"record:{newer}")
    return _say(about, "not_indexed")


def _say(about: TargetReading, reason: Reason, **more: Any) -> TargetReading:
    of = more.get("of") or "a later one"
    detail = SENTENCES[reason].format(of=of, place=more.get("place"))
    return TargetReading(about.reference, reason == "hit", reason, detail, about.passages, **more)


def _layered(
    opened: Opened,
    asked: Asked,
    target: str | None,
    viewer: Audience,
    fresh: Freshness,
    clock: Clock,
) -> Explanation:
    """That product's search knows no candidates beside its hits: keywords, scores and places are all there is."""
    from memory_sqlite.layers.keywords import keywords

    page = answer(opened, asked, viewer, fresh, opened.settings, clock)
    rows = tuple(
        CandidateReading(
            place,
            hit.reference,
            hit.citation,
            hit.source,
            hit.layer,
            hit.score,
            hit.explanation or {},
            (),
            (),
            "hit",
            place,
        )
        for place, hit in enumerate(page.hits, 1)
    )
    about = None
    if target is not None:
        found = next((row for row in rows if target in (row.reference, row.citation)), None)
        about = TargetReading(target, False, "not_explained", "")
        about = _say(about, "not_explained") if found is None else _say(about, "hit", place=found.place)
    words = tuple(keywords(asked.query))
    return Explanation(
        asked.query,
        iso(clock.now_ms()),
        asked.zone or clock.zone,
        tokens=words,
        routes=("layered",),
        scored=len(rows),
        candidates=rows,
        target=about,
        coverage=page.coverage,
        stale=page.stale,
        warnings=page.warnings,
        withheld=page.withheld,
    )
