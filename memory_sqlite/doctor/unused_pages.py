"""Findings about pages of encrypted files that no table uses: each page has a check of its own, and is read for it.

``integrity_check`` reads what is in use alone (measured: a flipped bit in a free page of an index is not told). Pages
in clear have no check. Called by ``examine``, with --deep. Not here: what is in the pages.
"""

from __future__ import annotations

from typing import Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.doctor import store_checks
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.storage.fetch import integer

_REASON: Final = "a page that no table uses"


def unused(place: Place) -> list[Finding]:
    """Every page of store and current index, in the same moment. What the checks of both have told is not told twice.

    Raises ``Skipped`` without --deep, for files in clear, and for those that are too large to be held in memory.
    """
    if place.file_key() is None:
        raise Skipped("files in clear have no check of their pages", "off")
    if not place.deep:
        raise Skipped("pages that no table uses are read with --deep")
    found = []
    with place.store() as store:
        if not _is_readable(store):
            found.append(store_checks.damaged(_REASON))
    try:
        with place.pair() as pair:
            if not _is_readable(pair.index):
                found.append(Finding("index_damaged", {"file": pair.path.name, "reason": _REASON}))
    except (errors.IndexUnavailable, Skipped):
        if not found:
            raise
    return found


def _is_readable(connection: apsw.Connection) -> bool:
    """Whether SQLite can read all pages: decrypted in memory, never on disk, and let go at once.

    What cannot be read it hands over as zeros, and reads nothing any more with that connection (measured).
    """
    size = integer(connection, "PRAGMA page_count") * integer(connection, "PRAGMA page_size")
    if size > limits.SALVAGE_DECRYPTED_MAX_BYTES:
        raise Skipped("too large to be decrypted in memory")
    try:
        connection.serialize("main")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError):
        return False
    return True
