"""A search answered: the caller's audience and filters, one generation, one page."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final, cast

import apsw

from memory_sqlite.agent import meaning, remembered, retrieving
from memory_sqlite.agent.arguments import Asked
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.model import Layer, Page, Source
from memory_sqlite.search.assemble import Sort
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.transcripts.audience import Audience

_TRIES: Final = 3
"""Something was forgotten while the search read: it reads again; after that, hits that are gone are left out alone."""


def answer(
    opened: Opened,
    asked: Asked,
    audience: Audience,
    fresh: Freshness,
    settings: Settings,
    clock: Clock,
    *,
    guard: Deadline | None = None,
    lexical_only: bool = False,
    now_ms: int | None = None,
    held: apsw.Connection | None = None,
) -> Page:
    """Search the current generation; ``guard`` says when it must be over, and stops it then.

    ``lexical_only``: by words, without asking for the meaning of the question. ``now_ms`` is when the question was
    first asked, for its further pages; ``held`` a generation that the caller keeps open, which is then searched.

    An empty page with ``withheld`` above 0 says that something matched and this session may not see it.
    Raises ``IndexUnavailable``, ``Cancelled``.
    """
    if settings.compatibility == "layered-memory":
        from memory_sqlite.agent.layered_answer import layered_answer

        with opened.store.readers.borrow() as store, guard.interruptible(store) if guard else nullcontext():
            return layered_answer(opened, store, asked, audience, settings, guard.is_over if guard else None)
    filters = filters_of(asked, audience)
    vector, why_not = (None, None) if lexical_only else meaning.vector_of(opened, asked.query, guard)
    wanted = retrieving.Wanted(
        asked.query,
        filters,
        clock.now_ms() if now_ms is None else now_ms,
        asked.zone or clock.zone,
        asked.max_results,
        settings.max_search_bytes,
        asked.min_score,
        cast("Sort", asked.sort),
        asked.explain,
        vector,
    )
    for _ in range(_TRIES):
        mark = remembered.mark(opened)
        hits, info = retrieving.search(opened, wanted, guard, held)
        if remembered.mark(opened) == mark:
            break
    if len(info.routes) > 1:
        opened.route = info.routes[1]
    hits = remembered.still_there(opened, hits)
    # what ails the notes is their readers' business: others do not learn that there are any
    warnings = [*(fresh.warnings if audience.may_see_notes else ()), *info.warnings]
    if why_not is not None:
        warnings.append(why_not)
    if info.withheld and not hits:
        warnings.append("something matched that this session may not see")
    return Page(
        asked.query,
        tuple(hits),
        coverage=info.coverage if why_not is None else "partial",
        stale=fresh.stale,
        warnings=tuple(warnings),
        withheld=info.withheld,
        routes=info.routes,
    )


def filters_of(asked: Asked, audience: Audience) -> Filters:
    """The audience and the caller's restrictions as the search knows them."""
    return Filters(
        viewer=Viewer(audience.operator, audience.session_id, audience.owner_private),
        sources=cast("tuple[Source, ...]", asked.sources),
        layers=cast("tuple[Layer, ...] | None", asked.layers),
        projects=asked.projects,
        since=asked.since,
        until=asked.until,
        boost_projects=asked.active_projects,
        active_projects=asked.active_projects if asked.only_active else None,
        except_session=asked.except_session,
    )
