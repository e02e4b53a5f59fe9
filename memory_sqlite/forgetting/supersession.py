"""What forgetting one fact means for the others: the state becomes what it would be, had it never been said.

A fact that the forgotten one had replaced is in force again, or is replaced by what came after both. A fact that was
said elsewhere too stays, in the words of the place that remains. Inside the caller's transaction. Called by ``rows``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import apsw

from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.layers.extract import extract
from memory_sqlite.layers.writing import remember_fact_again
from memory_sqlite.model import Fact, Message
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.turns import Accepted, StoredMessage
from memory_sqlite.values import dataclass

_STAYS: Final = "NOT EXISTS (SELECT 1 FROM forgetting_targets f WHERE f.kind = 'turn' AND f.target = {})"


@dataclass(frozen=True, slots=True)
class SaidAgain:
    """A fact that goes with its turn, and the turns, oldest first, that said the same and stay."""

    slot: str
    value: str | None
    polarity: int
    turns: tuple[int, ...]


def other_sources(connection: apsw.Connection, record_ids: Iterable[int]) -> list[SaidAgain]:
    """Of facts that are about to be deleted with their turn: who else said them."""
    found = []
    for row_id in sorted(record_ids):
        row = connection.execute(
            "SELECT slot, value, polarity FROM records WHERE id = ? AND layer = 'L3' AND slot IS NOT NULL", (row_id,)
        ).fetchone()
        if row is None:
            continue
        turns = all_rows(
            connection,
            "SELECT s.turn_id FROM record_sources s JOIN turns t ON t.id = s.turn_id WHERE s.record_id = ? AND"
            f" {_STAYS.format('s.turn_id')} ORDER BY t.at, t.id",
            (row_id,),
        )
        if turns:
            slot, value, polarity = row
            ids = tuple(int(turn_id) for (turn_id,) in turns)
            found.append(SaidAgain(str(slot), None if value is None else str(value), int(str(polarity)), ids))
    return found


def weaken(connection: apsw.Connection, turn_ids: Iterable[int]) -> None:
    """Facts that these turns had only reinforced: reinforced once less, and as old as what remains of them."""
    for turn_id in turn_ids:
        rows = all_rows(
            connection,
            "SELECT r.id FROM record_sources s JOIN records r ON r.id = s.record_id WHERE s.turn_id = ?"
            " AND r.layer = 'L3' AND r.turn_id IS NOT s.turn_id",
            (turn_id,),
        )
        for (row_id,) in rows:
            connection.execute("DELETE FROM record_sources WHERE record_id = ? AND turn_id = ?", (row_id, turn_id))
            connection.execute(
                "UPDATE records AS r SET reinforced = max(1, reinforced - 1),"
                " reinforced_at = (SELECT max(t.at) FROM record_sources s JOIN turns t ON t.id = s.turn_id"
                "   WHERE s.record_id = r.id),"
                " event_at = coalesce((SELECT max(t.at) FROM turns t WHERE t.id = r.turn_id OR t.id IN"
                "   (SELECT s.turn_id FROM record_sources s WHERE s.record_id = r.id)), event_at)"
                " WHERE id = ?",
                (row_id,),
            )
            change_log.append(connection, "record", row_id)


def unlink(connection: apsw.Connection, row_id: int) -> set[int]:
    """Before a record is deleted: what it had superseded is superseded by its own successor, or by nothing any more.
    Returns the latter."""
    rows = all_rows(
        connection,
        "UPDATE records SET superseded_by = (SELECT superseded_by FROM records WHERE id = ?1) WHERE superseded_by = ?1"
        " RETURNING id, superseded_by",
        (row_id,),
    )
    return {int(freed) for freed, successor in rows if successor is None}


def bring_back(connection: apsw.Connection, freed: Iterable[int]) -> None:
    """Facts that nothing supersedes any more are in force again, unless they go too."""
    for row_id in sorted(freed):
        connection.execute(
            "UPDATE records SET status = 'active' WHERE id = ? AND status = 'superseded' AND superseded_by IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM forgetting_targets f WHERE f.kind = 'record' AND f.target = records.id)"
            f" AND (turn_id IS NULL OR {_STAYS.format('records.turn_id')})",
            (row_id,),
        )
        if connection.changes():
            change_log.append(connection, "record", row_id)


def count_in_force(connection: apsw.Connection, freed: Iterable[int]) -> int:
    """How many of them are, when what was restated has superseded what it supersedes."""
    return sum(
        connection.execute("SELECT 1 FROM records WHERE id = ? AND status = 'active'", (row_id,)).get is not None
        for row_id in freed
    )


def restate(store: Store, said_again: Iterable[SaidAgain], settings: Settings, clock: Clock) -> int:
    """Store facts anew from the turns that remain; returns how many facts those are."""
    count = 0
    for said in said_again:
        found = [_restate_from(store, turn_id, said, settings, clock) for turn_id in said.turns]
        count += any(found)
    return count


def _restate_from(store: Store, turn_id: int, said: SaidAgain, settings: Settings, clock: Clock) -> bool:
    """From one turn: its words are read again by the same rules that read them first."""
    connection = store.connection
    row = connection.execute("SELECT session_id, ordinal, at, run_id FROM turns WHERE id = ?", (turn_id,)).fetchone()
    session = sessions.by_id(connection, int(str(row[0]))) if row is not None else None
    if row is None or session is None:
        return False
    turn = Accepted(turn_id, int(str(row[1])), False, int(str(row[2])), (), None if row[3] is None else str(row[3]))
    for stored in _spoken(connection, turn_id):
        trusted = stored.origin == "owner" or settings.compatibility == "layered-memory"
        for fact in extract(stored.message.text, mode=settings.compatibility, trusted=trusted).facts:
            if _is_same(fact, said):
                remember_fact_again(connection, session, turn, stored, fact, settings=settings, clock=clock)
                return True
    return False


def _is_same(fact: Fact, said: SaidAgain) -> bool:
    return (fact.slot, fact.value, fact.polarity) == (said.slot, said.value, said.polarity)


def _spoken(connection: apsw.Connection, turn_id: int) -> list[StoredMessage]:
    """The person's messages of a turn, as the layers take them."""
    rows = all_rows(
        connection,
        "SELECT id, role, text, raw, sender, at, origin FROM messages WHERE turn_id = ? AND role = 'user'"
        " AND is_tool_output = 0 ORDER BY position",
        (turn_id,),
    )
    return [
        StoredMessage(row_id, Message(role, text, raw, sender=sender, at=at), origin)
        for row_id, role, text, raw, sender, at, origin in rows
    ]
