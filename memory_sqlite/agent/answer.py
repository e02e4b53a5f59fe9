"""A search answered: the caller's audience and filters, one generation, one page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import apsw

from memory_sqlite.agent.arguments import Asked
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.model import Layer, Page, Source
from memory_sqlite.search import run
from memory_sqlite.search.assemble import Sort
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.transcripts.audience import Audience

OnConnection = Callable[[apsw.Connection], AbstractContextManager[None]]
"""Entered around the search on a connection and left before the connection serves anybody else."""


def answer(
    opened: Opened,
    asked: Asked,
    audience: Audience,
    fresh: Freshness,
    settings: Settings,
    clock: Clock,
    *,
    cancelled: Callable[[], bool] | None = None,
    on_connection: OnConnection | None = None,
) -> Page:
    """Search the current generation. Within ``on_connection`` of the connection another thread may interrupt it.

    An empty page with ``withheld`` above 0 says that something matched and this session may not see it.
    Raises ``IndexUnavailable``, ``Cancelled``.
    """
    if settings.compatibility == "layered-memory":
        from memory_sqlite.agent.layered_answer import layered_answer

        with opened.store.readers.borrow() as store, (on_connection or _uninterrupted)(store):
            return layered_answer(opened, store, asked, audience, settings, cancelled)
    filters = Filters(
        viewer=Viewer(audience.operator, audience.session_id, audience.owner_private),
        sources=cast("tuple[Source, ...]", asked.sources),
        layers=cast("tuple[Layer, ...] | None", asked.layers),
        projects=asked.projects,
        since=asked.since,
        until=asked.until,
    )
    with opened.keeper.reader() as connection, (on_connection or _uninterrupted)(connection):
        hits, info = run.search(
            connection,
            asked.query,
            filters,
            now_ms=clock.now_ms(),
            max_results=asked.max_results,
            min_score=asked.min_score,
            max_bytes=settings.max_search_bytes,
            sort=cast("Sort", asked.sort),
            explain=asked.explain,
            cancelled=cancelled,
        )
    warnings = [*fresh.warnings, *info.warnings]
    if info.withheld and not hits:
        warnings.append("something matched that this session may not see")
    return Page(
        asked.query,
        tuple(hits),
        coverage=info.coverage,
        stale=fresh.stale,
        warnings=tuple(warnings),
        withheld=info.withheld,
    )


def _uninterrupted(connection: apsw.Connection) -> AbstractContextManager[None]:
    return nullcontext()
