"""What an audience stands on: exact lives of sessions, watched, and whether all of them still go on.

Asking is synchronous and reads nothing: the rows tell a lease when its life ends, and it stays ended. Not here: which
lives an audience stands on (``lineage``), who holds an audience (``audiences``).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Literal

from memory_sqlite.host.session_rows import SessionRow, SessionRows

Standing = Literal["current", "stale", "released", "unavailable"]
Incarnation = tuple[str, str | None] | None
"""A session id with its lifecycle revision; ``None`` is a key that has no row."""


class Lease:
    """One life of a session, or the absence of a row for a key."""

    def __init__(self, rows: SessionRows, key: str, incarnation: Incarnation) -> None:
        """Watch from now on. A lease on a life that is over already is stale from the beginning."""
        self.key = key
        self._rows = rows
        self._incarnation = incarnation
        self._ended = False
        row, self._end_watch = rows.watch(key, self._moved)
        self._moved(row)

    @property
    def ended(self) -> bool:
        """Whether that life is over, for good."""
        return self._ended

    @property
    def pending(self) -> bool:
        """Whether the row is being written, so that one cannot tell."""
        return self._rows.is_pending(self.key)

    def close(self) -> None:
        """Stop watching; safe to call twice."""
        self._end_watch()

    def _moved(self, row: SessionRow | None) -> None:
        if (row.incarnation if row is not None else None) != self._incarnation:
            self._ended = True


def close_all(leases: Iterable[Lease]) -> None:
    """Stop watching all of them."""
    for lease in leases:
        lease.close()


class Footing:
    """The leases of one audience, over those of the audience it was delegated from.

    A parent that ends takes its delegates along; a delegate that ends leaves its parent. The leases are given back when
    nobody can ask any more.
    """

    def __init__(self, leases: tuple[Lease, ...], parent: Footing | None = None) -> None:
        self._leases = leases
        self._parent = parent
        self._released = False
        self._give_back = weakref.finalize(self, close_all, leases)
        self._give_back.atexit = False

    def keys(self) -> tuple[str, ...]:
        """Every session this stands on."""
        return tuple(lease.key for footing in self._line() for lease in footing._leases)

    def standing(self) -> Standing:
        """What ended it weighs more than what is under way."""
        pending = stale = False
        for footing in self._line():
            if footing._released:
                return "released"
            for lease in footing._leases:
                # whether a write is under way is asked first: one that settles between the two has ended the lease
                pending = lease.pending or pending
                stale = lease.ended or stale
        return "stale" if stale else "unavailable" if pending else "current"

    def _line(self) -> Iterator[Footing]:
        """This one, its parent, and so on: a loop, since runs may delegate as deep as they like."""
        footing: Footing | None = self
        while footing is not None:
            yield footing
            footing = footing._parent

    def release(self) -> None:
        """End it, and with it what was delegated from it."""
        self._released = True
        self._give_back()
