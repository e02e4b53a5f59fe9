"""What was recorded of recalls goes with what it names: a reference to something forgotten says that it was there.

Inside the caller's transaction. Not here: recording (``runtime.recall_log``). Called by ``rows`` and ``run``.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw


def forget(connection: apsw.Connection, references: Iterable[str]) -> None:
    """Delete what names any of these references, and the recalls that found nothing else."""
    for reference in references:
        _take(connection, "reference = ?1", (reference,))


def forget_notes(connection: apsw.Connection, paths: Iterable[str]) -> None:
    """Delete what names any line of these notes: after they were rewritten the lines are other ones."""
    for path in paths:
        _take(connection, "substr(reference, 1, length(?1)) = ?1", (f"note:{path}#",))


def _take(connection: apsw.Connection, where: str, bindings: tuple[str, ...]) -> None:
    rows = connection.execute(f"SELECT DISTINCT recall_id FROM recall_hits WHERE {where}", bindings).fetchall()
    if not rows:
        return
    connection.execute(f"DELETE FROM recall_hits WHERE {where}", bindings)
    connection.executemany(
        "DELETE FROM recalls WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM recall_hits WHERE recall_id = ?1)", rows
    )
