"""What a bulk build changes in the lexical tables, and that it is undone when the build is done."""

from __future__ import annotations

import apsw

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document


def settings(connection: apsw.Connection, table: str) -> dict[str, int]:
    found = connection.execute(f"SELECT k, v FROM {table}_config WHERE k <> 'version'").fetchall()
    return {str(name): int(str(value)) for name, value in found}


def segments(connection: apsw.Connection) -> int:
    count = connection.execute("SELECT count(DISTINCT segid) FROM lexical_idx").get
    assert isinstance(count, int)
    return count


def put(connection: apsw.Connection, number: int) -> None:
    """One note in a transaction of its own: one segment."""
    key = f"memory/n{number}.md"
    with connection:
        rows.put_document(
            connection,
            Document("note", key, "memory", key, (Chunk(f"harbor {number} crane", 1, 1),), str(number), None),
        )


def test_a_build_merges_at_its_end_and_leaves_the_settings_of_every_day() -> None:
    """Segments stay apart while it goes on, are one when it is finished, and later ones are merged as they come."""
    connection = apsw.Connection(":memory:")
    with connection:
        layout.create(connection, {})
        rows.begin(connection)
    for number in range(20):
        put(connection, number)
    assert segments(connection) == 20
    with connection:
        rows.finish(connection)
    assert segments(connection) == 1
    for table in ("lexical", "lexical_context"):
        assert settings(connection, table) == {"automerge": 4, "crisismerge": 16, "hashsize": 1 << 20}
    for number in range(20, 60):
        put(connection, number)
    assert segments(connection) < 16
    assert rows.inconsistency(connection) is None
