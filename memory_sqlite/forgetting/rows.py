"""Forgetting in the store: tombstones and the list of what goes, in one transaction; then the rows, batch by batch.

Each function works inside the caller's transaction. After a crash the list says what is still to do; what was deleted
is not on it any more. Not here: the other facts that a deleted one had replaced (``supersession``), generations, notes,
bytes. Called by ``run``, for a dry run inside a transaction that is rolled back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import apsw

from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import recalls, supersession
from memory_sqlite.forgetting.choose import Chosen, Tombstone, derived_records
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.limits import SAME_TURN_WINDOW_MS
from memory_sqlite.storage import change_log, tombstones
from memory_sqlite.storage.fetch import all_rows, integer, one_row
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import names, rewritten
from memory_sqlite.values import dataclass, field

REASON: Final = "forget"
_BATCH: Final = 250
"""Turns a transaction: some 10 ms each hold of the write lock, so that nobody's ``remember`` waits noticeably."""
_WAYS: Final = ("remember", "commit", "import")
_ARRIVED_WITHOUT_ID: Final = "="


@dataclass
class Tally:
    """What was deleted, as it grows."""

    sessions: int = 0
    turns: int = 0
    messages: int = 0
    records: Counter[str] = field(default_factory=Counter)
    restated: int = 0
    """Facts that were said elsewhere too and are stored anew in those words."""
    revived: int = 0
    """Facts in force again, because what had replaced them was forgotten."""
    waiting: int = 0
    """Turns in a host's outbox that no engine has got yet, or has not acknowledged."""
    tombstones: int = 0


def begin(store: Store, chosen: Chosen, extra: Iterable[Tombstone], notes: str, tally: Tally, now: int) -> int:
    """Write the tombstones and the list of what goes; returns the number of this forgetting. ``extra`` are tombstones
    of notes, ``notes`` the JSON of what is to be taken out of them."""
    connection = store.connection
    for kind, named, since, until in (*chosen.tombstones, *extra):
        tally.tombstones += tombstones.add(connection, kind, named, reason=REASON, at=now, since=since, until=until)
    connection.execute("INSERT INTO forgettings (stage, notes, at) VALUES ('rows', ?, ?)", (notes, now))
    number = connection.last_insert_rowid()
    for kind_of_target, ids in (("session", chosen.sessions), ("turn", chosen.turns), ("record", chosen.records)):
        connection.executemany(
            "INSERT OR IGNORE INTO forgetting_targets (kind, target) VALUES (?, ?)",
            [(kind_of_target, target) for target in sorted(ids)],
        )
    for turn_id in chosen.turns:
        tally.tombstones += entomb_turn(store, turn_id, now)
    return number


def entomb_turn(store: Store, turn_id: int, now: int, reason: str = REASON) -> int:
    """Tombstones of each message of a turn: its entries, and its words where they might come by another way. A turn of
    a session that goes whole needs them too: the session may go on, and its old transcript may name it otherwise."""
    connection, added = store.connection, 0
    session = one_row(
        connection,
        "SELECT s.id, s.token FROM turns t JOIN sessions s ON s.id = t.session_id WHERE t.id = ?",
        (turn_id,),
    )
    if session is None:
        return 0
    tokens = [str(session[1]), *(store.token(name) for name in names.further(connection, session[0]))]
    for message_id, host_id, at, digest in all_rows(
        connection, "SELECT id, host_id, at, text_digest FROM messages WHERE turn_id = ?", (turn_id,)
    ):
        entries = all_rows(connection, "SELECT entry_id, way FROM message_entries WHERE message_id = ?", (message_id,))
        named = {str(entry_id) for entry_id, _ in entries if not entry_id.startswith(_ARRIVED_WITHOUT_ID)}
        named |= {host_id} if host_id is not None else set()
        for entry_id in sorted(named):
            for token in tokens:
                for subject in (
                    tombstones.entry(store.key, token, entry_id),
                    tombstones.spoken_entry(store.key, token, entry_id, digest),
                ):
                    added += tombstones.add(connection, "entry", subject, reason=reason, at=now)
        for way in _WAYS:
            # by a way it has come before, the same words are another utterance, and may be said again
            if all(way != arrived for _, arrived in entries):
                window = {"since": at - SAME_TURN_WINDOW_MS, "until": at + SAME_TURN_WINDOW_MS}
                for token in tokens:
                    subject = tombstones.message(store.key, token, way, digest)
                    added += tombstones.add(connection, "message", subject, reason=reason, at=now, **window)
    return added


def step(store: Store, settings: Settings, clock: Clock, tally: Tally, samples: Samples) -> bool:
    """Delete the next batch; ``False`` when nothing is left on the list."""
    connection = store.connection
    session_id: int | None = None
    turn_ids = _targets(connection, "turn", _BATCH)
    record_ids = derived_records(connection, turn_ids)
    named = [] if turn_ids else _targets(connection, "record", _BATCH)
    if not turn_ids and not named:
        session_id = next(iter(_targets(connection, "session", 1)), None)
        if session_id is None:
            return False
        # facts that outlived their turns; a turn that was said since the forgetting began keeps its own
        rows = all_rows(connection, "SELECT id FROM records WHERE session_id = ? AND turn_id IS NULL", (session_id,))
        record_ids = [int(row_id) for (row_id,) in rows]
    said_again = supersession.other_sources(connection, record_ids)
    supersession.weaken(connection, turn_ids)
    freed: set[int] = set()
    for row_id in (*record_ids, *named):  # one that was named is not stored anew, whoever else says it
        freed |= delete_record(connection, row_id, tally, samples, clock.now_ms())
    for turn_id in turn_ids:
        delete_turn(connection, turn_id, tally, samples)
    supersession.bring_back(connection, freed)
    tally.restated += supersession.restate(store, said_again, settings, clock)
    tally.revived += supersession.count_in_force(connection, freed)
    if session_id is not None:
        delete_session(connection, session_id, tally)
    return True


def _targets(connection: apsw.Connection, kind: str, limit: int) -> list[int]:
    rows = all_rows(connection, "SELECT target FROM forgetting_targets WHERE kind = ? LIMIT ?", (kind, limit))
    return [int(target) for (target,) in rows]


def _done(connection: apsw.Connection, kind: str, target: int) -> None:
    connection.execute("DELETE FROM forgetting_targets WHERE kind = ? AND target = ?", (kind, target))


def delete_record(
    connection: apsw.Connection, row_id: int, tally: Tally, samples: Samples, now: int, reason: str = REASON
) -> set[int]:
    """One record with its tombstone. Returns the records that nothing supersedes any more."""
    _done(connection, "record", row_id)
    row = connection.execute("SELECT record_id, layer, content FROM records WHERE id = ?", (row_id,)).fetchone()
    if row is None:
        return set()
    record_id, layer, content = (str(value) for value in row)
    samples.add(content)
    tally.tombstones += tombstones.add(connection, "record", record_id, reason=reason, at=now)
    tally.records[layer] += 1
    recalls.forget(connection, [f"record:{record_id}"])
    freed = supersession.unlink(connection, row_id)
    connection.execute("DELETE FROM records WHERE id = ?", (row_id,))
    change_log.append(connection, "record", row_id, "delete")
    return freed


def delete_turn(connection: apsw.Connection, turn_id: int, tally: Tally, samples: Samples) -> None:
    """One turn with its messages and their entries; records that were made from it stay, without it."""
    _done(connection, "turn", turn_id)
    for message_id, text in all_rows(connection, "SELECT id, text FROM messages WHERE turn_id = ?", (turn_id,)):
        samples.add(text)
        recalls.forget(connection, [f"message:{message_id}"])
        change_log.append(connection, "message", message_id, "delete")
        tally.messages += 1
    row = one_row(connection, "DELETE FROM turns WHERE id = ? RETURNING session_id", (turn_id,))
    # its messages and their entries go with it
    if row is not None:
        tally.turns += 1
        rewritten.note(connection, row[0])


def delete_session(connection: apsw.Connection, session_id: int, tally: Tally) -> None:
    """The session itself, when its turns are gone. One in which somebody spoke on meanwhile keeps its row."""
    _done(connection, "session", session_id)
    if integer(connection, "SELECT EXISTS (SELECT 1 FROM turns WHERE session_id = ?)", (session_id,)):
        return
    # the place of an import names the session it was told to use
    connection.execute(
        "DELETE FROM import_cursors WHERE substr(path, instr(path, char(10)) + 1) ="
        " (SELECT key FROM sessions WHERE id = ?)",
        (session_id,),
    )
    connection.execute("DELETE FROM session_holds WHERE session_id = ? AND kind = 'pin'", (session_id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    tally.sessions += connection.changes()


def owe(connection: apsw.Connection, stage: str, number: int | None, now: int) -> int:
    """Note that files are still to be cleaned of what this transaction deletes, unless that is noted already under
    ``number`` (another process may have cleaned, and crossed it off, meanwhile); returns its number."""
    if number is not None and connection.execute("SELECT 1 FROM forgettings WHERE id = ?", (number,)).get is not None:
        connection.execute("UPDATE forgettings SET stage = ? WHERE id = ?", (stage, number))
        return number
    connection.execute("INSERT INTO forgettings (stage, notes, at) VALUES (?, '[]', ?)", (stage, now))
    return connection.last_insert_rowid()


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One row of ``forgettings``."""

    number: int
    stage: str
    notes: str


def unfinished(connection: apsw.Connection) -> list[Unfinished]:
    """Forgettings that were begun and not finished, oldest first."""
    rows = all_rows(connection, "SELECT id, stage, notes FROM forgettings ORDER BY id")
    return [Unfinished(*row) for row in rows]


def reach(connection: apsw.Connection, numbers: Iterable[int], stage: str) -> None:
    """Note how far these forgettings have come; inside the caller's transaction."""
    connection.executemany("UPDATE forgettings SET stage = ? WHERE id = ?", [(stage, number) for number in numbers])


def finish(connection: apsw.Connection, numbers: Iterable[int]) -> None:
    """Note that nothing is left to do of them; inside the caller's transaction."""
    connection.executemany("DELETE FROM forgettings WHERE id = ?", [(number,) for number in numbers])
