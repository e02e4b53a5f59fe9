"""Rows of ``sessions``: what a session is, who may see it, how it is found by key or token."""

from __future__ import annotations

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.model import CHAT_TYPES, INTERNAL_KINDS, SESSION_KINDS, ChatType, SessionInfo, SessionKind
from memory_sqlite.storage import change_log
from memory_sqlite.storage.store import Store
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.values import dataclass

_COLUMNS = "id, key, token, chat_type, kind, sender_is_owner, project, turn_count, message_count, started_at, active_at"


@dataclass(frozen=True, slots=True)
class Session:
    """One row of ``sessions``."""

    id: int
    key: str
    token: str
    chat_type: ChatType
    kind: SessionKind
    sender_is_owner: bool | None
    project: str | None
    turn_count: int
    message_count: int
    started_at: int
    active_at: int

    @property
    def owner_private(self) -> bool:
        """True for the owner's direct sessions: they may read, and are read with, what is owner-private."""
        return self.chat_type == "direct" and self.sender_is_owner is True

    @property
    def is_internal(self) -> bool:
        """True for cron, heartbeat and sub-agent sessions, which make no L1 to L3 and are not indexed."""
        return self.kind in INTERNAL_KINDS


def _session(row: tuple[object, ...]) -> Session:
    values = list(row)
    values[5] = None if values[5] is None else bool(values[5])
    return Session(*values)  # type: ignore[arg-type]


def check_key(key: object) -> str:
    """A session key as given by a host: trimmed, not blank, bounded. Raises ``InvalidArgument``."""
    if not isinstance(key, str):
        raise errors.InvalidArgument("session must be a string")
    trimmed = key.strip()
    if not trimmed:
        raise errors.InvalidArgument("session must not be blank")
    try:
        size = len(trimmed.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise errors.InvalidArgument("session must be valid Unicode") from error
    if size > limits.SESSION_KEY_MAX_BYTES:
        raise errors.InvalidArgument(f"session must be at most {limits.SESSION_KEY_MAX_BYTES} bytes of UTF-8")
    if "\0" in trimmed:
        raise errors.InvalidArgument("session must not contain NUL")
    return trimmed


def check_info(info: SessionInfo) -> SessionInfo:
    """Validate what is said about a session. Raises ``InvalidArgument`` naming the field."""
    if info.chat_type is not None and info.chat_type not in CHAT_TYPES:
        raise errors.InvalidArgument(f"chat_type must be one of {', '.join(CHAT_TYPES)}")
    if info.kind is not None and info.kind not in SESSION_KINDS:
        raise errors.InvalidArgument(f"kind must be one of {', '.join(SESSION_KINDS)}")
    if info.sender_is_owner is not None and not isinstance(info.sender_is_owner, bool):
        raise errors.InvalidArgument("sender_is_owner must be true, false or absent")
    if info.project is not None and (
        not isinstance(info.project, str) or not info.project.strip() or valid_unicode(info.project) != info.project
    ):
        raise errors.InvalidArgument("project must be a string that is not blank, or absent")
    return info


def by_key(connection: apsw.Connection, key: str) -> Session | None:
    """The session of a key, or of a further name that a host gave it (``names``); ``None`` when there is none."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE key = ?", (key,)).fetchone()
    if row is None:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM sessions WHERE id = (SELECT session_id FROM session_names WHERE name = ?)", (key,)
        ).fetchone()
    return _session(row) if row else None


def by_id(connection: apsw.Connection, session_id: int) -> Session | None:
    """The session of a row id, or ``None``."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return _session(row) if row else None


def by_token(connection: apsw.Connection, token: str) -> Session | None:
    """The session of a 32-hex token, or ``None``."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE token = ?", (token,)).fetchone()
    return _session(row) if row else None


def listing(connection: apsw.Connection, limit: int, offset: int = 0) -> list[Session]:
    """Sessions, the most recently active first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions ORDER BY active_at DESC, id DESC LIMIT ? OFFSET ?", (limit, offset)
    )
    return [_session(row) for row in rows]


def visible(
    connection: apsw.Connection, session_id: int | None, owner_private: bool, limit: int, offset: int
) -> list[Session]:
    """Sessions in which people said what an audience (``audience.Audience``) may see, the latest active first."""
    internal = ", ".join(f"'{kind}'" for kind in sorted(INTERNAL_KINDS))
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE kind NOT IN ({internal}) AND message_count > 0"
        " AND (id = ? OR (? AND chat_type = 'direct' AND sender_is_owner = 1))"
        " ORDER BY active_at DESC, id DESC LIMIT ? OFFSET ?",
        (session_id, owner_private, limit, offset),
    )
    return [_session(row) for row in rows]


def ensure(store: Store, info: SessionInfo, *, at: int, now: int) -> Session:
    """The session's row, made or completed with what is newly known, inside the caller's transaction.

    What is unknown may become known; what is known does not change: that would move what was said in private into a
    room, or the reverse. One exception is safe: an owner's session whose sender turns out not to be the owner.

    Raises ``SessionConflict``.
    """
    connection = store.connection
    existing = by_key(connection, info.key)
    if existing is None:
        connection.execute(
            "INSERT INTO sessions (key, token, chat_type, kind, sender_is_owner, project, started_at, active_at,"
            " recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                info.key,
                store.token(info.key),
                info.chat_type or "unknown",
                info.kind or "unknown",
                None if info.sender_is_owner is None else int(info.sender_is_owner),
                info.project,
                info.started_at if info.started_at is not None else at,
                at,
                now,
            ),
        )
        created = by_id(connection, connection.last_insert_rowid())
        assert created is not None
        return created
    chat_type = _settled("chat_type", existing.chat_type, info.chat_type)
    kind = _settled("kind", existing.kind, info.kind)
    owner = existing.sender_is_owner
    if info.sender_is_owner is not None and owner is not False:
        # in a room many people speak; there the session's flag means nothing and stays what it was first
        owner = info.sender_is_owner if owner is None or chat_type == "direct" else owner
    project = existing.project if existing.project is not None else info.project
    if (chat_type, kind, owner, project) == (
        existing.chat_type,
        existing.kind,
        existing.sender_is_owner,
        existing.project,
    ):
        return existing
    connection.execute(
        "UPDATE sessions SET chat_type = ?, kind = ?, sender_is_owner = ?, project = ? WHERE id = ?",
        (chat_type, kind, None if owner is None else int(owner), project, existing.id),
    )
    change_log.append(connection, "session", existing.id)
    updated = by_id(connection, existing.id)
    assert updated is not None
    return updated


def fits(session: Session, info: SessionInfo) -> bool:
    """Whether what is said of a session may be said of this one: ``ensure`` would not refuse it."""
    said = ((session.chat_type, info.chat_type), (session.kind, info.kind))
    return all(new in (None, "unknown", known) or known == "unknown" for known, new in said)


def _settled(field: str, known: str, said: str | None) -> str:
    if said is None or said == "unknown" or said == known:
        return known
    if known == "unknown":
        return said
    raise errors.SessionConflict(f"the session is known with {field} {known}; it cannot become {said}")
