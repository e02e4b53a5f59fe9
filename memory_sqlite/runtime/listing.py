"""One page of what a search found, and the next: in the order of scores, each hit once, never an empty page.

The first page is a search as any other. A further page searches again as of the same moment, deeply enough, and leaves
out what was given: in the generation that the cursor's handle keeps open nothing else; in a newer one also what would
have stood before the last hit. Near duplicates are one hit, cited together. Not here: cursors' form (``cursors``), what
is asked (``agent.answer``), who may see it (``visibility``). Called by ``handle``, in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.agent.answer import answer
from memory_sqlite.agent.arguments import Asked
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.generations.layout import project_token
from memory_sqlite.model import Coverage, Hit, Page
from memory_sqlite.runtime import cursors
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.cursors import Place
from memory_sqlite.runtime.visibility import View
from memory_sqlite.search.assemble import SESSION_SHARE

_DEEPEST: Final = 2 * limits.LISTING_MAX
"""Results of one search at most: a worker takes ten times what an operator may ask for."""
_CLOSE: Final = 1e-6
"""Scores as near as this are the same one."""
WITHHELD: Final = "something matched that this session may not see"


@dataclass(frozen=True)
class Listed:
    """Hits of one page; ``more`` says that there are others, ``bounded`` that they are too many to be listed."""

    hits: tuple[Hit, ...]
    more: bool
    bounded: bool
    coverage: Coverage
    warnings: tuple[str, ...]


def page(
    rooms: AgentRooms,
    asked: Asked,
    view: View,
    fresh: Freshness,
    *,
    now_ms: int,
    after: Place | None,
    held: apsw.Connection | None,
    lexical_only: bool,
    guard: Deadline | None,
    check: Callable[[], None],
) -> Listed:
    """The next ``asked.max_results`` hits after a place. ``check`` is called before each read and raises to stop it.

    Raises ``CursorExpired`` when nothing comes after the place, and what a search raises.
    """
    given = frozenset(after.seen) if after is not None else frozenset()
    wanted = asked.max_results
    active = asked.active_projects if asked.only_active else ()
    depth = _depth(wanted + len(given))
    while True:
        check()
        found = answer(
            rooms.opened,
            replace(asked, max_results=depth),
            view.audience,
            fresh,
            rooms.settings,
            rooms.clock,
            guard=guard,
            lexical_only=lexical_only,
            now_ms=now_ms,
            held=held,
        )
        left = [hit for hit in _admitted(rooms, view, found, active) if _comes(hit, after, given, held is None)]
        if len(left) > wanted or len(found.hits) < depth or depth == _DEEPEST:
            break
        depth = min(2 * depth, _DEEPEST)  # duplicates, or what the view does not admit, took the places
    if after is not None and not left:
        raise errors.CursorExpired("nothing is left after this cursor")
    room = limits.LISTING_MAX - len(given) - wanted
    return Listed(
        tuple(left[:wanted]),
        len(left) > wanted and room > 0,
        len(left) > wanted and room <= 0,
        "partial" if found.stale else found.coverage,
        # whether somebody else's memory holds a word is nobody's to learn here
        tuple(warning for warning in found.warnings if view.audience.operator or warning != WITHHELD),
    )


def _depth(hits: int) -> int:
    """So many results that sharing them out among sessions leaves the best ``hits``, and one more, in their order."""
    return min(math.ceil((hits + 1) / SESSION_SHARE) + 1, _DEEPEST)


def _admitted(rooms: AgentRooms, view: View, found: Page, active: tuple[str, ...]) -> list[Hit]:
    """The hits that the view admits, without messages of sessions that belong to other projects than the active ones:
    the index knows projects of entries and records alone."""
    if view.access.recall is None and not active:
        return list(found.hits)
    keys = {project_token(project) for project in active}
    with rooms.opened.store.readers.borrow() as store:
        return [
            hit
            for hit in found.hits
            if view.admits(store, rooms.settings.agent, hit.source, hit.session)
            and not (keys and hit.source == "sessions" and _is_elsewhere(store, hit.session, keys))
        ]


def _is_elsewhere(store: apsw.Connection, session: str | None, active: set[str]) -> bool:
    project = store.execute("SELECT project FROM sessions WHERE key = ?", (session,)).get
    return project is not None and project_token(str(project)) not in active


def _comes(hit: Hit, after: Place | None, given: frozenset[bytes], moves: bool) -> bool:
    if after is None:
        return True
    if cursors.seen(hit.reference) in given:
        return False
    return not (moves or after.moved) or hit.score <= after.last_score + _CLOSE
