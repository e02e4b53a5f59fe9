"""The turn outbox: turns that a host has admitted and that their engine has not acknowledged, kept in the store.

``admitted`` → ``accepted`` → ``ready`` → gone; ``accepted`` → ``blocked``. Every change of state is one transaction
that is on disk when the method returns. Safe for threads and for several processes: each change says from which state
it comes, and one that somebody else has made is no error. Not here: reading a transcript, asking an engine (``drain``),
when a turn counts as accepted (``logical_turn``). A state's rules are section 4.5 of the context-engine contract.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.context.shapes import TurnAnchor
from memory_sqlite.host.engines import turn_rows
from memory_sqlite.host.engines.turn_rows import COLUMNS, AdmittedTurn, OutboxRow
from memory_sqlite.storage.fetch import Row, all_rows, one_row
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts.forgotten import Guard

_REASON_MAX: Final = 200


@dataclass(frozen=True)
class OutboxPlace:
    """Where an outbox is kept. ``lock`` is held for every write, as the door does; ``redact`` masks secrets."""

    store: Store
    clock: Clock
    lock: threading.RLock
    redact: bool


@dataclass(frozen=True)
class Due:
    """A turn that is to be delivered, and for whom."""

    session_key: str
    key: str
    engine_id: str
    owner_id: str


class TurnOutbox:
    """The rows of one agent's ``turn_outbox``. Every method raises the store's errors, and ``MemoryClosed``."""

    def __init__(self, place: Callable[[], OutboxPlace]) -> None:
        """``place`` is asked at each call, so that an outbox outlives a memory that is opened again."""
        self._place = place

    # --- a turn's way ------------------------------------------------------------------------------------------------

    def admit(self, turn: AdmittedTurn) -> None:
        """Note that a turn begins. Again with the same turn: nothing happens.

        Raises ``AdvancementCollision`` when the key is in use for another turn, engine or owner.
        """
        anchor = turn.admission.anchor
        admission = turn_rows.dump_admission(turn.admission)
        with self._writing() as (connection, place):
            if (found := _found(connection, turn.key)) is not None:
                _same_turn(found, turn, admission)
                return
            connection.execute(
                "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state,"
                " admission, at) VALUES (?, ?, ?, ?, ?, 'admitted', ?, ?)",
                (
                    turn.key,
                    turn.engine_id,
                    turn.owner_id,
                    anchor.session_key,
                    anchor.session_id,
                    admission,
                    place.clock.now_ms(),
                ),
            )

    def accept(
        self,
        turn: AdmittedTurn,
        terminal: TurnAnchor,
        facts: Mapping[str, Any] | None = None,
        *,
        heartbeat: bool = False,
    ) -> bool:
        """Note that the turn has ended well: from now on it is delivered, whatever happens. Again: nothing happens.

        ``False`` when it is not there (forgotten meanwhile, or acknowledged). Raises ``AdvancementCollision`` when the
        key is in use for another turn, engine, owner or end.
        """
        ended = turn_rows.dump_anchor(terminal)
        with self._writing() as (connection, place):
            found = _found(connection, turn.key)
            if found is None:
                return False
            _same_turn(found, turn, turn_rows.dump_admission(turn.admission))
            if found[3] == "admitted":
                kept = turn_rows.dump(turn_rows.durable_facts(facts or {}, redact=place.redact))
                connection.execute(
                    "UPDATE turn_outbox SET state = 'accepted', terminal = ?, facts = ?, heartbeat = ?"
                    " WHERE advancement_key = ?",
                    (ended, kept, int(heartbeat), turn.key),
                )
            elif found[4] != ended:
                raise errors.AdvancementCollision("the advancement key is in use for a turn with another end")
            return True

    def make_ready(self, key: str, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Keep what was read of an accepted turn; ``False`` when it is neither accepted nor ready any more.

        A turn in which something was said that has been forgotten since, by its time or by who said it, goes. Raises
        ``AdvancementCollision`` when it is ready with other messages, ``InvalidArgument`` for what is not JSON.
        """
        with self._writing() as (connection, place):
            try:
                text = turn_rows.dump_messages(messages, redact=place.redact)
            except (TypeError, ValueError, RecursionError) as error:
                raise errors.InvalidArgument("a message of the turn is not JSON") from error
            row = one_row(
                connection, "SELECT state, messages, session_key, at FROM turn_outbox WHERE advancement_key = ?", (key,)
            )
            if row is None or row[0] not in ("accepted", "ready"):
                return False
            if row[0] == "ready":
                if row[1] != text:
                    raise errors.AdvancementCollision("the advancement key is in use for a turn with other messages")
                return True
            guard = Guard(connection, place.store.key, place.store.token(row[2]), "commit", place.clock.now_ms())
            if any(guard.refuses_moment(*turn_rows.said(message, row[3])) for message in messages):
                connection.execute("DELETE FROM turn_outbox WHERE advancement_key = ?", (key,))
                return False
            connection.execute(
                "UPDATE turn_outbox SET state = 'ready', messages = ?, reason = NULL WHERE advancement_key = ?",
                (text, key),
            )
            return True

    def block(self, key: str, reason: str) -> bool:
        """Note that an accepted turn can never be read; it holds nobody up. ``False`` when it is not accepted."""
        return self._change(
            "UPDATE turn_outbox SET state = 'blocked', reason = ? WHERE advancement_key = ? AND state = 'accepted'",
            (reason[:_REASON_MAX], key),
        )

    def count_attempt(self, key: str, reason: str) -> bool:
        """Note that delivering failed, in a word that is no text of a memory; the row stays queued."""
        return self._change(
            "UPDATE turn_outbox SET attempts = attempts + 1, reason = ? WHERE advancement_key = ?",
            (reason[:_REASON_MAX], key),
        )

    def acknowledge(self, key: str) -> bool:
        """The engine has the turn: the row goes. ``False`` when it had gone already."""
        return self._change("DELETE FROM turn_outbox WHERE advancement_key = ? AND state = 'ready'", (key,))

    def discard(self, key: str) -> bool:
        """A turn that was only admitted, or that is blocked, is given up; others stay. Whether there was one."""
        return self._change(
            "DELETE FROM turn_outbox WHERE advancement_key = ? AND state IN ('admitted', 'blocked')", (key,)
        )

    def give_up(self, key: str) -> bool:
        """For an operator: a turn is never delivered, whatever its state. Whether there was one."""
        return self._change("DELETE FROM turn_outbox WHERE advancement_key = ?", (key,))

    def discard_admitted(self, session_key: str | None = None, keep: frozenset[str] = frozenset()) -> int:
        """Give up what was only admitted: dispatch is not acceptance. ``keep`` are keys of turns that are running.

        Without a session it is every session's, which only a host that runs alone may say. Returns how many.
        """
        with self._writing() as (connection, _):
            rows = all_rows(
                connection,
                "SELECT advancement_key FROM turn_outbox WHERE state = 'admitted' AND (?1 IS NULL OR session_key = ?1)",
                (session_key,),
            )
            gone = [key for (key,) in rows if key not in keep]
            connection.executemany("DELETE FROM turn_outbox WHERE advancement_key = ?", [(key,) for key in gone])
        return len(gone)

    # --- what there is -----------------------------------------------------------------------------------------------

    def row(self, key: str) -> OutboxRow | None:
        """One row whole, or ``None``."""
        rows = self._read(f"SELECT {COLUMNS} FROM turn_outbox WHERE advancement_key = ?", (key,))
        return turn_rows.load_row(rows[0]) if rows else None

    def is_ready(self, key: str) -> bool:
        """Whether a turn is kept with its messages and waits for its engine."""
        return bool(self._read("SELECT 1 FROM turn_outbox WHERE advancement_key = ? AND state = 'ready'", (key,)))

    def is_pending(self, session_key: str, engine_id: str | None = None, owner_id: str | None = None) -> bool:
        """Whether an accepted turn of the session has not reached its engine; blocked ones do not count. With an engine
        and its owner: whether one that is meant for it has not."""
        found = self._read(
            "SELECT 1 FROM turn_outbox WHERE session_key = ?1 AND state IN ('accepted', 'ready')"
            " AND (?2 IS NULL OR (engine_id = ?2 AND owner_id = ?3)) LIMIT 1",
            (session_key, engine_id, owner_id),
        )
        return bool(found)

    def blocked(self, session_key: str | None = None) -> list[tuple[str, str]]:
        """Keys and reasons of blocked turns, in order."""
        return [
            (str(key), str(reason))
            for key, reason in self._read(
                "SELECT advancement_key, reason FROM turn_outbox WHERE state = 'blocked'"
                " AND (?1 IS NULL OR session_key = ?1) ORDER BY seq",
                (session_key,),
            )
        ]

    def due(self, session_key: str | None = None, limit: int = limits.OUTBOX_DRAIN_ROWS) -> list[Due]:
        """The turns to deliver next, in order: the oldest of each session, then the second of each.

        Sessions whose oldest turn has failed less often come first, so that those which fail always never keep the
        others from their place. A turn that is still only admitted holds those after it: it may yet be accepted first.
        """
        rows = self._read(
            "WITH queued AS ("
            " SELECT seq, session_key, advancement_key, engine_id, owner_id,"
            "  row_number() OVER (PARTITION BY session_key ORDER BY seq) AS place,"
            "  sum(state = 'admitted') OVER (PARTITION BY session_key ORDER BY seq) AS held,"
            "  first_value(attempts) OVER (PARTITION BY session_key ORDER BY seq) AS failed"
            " FROM turn_outbox WHERE state <> 'blocked' AND (?1 IS NULL OR session_key = ?1))"
            " SELECT session_key, advancement_key, engine_id, owner_id FROM queued WHERE held = 0"
            " ORDER BY place, failed, seq LIMIT ?2",
            (session_key, limit),
        )
        return [Due(*row) for row in rows]

    # --- the store ---------------------------------------------------------------------------------------------------

    def _writing(self) -> _Writing:
        return _Writing(self._place())

    def _change(self, sql: str, bindings: Sequence[Any]) -> bool:
        with self._writing() as (connection, _):
            connection.execute(sql, tuple(bindings))
            return connection.changes() > 0

    def _read(self, sql: str, bindings: Sequence[Any]) -> list[Row]:
        with self._place().store.readers.borrow() as connection:
            return all_rows(connection, sql, bindings)


class _Writing:
    """The lock, then one transaction; both end with the block."""

    def __init__(self, place: OutboxPlace) -> None:
        self._place = place
        self._transaction = place.store.transaction()

    def __enter__(self) -> tuple[apsw.Connection, OutboxPlace]:
        self._place.lock.acquire()
        try:
            return self._transaction.__enter__(), self._place
        except BaseException:
            self._place.lock.release()
            raise

    def __exit__(self, *raised: Any) -> None:
        try:
            self._transaction.__exit__(*raised)
        finally:
            self._place.lock.release()


def _found(connection: apsw.Connection, key: str) -> Row | None:
    return one_row(
        connection,
        "SELECT engine_id, owner_id, admission, state, terminal FROM turn_outbox WHERE advancement_key = ?",
        (key,),
    )


def _same_turn(found: Row, turn: AdmittedTurn, admission: str) -> None:
    if (found[0], found[1]) != (turn.engine_id, turn.owner_id):
        raise errors.AdvancementCollision("the advancement key is in use for another engine or owner")
    if found[2] != admission:
        raise errors.AdvancementCollision("the advancement key is in use for another turn")
