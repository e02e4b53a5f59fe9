"""Applying the store's change log to a generation: each batch is one transaction there, and says how far it came.

After a crash between a commit in the store and one here, the next pass applies the rest; applying twice changes
nothing, because a document is always replaced whole.
"""

from __future__ import annotations

from typing import Final

import apsw

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Document
from memory_sqlite.processes import prepare
from memory_sqlite.processes.prepare import WordsOf
from memory_sqlite.sources import conversation
from memory_sqlite.storage import change_log
from memory_sqlite.storage.change_log import Change
from memory_sqlite.storage.connection import writing

_BATCH: Final = 2_000
"""Changes a transaction: large enough to amortise it, small enough that nobody waits long for the index's lock."""

_Touched = dict[int, dict[int, str | None]]
"""Positions of messages that were put or deleted, by session, with the words of those that were put."""


def applied(index: apsw.Connection) -> int:
    """The last change number this generation has applied."""
    return int(layout.read_meta(index)["applied_seq"])


def apply_changes(store: apsw.Connection, index: apsw.Connection) -> int:
    """Apply everything the generation has not seen yet; returns how many changes that was."""
    total = 0
    while True:
        with writing(index):
            # read inside the write transaction: two appliers must not both start from the same number
            seq = applied(index)
            changes = change_log.since(store, seq, _BATCH)
            if not changes:
                return total
            _apply_batch(store, index, changes)
            layout.write_meta(index, "applied_seq", changes[-1].seq)
        total += len(changes)
        if len(changes) < _BATCH:
            return total


def _apply_batch(store: apsw.Connection, index: apsw.Connection, changes: list[Change]) -> None:
    sessions = conversation.SessionCache(store)
    touched: _Touched = {}
    for change in change_log.collapsed(changes):
        if change.kind == "message":
            _apply_message(store, index, sessions, change, touched)
        elif change.kind == "record":
            _apply_record(store, index, sessions, change)
        else:
            _apply_session(store, index, sessions, change, touched)
    for session_id, said in touched.items():
        known = {position: words for position, words in said.items() if words is not None}
        rows.refresh_contexts(index, session_id, said, known)


def _apply_message(
    store: apsw.Connection,
    index: apsw.Connection,
    sessions: conversation.SessionCache,
    change: Change,
    touched: _Touched,
) -> None:
    row = conversation.message_row(store, change.target)
    session = sessions.get(row[1]) if row else None
    document = conversation.message_document(row, session) if row and session else None
    if document is None or document.session_id is None or document.position is None:
        place = rows.message_place(index, str(change.target))
        if rows.delete_document(index, "message", str(change.target)) and place is not None:
            touched.setdefault(place[0], {})[place[1]] = None
        return
    _put_message(index, document, touched)


def _apply_record(
    store: apsw.Connection, index: apsw.Connection, sessions: conversation.SessionCache, change: Change
) -> None:
    row = conversation.record_row(store, change.target)
    session = sessions.get(row[5]) if row else None
    document = conversation.record_document(row, session) if row and session else None
    if document is not None:
        rows.put_document(index, document)
    else:
        rows.delete_document(index, "record", str(change.target))


def _apply_session(
    store: apsw.Connection,
    index: apsw.Connection,
    sessions: conversation.SessionCache,
    change: Change,
    touched: _Touched,
) -> None:
    """What a session is has become known: everything said in it is filed under its audience anew."""
    session = sessions.get(change.target)
    if session is None:
        return
    if session.is_internal:
        rows.delete_session(index, session.id)
        return
    for document in conversation.session_documents(store, session):
        if document.kind == "message":
            _put_message(index, document, touched)
        else:
            rows.put_document(index, document)


def _put_message(index: apsw.Connection, document: Document, touched: _Touched) -> None:
    words = prepare.words(WordsOf.of(document))
    rows.put_document(index, document, words)
    if document.session_id is not None and document.position is not None:
        touched.setdefault(document.session_id, {})[document.position] = prepare.whole(words)
