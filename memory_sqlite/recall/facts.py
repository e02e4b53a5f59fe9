"""Facts by their names: the pinned ones, those that the words name, and nothing else.

In force, visible to whoever asks, in scope. A fact stated with scopes holds in those only, one without holds
everywhere; what was found in talk holds everywhere, and its name is its value ("I prefer TypeScript": TypeScript).
A fact that states a relation brings the facts it names, one step far. The store is read, never the index, so that an
answer depends on nothing but facts and words. Not here: when words name a fact (``naming``), facts asked for by a
question's form (``intents``, ``profile``). Called by the door and by ``recall.block``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.layers.labels import PINNED, SLOT_PREFIX, check_scopes
from memory_sqlite.model import Hit
from memory_sqlite.recall.naming import Naming, Phrase, is_everyday, name_of, words_of
from memory_sqlite.recall.profile import COLUMNS, VISIBLE, bindings_of, hit_of
from memory_sqlite.text.units import cut_utf16
from memory_sqlite.transcripts import audience, sessions
from memory_sqlite.transcripts.audience import Audience
from memory_sqlite.values import dataclass

_IN_SCOPE: Final = (
    f" AND (:anywhere OR r.projects = '[]' OR r.slot NOT GLOB '{SLOT_PREFIX}*' OR EXISTS"
    " (SELECT 1 FROM json_each(r.projects) AS p WHERE p.value IN (SELECT value FROM json_each(:scopes))))"
)
_NAMES: Final = (
    f"SELECT r.id, r.triggers, r.slot, r.value, r.kind, r.importance, r.origin {VISIBLE}{_IN_SCOPE}"
    f" AND (:found_too OR r.slot GLOB '{SLOT_PREFIX}*')"
    f" ORDER BY r.slot GLOB '{SLOT_PREFIX}*' DESC, r.event_at DESC, r.id DESC LIMIT :limit"
)
"""Stated facts first: where there are more facts than are looked at, those found in talk are left."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Profile facts by their names: ``pinned`` ones always, ``named`` ones because the words name them; nothing else.

    A hit's ``provenance["fact"]`` says what it is (preference, decision, question, ...). ``left_off`` named facts found
    no room in ``max_results``. Without a query (``None``) ``named`` holds all that are not pinned.
    """

    query: str | None
    pinned: tuple[Hit, ...]
    named: tuple[Hit, ...]
    left_off: int = 0
    warnings: tuple[str, ...] = ()
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class _Fact:
    """What is looked at of every fact; its text is read when it is wanted."""

    id: int
    names: tuple[Phrase, ...]
    kind: str
    is_stated: bool
    is_pinned: bool


def answer(opened: Opened, query: object, session: str | None, scopes: object, max_results: object) -> Facts:
    """What ``Memory.facts`` answers, its arguments checked. Raises ``InvalidArgument``."""
    if query is not None and not isinstance(query, str):
        raise errors.InvalidArgument("query must be a string, or None for every fact")
    most = limits.FACTS_DEFAULT if max_results is None else max_results
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= limits.FACTS_MAX:
        raise errors.InvalidArgument(f"max_results must be an integer between 1 and {limits.FACTS_MAX}")
    with opened.store.readers.borrow() as store:
        viewer = audience.of_session(store, session)
        return facts(store, viewer, query, scopes_of(store, session, scopes), most)


def scopes_of(store: apsw.Connection, session: str | None, scopes: object) -> tuple[str, ...] | None:
    """The scopes that are asked for: those given, else the session's project; ``None`` is every scope.

    Raises ``InvalidArgument``.
    """
    if scopes is not None:
        return check_scopes(scopes)
    row = sessions.by_key(store, session) if session is not None else None
    return (row.project,) if row is not None and row.project is not None else None


def facts(
    store: apsw.Connection,
    viewer: Audience,
    words: str | None,
    scopes: tuple[str, ...] | None,
    max_results: int,
    *,
    stated_only: bool = False,
) -> Facts:
    """Every pinned fact, then those that the words name (or all), as many as ``max_results`` leaves room for: stated
    ones and the newest first, and pinned ones that are named before those that are not.

    Pinned facts count, and are never left out for it. ``left_off`` says how many named ones found no room.
    ``stated_only`` leaves out what was found in talk.
    """
    known, more = _read(store, viewer, scopes, stated_only)
    found = known if words is None else _named(store, known, cut_utf16(words, limits.RECALL_QUERY_UNITS))
    named = [fact for fact in found if not fact.is_pinned]
    pinned = list({fact.id: fact for fact in (*found, *known) if fact.is_pinned}.values())
    room = max(0, max_results - len(pinned))
    return Facts(
        words,
        _hits(store, pinned),
        _hits(store, named[:room]),
        left_off=max(0, len(named) - room),
        warnings=(f"only the newest {limits.FACTS_LOOKED_AT_MAX} facts were looked at",) if more else (),
    )


def unasked(
    store: apsw.Connection, scopes: tuple[str, ...] | None, asked: Facts, hits: Sequence[Hit]
) -> frozenset[str]:
    """Those of the hits that are stated facts and must not be put before a prompt: out of scope, or with names none of
    which stands in the words. Whoever names a fact says by what it is to be found."""
    wanted = {hit.reference for hit in (*asked.pinned, *asked.named)}
    ids = [hit.reference.removeprefix("record:") for hit in hits if hit.layer == "L3" and hit.reference not in wanted]
    rows = store.execute(
        "SELECT r.record_id FROM records AS r WHERE r.record_id IN (SELECT value FROM json_each(:ids))"
        f" AND r.slot GLOB '{SLOT_PREFIX}*' AND (r.triggers <> '[]' OR NOT (1{_IN_SCOPE}))",
        {"ids": json.dumps(ids), **_scope_bindings(scopes)},
    )
    return frozenset(f"record:{row[0]}" for row in rows)


def _scope_bindings(scopes: tuple[str, ...] | None) -> Mapping[str, Any]:
    return {"anywhere": int(scopes is None), "scopes": json.dumps(scopes or ())}


def _read(
    store: apsw.Connection, viewer: Audience, scopes: tuple[str, ...] | None, stated_only: bool
) -> tuple[list[_Fact], bool]:
    """The facts in force, visible and in scope, and whether there are more than are looked at."""
    bindings = {**bindings_of(viewer, limits.FACTS_LOOKED_AT_MAX + 1), **_scope_bindings(scopes)}
    rows = store.execute(_NAMES, {**bindings, "found_too": int(not stated_only)}).fetchall()
    return [_fact(row) for row in rows[: limits.FACTS_LOOKED_AT_MAX]], len(rows) > limits.FACTS_LOOKED_AT_MAX


def _fact(row: tuple[Any, ...]) -> _Fact:
    row_id, triggers, slot, value, kind, importance, origin = row
    names = [name_of(name) for name in json.loads(triggers)] if triggers != "[]" else []
    if value is not None and not is_everyday(told := name_of(value)):
        names.append(told)
    return _Fact(row_id, tuple(names), kind, slot.startswith(SLOT_PREFIX), importance == PINNED and origin == "owner")


def _named(store: apsw.Connection, known: Sequence[_Fact], words: str) -> list[_Fact]:
    """Facts that the words name, or that a relation they name speaks of."""
    names = [name for fact in known for name in fact.names]

    def is_known(word: str) -> bool:
        return any(word in words_of(text) for text in _texts(store, [fact.id for fact in known], word))

    naming = Naming(words, names, is_known)
    found = {fact.id: fact for fact in known if any(map(naming.holds, fact.names))}
    relations = [fact.id for fact in found.values() if fact.kind == "relation"]
    for text in _texts(store, relations):
        spoken_of = Naming(text, names, lambda word: True)
        for other in known:
            if other.is_stated and any(map(spoken_of.holds, other.names)):
                found.setdefault(other.id, other)
    return list(found.values())


def _texts(store: apsw.Connection, ids: Sequence[int], word: str = "") -> list[str]:
    """What facts say: of each, or of those in which a word may stand."""
    rows = store.execute(
        "SELECT content FROM records WHERE id IN (SELECT value FROM json_each(?1)) AND content LIKE ?2",
        # LIKE folds the case of ASCII letters only: for others everything is looked at
        (json.dumps(ids), f"%{word}%" if word.isascii() else "%"),
    )
    return [str(content) for (content,) in rows]


def _hits(store: apsw.Connection, wanted: Sequence[_Fact]) -> tuple[Hit, ...]:
    """The hits of facts, in their order."""
    rows = store.execute(
        f"SELECT {COLUMNS}, r.id, r.kind FROM records AS r JOIN sessions AS s ON s.id = r.session_id"
        " WHERE r.id IN (SELECT value FROM json_each(?))",
        (json.dumps([fact.id for fact in wanted]),),
    )
    found: dict[object, Hit] = {}
    for *columns, row_id, kind in rows:
        hit = hit_of(tuple(columns))
        found[row_id] = replace(hit, provenance={**hit.provenance, "fact": kind})
    # one that was forgotten since its name was read is not there any more
    return tuple(found[fact.id] for fact in wanted if fact.id in found)
