"""Making deleted bytes go: lexical tables merged, the file written anew, the WAL emptied.

Measured (docs/forgetting.md): after secure deletion alone 2 to 4 of 1,500 deleted texts were still legible in the gaps
that moving rows leaves within pages; after VACUUM none. FTS5 keeps deleted words of a contentless table until their
segment is merged, and its ``secure-delete`` has no effect there. Called by ``generations`` and ``run``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import limits
from memory_sqlite.indexing import rows
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.fetch import integer, one_row

LEXICAL_TABLES: Final = ("lexical", "lexical_context")
FIRST_TOMBSTONE_PAGE: Final = 1 << 53
"""FTS5 numbers the pages that list a segment's deleted rows from (segment + 2**16) * 2**37 on."""
_PAGES_A_STEP: Final = 500
"""Pages merged a transaction: at most 54 ms at 200,000 chunks, so that no other writer waits long."""
_STEPS_MOST: Final = 100_000
_RETRY_S: Final = 0.02
_IN_MEMORY_BYTES: Final = 64 * limits.MIB
"""A larger file is written anew by way of a temporary file, which holds only what stays."""


def merge_deleted(connection: apsw.Connection) -> bool:
    """Merge every segment there is into one, a small transaction at a time; whether that came to its end.

    When it has, no word of a row that was deleted before is left. Rows that others delete meanwhile (each turn that is
    remembered replaces the contexts of its neighbours) are listed anew, and are theirs.
    """
    done = True
    for table in LEXICAL_TABLES:
        where = f"SELECT count(*) FROM {table}_data WHERE id >= ?"
        if not integer(connection, where, (FIRST_TOMBSTONE_PAGE,)):
            continue
        _merge(connection, table, -_PAGES_A_STEP)
        done = any(_merge(connection, table, _PAGES_A_STEP) < 2 for _ in range(_STEPS_MOST)) and done
    with writing(connection):
        rows.refresh_common_terms(connection)
    return done


def _merge(connection: apsw.Connection, table: str, pages: int) -> int:
    """One step; returns how many rows it changed: fewer than two mean that there was nothing to merge."""
    before = connection.total_changes()
    with writing(connection):
        connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes() - before


def write_anew(connection: apsw.Connection, path: Path, *, wait: bool = True) -> bool:
    """Write every page anew from what is left, durably, and empty the WAL; ``False`` while a reader needs that."""
    synchronous = integer(connection, "PRAGMA synchronous")
    connection.pragma("synchronous", "FULL")
    large = path.stat().st_size > _IN_MEMORY_BYTES
    try:
        if large:
            connection.pragma("temp_store", 1)
        connection.execute("VACUUM").fetchall()
        return empty_wal(connection, wait=wait)
    finally:
        if large:
            connection.pragma("temp_store", 2)
        connection.pragma("synchronous", synchronous)


def empty_wal(connection: apsw.Connection, *, wait: bool = True) -> bool:
    """Move everything into the main file and cut the WAL to nothing; ``False`` while a reader still needs it.

    ``wait`` tries for as long as the busy timeout. It asks again and again: a checkpoint that waits by itself keeps the
    write lock meanwhile (measured with a program that copies the WAL, which always has a read transaction open: each
    open after a forgetting took ten seconds, in which nobody else could write).
    """
    until = time.monotonic() + (limits.BUSY_TIMEOUT_MS / 1000 if wait else 0.0)
    connection.set_busy_timeout(0)
    try:
        while True:
            row = one_row(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
            if row is not None and row[0] == 0:
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_RETRY_S)
    finally:
        connection.set_busy_timeout(limits.BUSY_TIMEOUT_MS)
