"""Findings about the vectors of a generation: each belongs to a chunk that says what was embedded, and is one.

Called by ``index_checks``. That texts wait for their vectors is no fault: it is told, and ``status`` counts them too.
"""

from __future__ import annotations

import json

import apsw

from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.generations import vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.indexing import vector_inputs, vector_reuse
from memory_sqlite.storage.fetch import integer


def check(index: apsw.Connection, file: str) -> list[Finding]:
    """Everything about ``vector_spaces`` and ``vectors``; ``file`` is the generation's name."""
    wrong = {
        "without_chunk": integer(index, "SELECT count(*) FROM vectors WHERE chunk_id NOT IN (SELECT id FROM chunks)"),
        "without_space": integer(
            index, "SELECT count(*) FROM vectors WHERE space_id NOT IN (SELECT id FROM vector_spaces)"
        ),
        "of_another_text": vector_inputs.outdated(index),
        "unsound": sum(_unsound(index, space) for space in vector_rows.spaces(index)),
    }
    found = []
    counts = {name: number for name, number in wrong.items() if number}
    if counts:
        found.append(
            Finding(
                "vectors_inconsistent",
                {"file": file, "vectors": integer(index, "SELECT count(*) FROM vectors"), **counts},
            )
        )
    for space in vector_rows.spaces(index):
        missing = vector_rows.missing(index, space)
        if missing > 0:
            model = str(json.loads(space.identity).get("model"))
            evidence: Evidence = {"model": model, "state": space.state, "cost": space.cost, "missing": missing}
            found.append(Finding("vectors_missing", evidence))
    return found


def _unsound(index: apsw.Connection, space: Space) -> int:
    """Vectors of another size, with a number that is not finite, or not of length 1."""
    rows = index.execute("SELECT vector FROM vectors WHERE space_id = ?", (space.id,))
    return sum(not vector_reuse.is_sound(bytes(vector), space) for (vector,) in rows)
