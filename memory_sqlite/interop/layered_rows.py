"""One turn or record of a layered-memory directory into the store, inside the caller's transaction.

Ids, times, run ids, days, folders and line numbers stay what they were, so that citations keep their meaning. Not here:
reading the directory (``layered_directory``), batches and the report (``layered``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import apsw

from memory_sqlite.agent.turns import without_frames
from memory_sqlite.clock import iso, utc_day
from memory_sqlite.config import Settings
from memory_sqlite.interop.layered_directory import LayeredRecord, LayeredTurn
from memory_sqlite.layers import compatible
from memory_sqlite.layers.keywords import keywords
from memory_sqlite.model import Message, OriginClass, SessionInfo
from memory_sqlite.sources.transcript_formats.sessions import read_session_key
from memory_sqlite.storage import change_log, tombstones
from memory_sqlite.storage.store import Store
from memory_sqlite.text.secrets import mask
from memory_sqlite.text.units import cut_utf8, utf8_length
from memory_sqlite.transcripts import sessions, turns
from memory_sqlite.transcripts.bounds import bounded
from memory_sqlite.transcripts.forgotten import Guard
from memory_sqlite.transcripts.identity import run_digest, text_digest
from memory_sqlite.transcripts.normalise import normalise
from memory_sqlite.transcripts.sessions import Session

_FOLDERS: Final = {"L1": "memories", "L2": "scenarios", "L3": "profiles"}
RUN_OF_RECORD: Final = "layered:"
"""Before the id of an L0 record that had no run: stands for the run, so that importing it again adds nothing."""
_SAME_TURN_MS: Final = 10_000
"""Records were written a few milliseconds after their turn's L0."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of one item. ``problem`` is reported, also when the item was kept."""

    outcome: str
    """``stored``, ``known``, ``left`` (not wanted here), ``forgotten``, or ``refused``: ``problem`` says why."""
    messages: int = 0
    redactions: int = 0
    shortened: int = 0
    problem: str | None = None


def ensure_session(store: Store, key: str, at: int, now: int) -> Session:
    """The session of an imported line; what it is, its key may say. Raises ``InvalidArgument``, ``SessionConflict``.

    The key is checked, but neither trimmed nor changed: its token is made of its bytes.
    """
    sessions.check_key(key)
    chat_type, kind = read_session_key(key)
    return sessions.ensure(store, SessionInfo(key, chat_type, kind), at=at, now=now)


def store_turn(store: Store, turn: LayeredTurn, settings: Settings, now: int) -> Kept:
    """L0: as captured live, so the way is ``remember`` and the host's own transcript of it is the same turn.

    Without a run id the record's id stands for it, so that importing again adds nothing, also after forgetting.
    """
    at = turn.at if turn.at is not None else _day_begins(turn.path, now)
    messages = list(_messages(turn, at, settings))
    guard = _guard(store, turn.session, now)
    if not messages:
        return Kept("left")
    if guard.refuses_session() or guard.refuses(messages):
        return Kept("forgotten")
    session = ensure_session(store, turn.session, at, now)
    accepted = turns.accept(
        store.connection,
        session,
        messages,
        way="remember",
        run_id=turn.run_id.strip() if turn.run_id is not None else f"{RUN_OF_RECORD}{turn.id}",
        part=0,
        # in a room many speak, and the product does not say who of them is the owner
        from_owner=session.chat_type == "direct" and session.sender_is_owner is True,
        now=_within_day(turn.path, at),
    )
    if not accepted.is_new and accepted.turn_id and not _is_said_in(store.connection, accepted.turn_id, messages):
        return Kept("refused", problem="its run or id is that of another turn, which was kept")
    return Kept(
        "stored" if accepted.is_new else "known",
        len(accepted.stored),
        sum(message.redactions for message in messages) if accepted.is_new else 0,
        sum(message.cut_from_bytes is not None for message in messages) if accepted.is_new else 0,
    )


def _is_said_in(connection: apsw.Connection, turn_id: int, messages: Iterable[Message]) -> bool:
    """Whether a known turn holds any of these messages: one id must not hide other words."""
    sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE turn_id = ? AND text_digest = ?)"
    return any(connection.execute(sql, (turn_id, text_digest(said.role, said.text))).get for said in messages)


def _messages(turn: LayeredTurn, at: int, settings: Settings) -> Iterable[Message]:
    for index, said in enumerate(turn.messages):
        given = {**said, "at": iso(at)}  # as text: a small number would be taken for seconds
        if turn.sender is not None and said.get("role") == "user":
            given["sender"] = turn.sender
        message = without_frames(
            normalise(
                given,
                redact=settings.redact_secrets,
                where=f"messages[{index}]",
                record=dict(said),
                entry_ids=(f"{turn.id}#{index}",),
            )
        )
        if message is not None:
            yield bounded(message, settings.max_record_bytes, "truncate", what=f"messages[{index}]")


def store_record(store: Store, record: LayeredRecord, settings: Settings, now: int) -> Kept:
    """L1 to L3 as they stand there, without extracting anew. What is known or was forgotten is left alone."""
    connection = store.connection
    known = connection.execute(
        "SELECT r.content, s.key FROM records r JOIN sessions s ON s.id = r.session_id WHERE record_id = ?",
        (record.id,),
    ).fetchone()
    if known is not None:
        content, session_key = known
        if session_key == record.session and content in (record.content, _text(record, settings)[0]):
            return Kept("known")
        return Kept("refused", problem="its id is that of another record, which was kept")
    at = record.at if record.at is not None else _day_begins(record.path, now)
    guard = _guard(store, record.session, now)
    if guard.refuses_session() or guard.refuses_moment(at, record.sender):
        return Kept("forgotten")
    if tombstones.bounds(connection, "record", record.id):
        return Kept("forgotten")
    session = ensure_session(store, record.session, at, now)
    if session.is_internal:
        return Kept("left")  # the host's own sessions have no L1 to L3 here
    content, words, redactions, shortened = _text(record, settings)
    folder = _folder(record, settings)
    day = _day(record.path) or utc_day(at)
    ordinal, moved = _place(connection, record, session.id, folder, day)
    run_id = record.run_id.strip() if record.run_id is not None else None
    origin, agent_wide = _provenance(record, session, folder)
    connection.execute(
        "INSERT INTO records (record_id, layer, kind, content, keywords, session_id, turn_id, sender, run_id, origin,"
        " agent_wide, day, folder, ordinal, event_at, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record.id,
            record.layer,
            compatible.fact_kind(content) if record.layer == "L3" else None,
            content,
            json.dumps(words, ensure_ascii=True, separators=(",", ":")),
            session.id,
            _turn_of(connection, session, record, day, at),
            record.sender,
            run_id,
            origin,
            int(agent_wide),
            day,
            folder,
            ordinal,
            at,
            at,
        ),
    )
    change_log.append(connection, "record", connection.last_insert_rowid())
    problem = "its line number is taken here; its citation changes" if moved else None
    return Kept("stored", 0, redactions, shortened, problem)


def _text(record: LayeredRecord, settings: Settings) -> tuple[str, list[str], int, int]:
    """Content and keywords as they may be stored, with how often was masked and whether it was shortened."""
    content, redactions, words = record.content, 0, list(record.keywords)
    if settings.redact_secrets:
        content, redactions = mask(content)
        if redactions:
            words = keywords(content)
    size = utf8_length(content)
    shortened = size > settings.max_record_bytes
    if shortened:
        mark = f"\n[shortened: {size} bytes before]"
        content = cut_utf8(content, settings.max_record_bytes - len(mark)) + mark
    left = settings.max_record_bytes
    kept: list[str] = []
    for word in words:
        left -= utf8_length(word)
        if left >= 0:
            kept.append(word)
    return content, kept, redactions, int(shortened)


def _folder(record: LayeredRecord, settings: Settings) -> str:
    """Its own folder; in the layouts before sessions had directories, the one that product migrates it to."""
    parts = record.path.split("/")
    if parts[0] == "agent-profiles":
        return "agent-profiles"
    if parts[0] == "sessions" and len(parts) == 4 and parts[2] in _FOLDERS.values():
        return parts[2]
    if record.layer == "L3" and settings.profile_scope == "agent":
        return "agent-profiles"
    return _FOLDERS[record.layer]


def _provenance(record: LayeredRecord, session: Session, folder: str) -> tuple[OriginClass, bool]:
    """Unknown is untrusted. What the product shared with the whole agent is the owner's, unless its session is known to
    be a room or a stranger's chat: what was said there stays there."""
    if session.owner_private:
        return "owner", record.layer == "L3"
    shared = folder == "agent-profiles" and session.chat_type not in ("group", "channel")
    if shared and session.sender_is_owner is not False:
        return "owner", True
    return "untrusted", False


def _place(
    connection: apsw.Connection, record: LayeredRecord, session_id: int, folder: str, day: str
) -> tuple[int, bool]:
    """The line it stood on; the next free one when that is taken, or where lines of many sessions shared a file."""
    where = "folder = 'agent-profiles' AND day = ?"
    bindings: tuple[int | str, ...] = (day,)
    if folder != "agent-profiles":
        where = "session_id = ? AND folder = ? AND folder <> 'agent-profiles' AND day = ?"
        bindings = (session_id, folder, day)
    kept = record.path.startswith(("sessions/", "agent-profiles/"))
    taken = connection.execute(f"SELECT 1 FROM records WHERE {where} AND ordinal = ?", (*bindings, record.ordinal)).get
    if kept and taken is None:
        return record.ordinal, False
    following = connection.execute(f"SELECT coalesce(max(ordinal), 0) + 1 FROM records WHERE {where}", bindings).get
    assert isinstance(following, int)
    return following, kept


def _turn_of(connection: apsw.Connection, session: Session, record: LayeredRecord, day: str, at: int) -> int | None:
    """The turn a record was made from: by run id; without one by its words (L1), or as the L1 written with it."""
    if record.run_id is not None:
        row = connection.execute(
            "SELECT turn_id FROM accepted_runs WHERE digest = ?",
            (run_digest(session.token, record.run_id.strip(), 0),),
        ).get
    elif record.layer == "L1":
        row = connection.execute(
            "SELECT turn_id FROM messages WHERE session_id = ? AND text_digest = ? AND at BETWEEN ? AND ?"
            " ORDER BY +position DESC LIMIT 1",
            (session.id, text_digest("user", record.content), at - _SAME_TURN_MS, at),
        ).get
    else:
        row = connection.execute(
            "SELECT turn_id FROM records WHERE session_id = ? AND folder = 'memories' AND folder <> 'agent-profiles'"
            " AND day = ? AND created_at = ? LIMIT 1",
            (session.id, day, at),
        ).get
    return row if isinstance(row, int) else None


def _guard(store: Store, session: str, now: int) -> Guard:
    """What was forgotten of a session, asked for an import: the rows themselves count as remembered live."""
    return Guard(store.connection, store.key, store.token(session), "import", now)


def _day(path: str) -> str | None:
    """The day in a day file's name."""
    name = path.rpartition("/")[2].removesuffix(".jsonl")
    return name if len(name) == 10 and name.isascii() else None


def _day_begins(path: str, fallback: int) -> int:
    day = _day(path)
    try:
        return int(datetime.strptime(day or "", "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return fallback


def _within_day(path: str, at: int) -> int:
    """When the turn was recorded, as far as the file tells: at its own time, or on its file's day where they differ.

    Retention counts the day of recording, and that must not become the day of the import.
    """
    day = _day(path)
    return at if day is None or utc_day(at) == day else _day_begins(path, at)
