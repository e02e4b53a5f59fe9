"""``reset``: every derived file is dropped, and what can be derived without cost is built anew at once.

Vectors that were paid for go over into the new index: that is then built before the old one is dropped. The store, the
notes and the configuration are not touched. Called by ``Memory.reset``.
"""

from __future__ import annotations

import apsw

from memory_sqlite import errors
from memory_sqlite.agent import freshness
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.generations import files, vector_rows
from memory_sqlite.indexing import rebuild
from memory_sqlite.indexing.notes import Progress
from memory_sqlite.model import ResetReport
from memory_sqlite.storage.fetch import integer


def reset(
    opened: Opened, settings: Settings, clock: Clock, progress: Progress | None, keep_vectors: bool | None
) -> ResetReport:
    """Drop all generations that nobody else has open and build the next one.

    ``keep_vectors`` of ``None`` keeps them where some were paid for. Of an index that is damaged none can be kept.
    When the build fails the next open, ``index`` or ``reset`` makes it. Raises ``WorkspaceUnavailable``, ``StoreBusy``
    and ``StoreReadOnly`` before anything is dropped.
    """
    if opened.store.read_only:
        raise errors.StoreReadOnly("this memory was opened for reading only")
    freshness.check_workspace(opened, settings)
    before = files.numbers(opened.store.directory)
    keep = has_paid_vectors(opened) if keep_vectors is None else keep_vectors
    if keep:
        rebuild.sweep(opened.store, keep_unfinished=False)
    else:
        opened.keeper.drop()
    opened.outdated = None
    built = freshness.index(opened, settings, clock, full=True, progress=progress)
    left = files.numbers(opened.store.directory)
    return ResetReport(
        "partial" if built.status == "partial" else "ok",
        dropped=tuple(number for number in before if number not in left),
        held=tuple(number for number in left if number != built.generation),
        index=built,
        vectors_kept=_vectors(opened) if keep else 0,
    )


def has_paid_vectors(opened: Opened) -> bool:
    """Whether the current generation holds vectors that cost money; ``False`` where that cannot be told."""
    try:
        with opened.keeper.reader() as index:
            spaces = vector_rows.spaces(index)
            return any(space.cost == "paid" and vector_rows.filed(index, space) > 0 for space in spaces)
    except (errors.IndexUnavailable, apsw.SQLError):
        return False


def _vectors(opened: Opened) -> int:
    with opened.keeper.reader() as index:
        return integer(index, "SELECT count(*) FROM vectors")
