"""Accepting turns: L0 rows, once each, whatever way and in whatever order they arrive.

``accept`` works inside the caller's transaction, so that the layers made from a turn are stored with it or not at all.
Not here: what is remembered from a turn (``layers``), and when the index learns of it (``indexing``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import apsw

from memory_sqlite import limits
from memory_sqlite.model import Message, OriginClass
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.transcripts import rewritten
from memory_sqlite.transcripts.identity import SYNTHETIC_PREFIX, advancement_digest, run_digest, text_digest
from memory_sqlite.transcripts.sessions import Session
from memory_sqlite.values import dataclass

Way = Literal["remember", "commit", "import"]

_ARRIVAL_PREFIX: Final = "="
"""Entry ids that only say: this message has arrived by this way. One copy of a message per way, no more."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message row, as much of it as the layers need."""

    id: int
    message: Message
    origin: OriginClass


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of one turn. ``stored`` holds the messages that are new; ``is_new`` is false for a known turn."""

    turn_id: int
    ordinal: int
    is_new: bool
    at: int
    stored: tuple[StoredMessage, ...]
    run_id: str | None = None


def origin_of(message: Message, *, from_owner: bool) -> OriginClass:
    """Where a message came from: the owner, the agent, the system, or somebody who is not to be trusted."""
    if message.is_tool_output:
        return "untrusted"
    if message.role == "assistant":
        return "agent"
    if message.role in ("system", "developer"):
        return "system"
    return "owner" if from_owner and message.role == "user" else "untrusted"


def is_advanced(connection: apsw.Connection, key: str) -> bool:
    """Whether a turn was committed under this advancement key, also one that was deleted since."""
    sql = "SELECT EXISTS (SELECT 1 FROM accepted_advancements WHERE digest = ?)"
    return bool(connection.execute(sql, (advancement_digest(key),)).get)


def advance(connection: apsw.Connection, key: str, label: str, turn_id: int | None) -> None:
    """File an advancement key for ever, with its turn where there is one; ``label`` is the key as it may be shown."""
    connection.execute("INSERT INTO accepted_advancements VALUES (?, ?)", (advancement_digest(key), turn_id))
    if turn_id is not None:
        # a turn that is committed again under another key keeps the first as its own
        connection.execute(
            "UPDATE OR IGNORE turns SET advancement_key = ? WHERE id = ? AND advancement_key IS NULL", (label, turn_id)
        )


def accept(
    connection: apsw.Connection,
    session: Session,
    messages: Sequence[Message],
    *,
    way: Way,
    run_id: str | None,
    part: int,
    from_owner: bool,
    now: int,
) -> Accepted:
    """Store one turn's messages, or recognise the turn.

    ``part`` is the turn's place among the turns of one call (0-based): a run that carries several turns has one run id
    and several parts. ``from_owner`` says whether the person speaking in this turn is the agent's owner.
    """
    digest = run_digest(session.token, run_id, part) if run_id is not None else None
    if digest is not None:
        row = connection.execute(
            "SELECT a.turn_id, t.ordinal, t.at FROM accepted_runs a LEFT JOIN turns t ON t.id = a.turn_id"
            " WHERE a.digest = ?",
            (digest,),
        ).fetchone()
        if row is not None:
            return Accepted(row[0] or 0, row[1] or 0, False, row[2] or now, ())
    known = _recognise(connection, session, messages, way, now, is_named_run=run_id is not None)
    turn = _turn_of(connection, messages, known)
    if turn is None:
        missing = [index for index in range(len(messages)) if known[index] is None]
        return _store_new(
            connection, session, [messages[index] for index in missing], way, run_id, digest, from_owner, now
        )
    turn_id, ordinal, at = turn
    for index, message in enumerate(messages):
        if known[index] is None:
            known[index] = _half_written(connection, turn_id, message, way, known)
    for index, message_id in enumerate(known):
        if message_id is not None:
            _claim(connection, session.id, message_id, messages[index], way)
            _grow(connection, session.id, message_id, messages[index])
    added = [messages[index] for index in range(len(messages)) if known[index] is None]
    stored = _insert(connection, session, turn_id, added, way, from_owner, at)
    if digest is not None:
        connection.execute("INSERT INTO accepted_runs VALUES (?, ?)", (digest, turn_id))
        connection.execute("UPDATE turns SET run_id = ? WHERE id = ? AND run_id IS NULL", (run_id, turn_id))
    return Accepted(turn_id, ordinal, False, at, stored)


def _entry_ids(message: Message) -> tuple[str, ...]:
    ids = dict.fromkeys(message.entry_ids)
    if message.host_id is not None:
        ids.setdefault(message.host_id, None)
    return tuple(ids)


def _recognise(
    connection: apsw.Connection,
    session: Session,
    messages: Sequence[Message],
    way: Way,
    now: int,
    *,
    is_named_run: bool,
) -> list[int | None]:
    """For each message the row it already has, by entry id, else by content for copies that came by another way.

    A host that numbers its messages anew with each start gives one id to many: what comes live under the id of a
    message that came live before is not that message when its role is another, or in a run of another name when it
    shares not a word with it. An import reads one file again and again, and its ids are believed.
    """
    found: list[int | None] = [_by_entry(connection, session.id, message, way) for message in messages]
    if way != "import" and any(
        row is not None and _is_reused_id(connection, session.id, row, message, way, is_named_run)
        for row, message in zip(found, messages, strict=True)
    ):
        found = [None] * len(messages)
    taken = {message_id for message_id in found if message_id is not None}
    for index, message in enumerate(messages):
        if found[index] is None:
            match = _by_content(connection, session.id, message, way, taken, now)
            if match is not None:
                found[index] = match
                taken.add(match)
    return found


def _by_entry(connection: apsw.Connection, session_id: int, message: Message, way: Way) -> int | None:
    for entry_id in _entry_ids(message):
        row = connection.execute(
            "SELECT message_id FROM message_entries WHERE session_id = ? AND entry_id = ?"
            + (" AND way = ?" if entry_id.startswith(SYNTHETIC_PREFIX) else ""),
            (session_id, entry_id, way) if entry_id.startswith(SYNTHETIC_PREFIX) else (session_id, entry_id),
        ).fetchone()
        if row is not None:
            return int(row[0])
    return None


def _is_reused_id(
    connection: apsw.Connection, session_id: int, row: int, message: Message, way: Way, is_named_run: bool
) -> bool:
    came_so = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM message_entries WHERE session_id = ? AND message_id = ? AND way = ?)",
        (session_id, row, way),
    ).get
    if not came_so:
        return False
    ((role, text),) = connection.execute("SELECT role, text FROM messages WHERE id = ?", (row,)).fetchall()
    if role != message.role:
        return True
    if not is_named_run:
        return False
    known, said = _words(str(text)), _words(message.text)
    return bool(known) and bool(said) and known.isdisjoint(said)


def _words(text: str) -> set[str]:
    """Words, and of those that are not ASCII the characters: not every script puts spaces between words."""
    return {part for word in text.casefold().split() for part in ([word] if word.isascii() else word)}


def _by_content(
    connection: apsw.Connection, session_id: int, message: Message, way: Way, taken: set[int], now: int
) -> int | None:
    # what is said live without a time is said now: "yes" today is not the "yes" of an imported transcript of last
    # month; a transcript without times tells only the order, so there the first copy that fits is taken
    said_at = message.at if message.at is not None or way == "import" else now
    rows = all_rows(
        connection,
        "SELECT m.id, m.at FROM messages m WHERE m.session_id = ? AND m.text_digest = ? AND m.role = ?"
        " AND NOT EXISTS (SELECT 1 FROM message_entries e WHERE e.message_id = m.id AND e.way = ?)"
        # the plus keeps SQLite off the index over positions, where it would walk the whole session for each message
        # (measured: 10,000 turns of one session took 35 s, and 11 s with it)
        " ORDER BY +m.position",
        (session_id, text_digest(message.role, message.text), message.role, way),
    )
    for message_id, at in rows:
        if message_id in taken:
            continue
        if said_at is None or abs(at - said_at) <= limits.SAME_TURN_WINDOW_MS:
            return int(message_id)
    return None


def _half_written(
    connection: apsw.Connection, turn_id: int, message: Message, way: Way, taken: Sequence[int | None]
) -> int | None:
    """The answer in this turn that this one is without an id to tell it, where one of two ways read it while it was
    being written: of the same moment, and one text the beginning of the other."""
    if message.role != "assistant" or message.at is None or not message.text:
        return None
    rows = all_rows(
        connection,
        "SELECT id, text FROM messages m WHERE turn_id = ? AND at = ? AND role = ? AND text <> ''"
        " AND NOT EXISTS (SELECT 1 FROM message_entries e WHERE e.message_id = m.id AND e.way = ?) ORDER BY position",
        (turn_id, message.at, message.role, way),
    )
    for message_id, text in rows:
        if message_id not in taken and (message.text.startswith(text) or text.startswith(message.text)):
            return int(message_id)
    return None


def _turn_of(
    connection: apsw.Connection, messages: Sequence[Message], known: Sequence[int | None]
) -> tuple[int, int, int] | None:
    """The stored turn these messages belong to: the one that holds all the person's words, or, where nobody but the
    agent speaks, the one that holds any of them."""
    persons = [index for index, message in enumerate(messages) if message.role == "user" and not message.is_tool_output]
    telling = persons or range(len(messages))
    ids = [known[index] for index in telling]
    if not ids or (None in ids if persons else all(message_id is None for message_id in ids)):
        return None
    first = next(message_id for message_id in ids if message_id is not None)
    row = connection.execute(
        "SELECT t.id, t.ordinal, t.at FROM messages m JOIN turns t ON t.id = m.turn_id WHERE m.id = ?", (first,)
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


def _store_new(
    connection: apsw.Connection,
    session: Session,
    messages: Sequence[Message],
    way: Way,
    run_id: str | None,
    digest: bytes | None,
    from_owner: bool,
    now: int,
) -> Accepted:
    at = next((message.at for message in messages if message.at is not None), now)
    ordinal = connection.execute(
        "UPDATE sessions SET turn_count = turn_count + 1, active_at = max(active_at, ?) WHERE id = ?"
        " RETURNING turn_count",
        (at, session.id),
    ).get
    connection.execute(
        "INSERT INTO turns (session_id, ordinal, run_id, arrived_by, at, recorded_at) VALUES (?, ?, ?, ?, ?, ?)",
        (session.id, ordinal, run_id, way, at, now),
    )
    turn_id = connection.last_insert_rowid()
    if digest is not None:
        connection.execute("INSERT INTO accepted_runs VALUES (?, ?)", (digest, turn_id))
    stored = _insert(connection, session, turn_id, messages, way, from_owner, at)
    assert isinstance(ordinal, int)
    return Accepted(turn_id, ordinal, True, at, stored, run_id)


def _insert(
    connection: apsw.Connection,
    session: Session,
    turn_id: int,
    messages: Sequence[Message],
    way: Way,
    from_owner: bool,
    fallback_at: int,
) -> tuple[StoredMessage, ...]:
    if not messages:
        return ()
    last = connection.execute(
        "UPDATE sessions SET message_count = message_count + ? WHERE id = ? RETURNING message_count",
        (len(messages), session.id),
    ).get
    assert isinstance(last, int)
    stored = []
    for position, message in enumerate(messages, last - len(messages) + 1):
        origin = origin_of(message, from_owner=from_owner)
        connection.execute(
            "INSERT INTO messages (session_id, turn_id, position, host_id, role, name, sender, text, raw, at, origin,"
            " is_tool_output, redactions, cut_from_bytes, text_digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.id,
                turn_id,
                position,
                message.host_id,
                message.role,
                message.name,
                message.sender,
                message.text,
                message.raw,
                message.at if message.at is not None else fallback_at,
                origin,
                int(message.is_tool_output),
                message.redactions,
                message.cut_from_bytes,
                text_digest(message.role, message.text),
            ),
        )
        message_id = connection.last_insert_rowid()
        _claim(connection, session.id, message_id, message, way)
        change_log.append(connection, "message", message_id)
        stored.append(StoredMessage(message_id, message, origin))
    return tuple(stored)


def _claim(connection: apsw.Connection, session_id: int, message_id: int, message: Message, way: Way) -> None:
    """Note that this message has arrived by this way, under these entry ids."""
    insert = "INSERT OR IGNORE INTO message_entries (session_id, entry_id, message_id, way) VALUES (?, ?, ?, ?)"
    before = connection.total_changes()
    for entry_id in _entry_ids(message):
        connection.execute(insert, (session_id, entry_id, message_id, way))
    if connection.total_changes() > before:
        return
    # it has no id, or came before under the one it has, or another message has that id
    has_come = "SELECT EXISTS (SELECT 1 FROM message_entries WHERE message_id = ? AND way = ?)"
    if not connection.execute(has_come, (message_id, way)).get:
        connection.execute(insert, (session_id, f"{_ARRIVAL_PREFIX}{message_id}", message_id, way))


def _grow(connection: apsw.Connection, session_id: int, message_id: int, message: Message) -> None:
    """An answer that was still being written when it was first read: take the longer text."""
    text = connection.execute("SELECT text FROM messages WHERE id = ?", (message_id,)).get
    assert isinstance(text, str)
    if len(message.text) > len(text) and message.text.startswith(text):
        connection.execute(
            "UPDATE messages SET text = ?, raw = ?, redactions = ?, cut_from_bytes = ?, text_digest = ? WHERE id = ?",
            (
                message.text,
                message.raw,
                message.redactions,
                message.cut_from_bytes,
                text_digest(message.role, message.text),
                message_id,
            ),
        )
        change_log.append(connection, "message", message_id)
        rewritten.note(connection, session_id)
