"""Everything canonical of one store as lines of an export, from one read snapshot, one row at a time.

Rows are named as people and hosts name them, never by row id: a session by its key, a turn by session and ordinal, a
message by session and position, a record by its id. Not here: the file (``jsonl_files``), the fields
(``jsonl_format``). Called by ``Memory.export``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.interop import jsonl_files
from memory_sqlite.interop.jsonl_format import ARRIVED_WITHOUT_ID, FORMAT, VERSION, Record
from memory_sqlite.interop.jsonl_keys import part_of, plain_subjects
from memory_sqlite.interop.jsonl_reports import ExportReport
from memory_sqlite.storage.fetch import Row, all_rows, integer, one_row
from memory_sqlite.storage.session_key import fingerprint
from memory_sqlite.storage.store import Store

Progress = Callable[[str, int, int | None], None]
Lines = Iterator[tuple[str, Record]]

_EVERY: Final = 1_000
"""Lines between two words about progress."""
_PAGE: Final = 200
"""Rows held at a time. Rows are not stepped through while others are asked for: inside an open query each new one cost
the more, the more there had been before it (measured: 100,000 messages in 212 s, and in 15 s by pages)."""
_PAGE_OF_TEXTS: Final = 20
"""The same of rows that may have a megabyte each."""
_COUNTS: Final = {
    "tombstone": "tombstones",
    "session": "sessions",
    "turn": "turns",
    "message": "messages",
    "record": "records",
    "record_source": "record_sources",
    "accepted_run": "accepted_runs WHERE turn_id IS NULL",
    "accepted_advancement": "accepted_advancements WHERE turn_id IS NULL",
    "outbox": "turn_outbox",
    "recall": "recalls",
    "hold": "session_holds",
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MESSAGE: Final = re.compile(r"message:(\d{1,18})", re.ASCII)


def export(
    opened: Opened, path: Path, clock: Clock, progress: Progress | None, *, overwrite: bool = False
) -> ExportReport:
    """Write the export; it is there whole when this returns, and not at all when this raises.

    Others may write meanwhile: what they write is not in it. Raises ``OutputExists``, ``InvalidArgument``,
    ``DiskFull``, ``StoreReadOnly``, and ``StoreBusy`` while a forgetting is under way.
    """
    started = clock.monotonic()
    store = opened.store
    with jsonl_files.writing(path, clock, overwrite=overwrite) as writer, store.readers.borrow() as connection:
        connection.execute("BEGIN DEFERRED")
        try:
            refuse_while_forgetting(connection)
            counts = {kind: integer(connection, f"SELECT count(*) FROM {table}") for kind, table in _COUNTS.items()}
            writer.write("header", header(store, counts, clock.now_ms()))
            total = sum(counts.values()) + 2
            for kind, fields in lines(connection, store):
                writer.write(kind, fields)
                if progress is not None and writer.lines % _EVERY == 0:
                    progress("exporting", writer.lines, total)
            writer.end()
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    if progress is not None:
        progress("exporting", writer.lines, writer.lines)
    seconds = round(clock.monotonic() - started, 3)
    return ExportReport("ok", str(path), store.agent, writer.lines, path.stat().st_size, counts, seconds)


def refuse_while_forgetting(connection: apsw.Connection) -> None:
    """Raise ``StoreBusy`` while rows wait to be deleted: an export would hold what is to be forgotten."""
    if connection.execute("SELECT EXISTS (SELECT 1 FROM forgetting_targets)").get:
        raise errors.StoreBusy(
            "a forgetting is under way; an export would hold what is to be forgotten",
            hint="Run `memory-sqlite index`, which finishes it, then export again.",
        )


def header(store: Store, counts: dict[str, int], now: int) -> Record:
    """The first line. ``session_key`` is a fingerprint: it tells another key, and makes no token."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent": store.agent,
        "exported_at": now,
        "session_key": fingerprint(store.key),
        "counts": counts,
    }


def lines(connection: apsw.Connection, store: Store) -> Lines:
    """Every line between header and end, in the order of the format. Tombstones come first: what arrives is held
    against those that were there before it."""
    yield from _tombstones(connection, store)
    yield from _sessions(connection)
    yield from _records(connection)
    for table, kind in (("accepted_runs", "accepted_run"), ("accepted_advancements", "accepted_advancement")):
        for (digest,) in connection.execute(f"SELECT digest FROM {table} WHERE turn_id IS NULL ORDER BY digest"):
            yield kind, {"digest": _hex(digest)}
    yield from _outbox(connection)
    yield from _recalls(connection)
    rows = all_rows(
        connection,
        "SELECT s.key, h.kind, h.reason, h.at FROM session_holds h JOIN sessions s ON s.id = h.session_id"
        " ORDER BY h.session_id, h.kind",
    )
    for key, kind, reason, at in rows:
        yield "hold", {"session": key, "hold_kind": kind, "reason": reason, "at": at}


def _paged(connection: apsw.Connection, sql: str, *bindings: Any, page: int = _PAGE) -> Iterator[Row]:
    """The rows of a query by ascending number, which is its first column: page after page, each from
    where the one before ended. The query ends with that condition and a limit."""
    last = -1
    while True:
        rows = all_rows(connection, sql, (*bindings, last, page))
        yield from rows
        if len(rows) < page:
            return
        last = rows[-1][0]


def _tombstones(connection: apsw.Connection, store: Store) -> Lines:
    plain = plain_subjects(connection, store)
    sql = "SELECT id, kind, subject, since_at, until_at, reason, at FROM tombstones WHERE id > ? ORDER BY id LIMIT ?"
    for _, kind, subject, since, until, reason, at in _paged(connection, sql):
        of = plain.get((kind, subject))
        yield "tombstone", {
            "subject_kind": kind, "subject": subject, "of": of, "since_at": since, "until_at": until,
            "reason": reason, "at": at,
        }  # fmt: skip


def _sessions(connection: apsw.Connection) -> Lines:
    sql = (
        "SELECT id, key, token, chat_type, kind, sender_is_owner, project, turn_count, message_count, started_at,"
        " active_at, recorded_at FROM sessions WHERE id > ? ORDER BY id LIMIT ?"
    )
    for row in _paged(connection, sql):
        session_id, key, token, turn_count = row[0], row[1], row[2], row[7]
        names = all_rows(connection, "SELECT name FROM session_names WHERE session_id = ? ORDER BY name", (session_id,))
        rewritten = one_row(connection, "SELECT number FROM transcript_generations WHERE session_id = ?", (session_id,))
        yield "session", {
            "key": key, "token": token, "names": [name for (name,) in names], "chat_type": row[3],
            "session_kind": row[4], "sender_is_owner": None if row[5] is None else bool(row[5]), "project": row[6],
            "turn_count": turn_count, "message_count": row[8], "rewritten": 0 if rewritten is None else rewritten[0],
            "started_at": row[9], "active_at": row[10], "recorded_at": row[11],
        }  # fmt: skip
        yield from _turns(connection, session_id, key, token, turn_count)


def _turns(connection: apsw.Connection, session_id: int, key: str, token: str, turn_count: int) -> Lines:
    sql = (
        "SELECT ordinal, id, run_id, advancement_key, arrived_by, at, recorded_at FROM turns WHERE session_id = ?"
        " AND ordinal > ? ORDER BY ordinal LIMIT ?"
    )
    for ordinal, turn_id, run_id, advancement_key, arrived_by, at, recorded_at in _paged(connection, sql, session_id):
        of_turn = "WHERE turn_id = ? ORDER BY digest"
        runs = [bytes(d) for (d,) in all_rows(connection, f"SELECT digest FROM accepted_runs {of_turn}", (turn_id,))]
        keys = all_rows(connection, f"SELECT digest FROM accepted_advancements {of_turn}", (turn_id,))
        yield "turn", {
            "session": key, "ordinal": ordinal, "run_id": run_id,
            "runs": [[digest.hex(), part_of(digest, token, run_id, turn_count)] for digest in runs],
            "advancement_key": advancement_key, "advancements": [_hex(digest) for (digest,) in keys],
            "arrived_by": arrived_by, "at": at, "recorded_at": recorded_at,
        }  # fmt: skip
        yield from _messages(connection, turn_id, key, ordinal)


def _messages(connection: apsw.Connection, turn_id: int, key: str, ordinal: int) -> Lines:
    sql = (
        "SELECT position, id, host_id, role, name, sender, text, raw, at, origin, is_tool_output, redactions,"
        " cut_from_bytes FROM messages WHERE turn_id = ? AND position > ? ORDER BY position LIMIT ?"
    )
    for row in _paged(connection, sql, turn_id, page=_PAGE_OF_TEXTS):
        message_id = row[1]
        entries = all_rows(
            connection,
            "SELECT entry_id, way FROM message_entries WHERE message_id = ? ORDER BY way, entry_id",
            (message_id,),
        )
        yield "message", {
            "session": key, "turn": ordinal, "position": row[0], "host_id": row[2],
            "entries": _entries(entries),
            "role": row[3], "name": row[4], "sender": row[5], "text": row[6], "raw": row[7], "at": row[8],
            "origin": row[9], "is_tool_output": bool(row[10]), "redactions": row[11], "cut_from_bytes": row[12],
        }  # fmt: skip


def _entries(rows: list[Row]) -> list[list[str | None]]:
    """Entries and ways. That a message came without an id of its own is noted under its row id, which is no id."""
    found = dict.fromkeys((None if entry.startswith(ARRIVED_WITHOUT_ID) else entry, way) for entry, way in rows)
    # by way, those without an id first: row ids are others elsewhere, and must not decide the order
    return [[entry, way] for entry, way in sorted(found, key=lambda pair: (pair[1], pair[0] or ""))]


def _records(connection: apsw.Connection) -> Lines:
    sql = (
        "SELECT r.id, r.record_id, r.layer, r.kind, r.content, r.keywords, s.key, ts.key, t.ordinal, r.sender,"
        " r.run_id, r.origin, r.agent_wide, r.importance, r.triggers, r.projects, r.slot, r.value, r.polarity,"
        " r.status, b.record_id, r.reinforced, r.reinforced_at, r.day, r.folder, r.ordinal, r.event_at, r.created_at"
        " FROM records r JOIN sessions s ON s.id = r.session_id LEFT JOIN turns t ON t.id = r.turn_id"
        " LEFT JOIN sessions ts ON ts.id = t.session_id LEFT JOIN records b ON b.id = r.superseded_by WHERE r.id > ?"
        " ORDER BY r.id LIMIT ?"
    )
    for values in _paged(connection, sql, page=_PAGE_OF_TEXTS):
        yield "record", {
            "record_id": values[1], "layer": values[2], "record_kind": values[3], "content": values[4],
            "keywords": json.loads(values[5]), "session": values[6],
            "turn": None if values[8] is None else [values[7], values[8]], "sender": values[9], "run_id": values[10],
            "origin": values[11], "agent_wide": bool(values[12]), "importance": values[13],
            "triggers": json.loads(values[14]), "projects": json.loads(values[15]), "slot": values[16],
            "value": values[17], "polarity": values[18], "status": values[19], "superseded_by": values[20],
            "reinforced": values[21], "reinforced_at": values[22], "day": values[23], "folder": values[24],
            "ordinal": values[25], "event_at": values[26], "created_at": values[27],
        }  # fmt: skip
        sources = all_rows(
            connection,
            "SELECT s.key, t.ordinal FROM record_sources r JOIN turns t ON t.id = r.turn_id"
            " JOIN sessions s ON s.id = t.session_id WHERE r.record_id = ? ORDER BY s.key, t.ordinal",
            (values[0],),
        )
        for key, ordinal in sources:
            yield "record_source", {"record": values[1], "turn": [key, ordinal]}


def _outbox(connection: apsw.Connection) -> Lines:
    sql = (
        "SELECT seq, advancement_key, engine_id, owner_id, session_key, session_id, state, admission, terminal, facts,"
        " heartbeat, attempts, reason, at, messages FROM turn_outbox WHERE seq > ? ORDER BY seq LIMIT ?"
    )
    for _, *values in _paged(connection, sql, page=1):
        yield "outbox", {
            "advancement_key": values[0], "engine_id": values[1], "owner_id": values[2], "session_key": values[3],
            "session_id": values[4], "state": values[5], "admission": _value(values[6]), "terminal": _value(values[7]),
            "facts": _value(values[8]), "heartbeat": bool(values[9]), "attempts": values[10], "reason": values[11],
            "at": values[12], "messages": _value(values[13]),
        }  # fmt: skip


def _recalls(connection: apsw.Connection) -> Lines:
    sql = "SELECT id, query_digest, way, at FROM recalls WHERE id > ? ORDER BY id LIMIT ?"
    for number, digest, way, at in _paged(connection, sql):
        rows = all_rows(
            connection,
            "SELECT rank, reference, path, start_line, end_line, score FROM recall_hits WHERE recall_id = ?"
            " ORDER BY rank",
            (number,),
        )
        hits = [hit for hit in (_hit(connection, *row) for row in rows) if hit is not None]
        yield "recall", {"query_digest": _hex(digest), "way": way, "at": at, "hits": hits}


def _hit(
    connection: apsw.Connection, rank: int, reference: str, path: str, start: int, end: int, score: float
) -> Record | None:
    """One hit; ``None`` for one of a message that is not there any more, which only its row id named."""
    message: list[Any] | None = None
    if (found := _MESSAGE.fullmatch(reference)) is not None:
        row = one_row(
            connection,
            "SELECT s.key, m.position FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.id = ?",
            (int(found[1]),),
        )
        if row is None:
            return None
        message = [row[0], row[1]]
    return {
        "rank": rank, "reference": reference if message is None else None, "message": message, "path": path,
        "start_line": start, "end_line": end, "score": score,
    }  # fmt: skip


def _hex(digest: Any) -> str:
    return bytes(digest).hex()


def _value(text: str | None) -> Any:
    """JSON of a host as the value it is, where compact JSON of that value is the very same text; else as text."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    # two levels are the line's own
    if not isinstance(value, dict | list) or jsonl_files.is_deeper(value, limits.EXPORT_DEPTH_MAX - 2):
        return text
    # a lone surrogate in it, which is an escape in the text, could not be written as itself
    return value if "\\ud" not in text and dump(value) == text else text


def dump(value: Any) -> str:
    """JSON of a host as the store keeps it: compact, text unescaped but for lone surrogates."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
