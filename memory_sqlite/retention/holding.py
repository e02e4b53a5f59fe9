"""Keeping a session: placing a legal hold or a pin, ending it, telling them.

Arguments are checked here; the rows are ``transcripts.holds``. Called by the door.
"""

from __future__ import annotations

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.retention.reports import HoldReport
from memory_sqlite.storage.failures import translated
from memory_sqlite.storage.store import Store
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.transcripts import holds, sessions
from memory_sqlite.transcripts.holds import Hold, HoldKind
from memory_sqlite.transcripts.sessions import Session


def check_kind(kind: object) -> HoldKind:
    """``legal`` or ``pin``. Raises ``InvalidArgument``."""
    for known in holds.KINDS:
        if kind == known:
            return known
    raise errors.InvalidArgument("kind must be legal or pin")


def hold(store: Store, session: object, kind: HoldKind, reason: object, clock: Clock) -> HoldReport:
    """Keep a session. Raises ``InvalidArgument``, the store's errors, and ``StoreBusy`` while a forgetting is under
    way, of which the session may be a part."""
    said = _reason(reason)
    with store.transaction() as connection:
        row = _find(store, session)
        if connection.execute("SELECT EXISTS (SELECT 1 FROM forgetting_targets)").get:
            raise errors.StoreBusy(
                "a forgetting is under way; nothing can be held until it is done",
                hint="Run `memory-sqlite index`, which finishes it, then hold the session.",
            )
        placed = holds.place(connection, row.id, kind, said, clock.now_ms())
    return HoldReport("held" if placed else "kept", row.key, row.token, kind, said)


def release(store: Store, session: object, kind: HoldKind) -> HoldReport:
    """End a hold or a pin. Raises ``InvalidArgument`` and the store's errors."""
    with store.transaction() as connection:
        row = _find(store, session)
        ended = holds.release(connection, row.id, kind)
    return HoldReport("released" if ended else "free", row.key, row.token, kind)


def listing(store: Store) -> list[Hold]:
    """Every hold and pin, the oldest first; reads only."""
    with store.readers.borrow() as connection, translated("the store"):
        return holds.listing(connection)


def _find(store: Store, session: object) -> Session:
    name = sessions.check_key(session)
    row = sessions.by_key(store.connection, name) or sessions.by_token(store.connection, name)
    if row is None:
        raise errors.InvalidArgument(
            "there is no such session; `memory-sqlite sessions` lists those that are known",
            hint="Name a session by its key, a further name or its token.",
        )
    return row


def _reason(reason: object) -> str | None:
    if reason is None:
        return None
    if (
        not isinstance(reason, str)
        or not reason.strip()
        or len(reason) > limits.HOLD_REASON_MAX_CHARS
        or "\0" in reason
        or valid_unicode(reason) != reason
    ):
        raise errors.InvalidArgument(
            f"reason must be text that is not blank, at most {limits.HOLD_REASON_MAX_CHARS} characters, or absent"
        )
    return reason.strip()
