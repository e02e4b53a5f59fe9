"""Profile facts (L3) that the person's words ask for, read from the store: by slot, by topic, by a one-character value.

Visibility is the same rule as everywhere (``transcripts.audience``), here as SQL over the canonical rows. Only active
facts with a slot are looked at, through their own index, so that a store of a million episodes costs nothing.
Not here: what a question asks for (``intents``), the floor (``relevance``). Called by ``recall.block``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from memory_sqlite.clock import iso
from memory_sqlite.model import Hit
from memory_sqlite.recall.intents import Wanted
from memory_sqlite.search.folding import fold
from memory_sqlite.sources.conversation import record_path
from memory_sqlite.transcripts.audience import Audience

FACTS_LOOKED_AT: Final = 500
"""The newest facts of a kind that one recall reads (measured: 500 rows and the topic test take 3 ms)."""

_HAN: Final = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]")
COLUMNS: Final = (
    "r.record_id, r.content, r.origin, r.folder, r.day, r.ordinal, r.event_at, r.sender, r.run_id, r.importance,"
    " r.triggers, r.projects, s.key, s.token"
)
VISIBLE: Final = (
    "FROM records AS r JOIN sessions AS s ON s.id = r.session_id"
    " WHERE r.status = 'active' AND r.slot IS NOT NULL AND r.layer = 'L3'"
    " AND NOT (r.kind = 'instruction' AND r.origin <> 'owner')"
    # a session may become known as the host's own after its first words
    " AND s.kind NOT IN ('cron', 'heartbeat', 'subagent')"
    " AND (:operator OR r.session_id = :session OR (:private AND r.agent_wide = 1))"
)
_NEWEST: Final = "ORDER BY r.event_at DESC, r.id DESC LIMIT :limit"


def asked_for(store: apsw.Connection, audience: Audience, words: str, wanted: Wanted, limit: int) -> tuple[Hit, ...]:
    """At most ``limit`` facts that the words ask for and this audience may see: identity first, then the newest."""
    found: dict[str, Hit] = {}
    for beginning in wanted.slots:
        for row in _rows(store, audience, beginning, limit):
            found.setdefault(str(row[0]), hit_of(row))
    if wanted.topics or wanted.any_preference:
        for row in _rows(store, audience, "preference:", FACTS_LOOKED_AT):
            if wanted.any_preference or any(topic.is_told_in(str(row[1])) for topic in wanted.topics):
                found.setdefault(str(row[0]), hit_of(row))
    for row in _named(store, audience, words, limit):
        found.setdefault(str(row[0]), hit_of(row))
    return tuple(found.values())[:limit]


def strangers_instructions(store: apsw.Connection, references: Iterable[str]) -> frozenset[str]:
    """Those of the references that are standing instructions of somebody who is not the owner."""
    ids = [reference.removeprefix("record:") for reference in references if reference.startswith("record:")]
    rows = store.execute(
        "SELECT record_id FROM records WHERE record_id IN (SELECT value FROM json_each(?))"
        " AND kind = 'instruction' AND origin <> 'owner'",
        (json.dumps(ids),),
    )
    return frozenset(f"record:{row[0]}" for row in rows)


def bindings_of(audience: Audience, limit: int) -> dict[str, Any]:
    """What ``VISIBLE`` is asked with."""
    return {
        "operator": int(audience.operator),
        "session": audience.session_id,
        "private": int(audience.owner_private),
        "limit": limit,
    }


def _rows(store: apsw.Connection, audience: Audience, beginning: str, limit: int) -> Sequence[tuple[Any, ...]]:
    """The newest visible facts whose slot begins so."""
    return store.execute(
        f"SELECT {COLUMNS} {VISIBLE} AND r.slot >= :first AND r.slot < :last {_NEWEST}",
        {**bindings_of(audience, limit), "first": beginning, "last": beginning + "\U0010ffff"},
    ).fetchall()


def _named(store: apsw.Connection, audience: Audience, words: str, limit: int) -> Sequence[tuple[Any, ...]]:
    """Facts about a single Han character of the words: 茶 is a word that no index of character pairs finds in 喝茶."""
    characters = sorted(set(_HAN.findall(fold(words))))
    if not characters:
        return ()
    slots = [f"{group}:{character}" for character in characters for group in ("preference", "identity:allergy")]
    return store.execute(
        f"SELECT {COLUMNS} {VISIBLE} AND r.slot IN (SELECT value FROM json_each(:slots)) {_NEWEST}",
        {**bindings_of(audience, limit), "slots": json.dumps(slots)},
    ).fetchall()


def hit_of(row: tuple[Any, ...]) -> Hit:
    """The hit of one row of ``COLUMNS``."""
    record_id, content, origin, folder, day, ordinal, event_at, sender, run_id, importance = row[:10]
    triggers, projects, key, token = row[10:]
    path = record_path(folder, token, day)
    provenance: dict[str, Any] = {"origin": origin, "kind": "record", "session": key}
    if sender is not None:
        provenance["sender"] = sender
    if run_id is not None:
        provenance["run_id"] = run_id
    return Hit(
        reference=f"record:{record_id}",
        path=path,
        start_line=ordinal,
        end_line=ordinal,
        excerpt=content,
        matches=(),
        score=1.0,
        source="memory",
        layer="L3",
        citation=f"{path}#L{ordinal}",
        provenance=provenance,
        time=iso(event_at),
        session=key,
        importance=importance,
        triggers=tuple(json.loads(triggers)),
        projects=tuple(json.loads(projects)),
    )
