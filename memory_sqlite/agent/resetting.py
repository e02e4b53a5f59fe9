"""``reset``: every derived file is dropped, and what can be derived without cost is built anew at once.

The store, the notes and the configuration are not touched. Called by ``Memory.reset``.
"""

from __future__ import annotations

from memory_sqlite import errors
from memory_sqlite.agent import freshness
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.generations import files
from memory_sqlite.indexing.notes import Progress
from memory_sqlite.model import ResetReport


def reset(opened: Opened, settings: Settings, clock: Clock, progress: Progress | None) -> ResetReport:
    """Drop all generations that nobody else has open and build the next one.

    When the build fails the next open, ``index`` or ``reset`` makes it. Raises ``WorkspaceUnavailable``, ``StoreBusy``
    and ``StoreReadOnly`` before anything is dropped.
    """
    if opened.store.read_only:
        raise errors.StoreReadOnly("this memory was opened for reading only")
    freshness.check_workspace(opened, settings)
    before = files.numbers(opened.store.directory)
    opened.keeper.drop()
    opened.outdated = None
    built = freshness.index(opened, settings, clock, full=True, progress=progress)
    left = files.numbers(opened.store.directory)
    return ResetReport(
        "partial" if built.status == "partial" else "ok",
        dropped=tuple(number for number in before if number not in left),
        held=tuple(number for number in left if number != built.generation),
        index=built,
    )
