"""What of an export depends on ``session.key``, and how it is made anew under another one.

A token is an HMAC of a session's key, a tombstone's subject a keyed digest, an accepted run a digest over a token.
Under another key they mean nothing, unless what they were made of is known too. Called by ``jsonl_export``,
``jsonl_check`` and the merging modules.
"""

from __future__ import annotations

from typing import Final

import apsw

from memory_sqlite import limits
from memory_sqlite.interop.jsonl_format import Record
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts.identity import run_digest

_UNKEYED: Final = ("span", "record")
"""Their subject is no digest."""


def plain_subjects(connection: apsw.Connection, store: Store) -> dict[tuple[str, str], str]:
    """What tombstones of sessions and people stand for, where the name is still in use in this store: a session that
    went on, somebody who goes on speaking. Names that are only in tombstones nobody can know."""
    wanted = {
        (str(kind), str(subject))
        for kind, subject in connection.execute(
            "SELECT DISTINCT kind, subject FROM tombstones WHERE kind IN ('session', 'participant')"
        )
    }
    found: dict[tuple[str, str], str] = {}
    kinds = {kind for kind, _ in wanted}
    if "session" in kinds:
        for (name,) in all_rows(connection, "SELECT key FROM sessions UNION SELECT name FROM session_names"):
            found["session", store.token(name)] = name
    if "participant" in kinds:
        people = "SELECT sender FROM messages UNION SELECT name FROM messages UNION SELECT sender FROM records"
        for (name,) in connection.execute(people):
            if name is not None:
                found["participant", tombstones.participant(store.key, str(name))] = str(name)
    return {subject: found[subject] for subject in wanted if subject in found}


def part_of(digest: bytes, token: str, run_id: str | None, turn_count: int) -> int | None:
    """Which turn of its run a digest stands for, 0-based; ``None`` when it is of a run whose id is not kept."""
    if run_id is None:
        return None
    most = min(turn_count, limits.MESSAGES_PER_CALL_MAX)
    return next((part for part in range(most) if run_digest(token, run_id, part) == digest), None)


def subject_under(store: Store, line: Record, *, same_key: bool) -> str | None:
    """The subject of a tombstone of an export under this store's key; ``None`` when nobody can tell."""
    subject, of = str(line["subject"]), line["of"]
    if same_key or line["subject_kind"] in _UNKEYED:
        return subject
    if of is None:
        return None
    if line["subject_kind"] == "session":
        return store.token(of)
    return tombstones.participant(store.key, of) if line["subject_kind"] == "participant" else None
