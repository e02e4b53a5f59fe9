"""The other rows of an export into the store: what was accepted and is gone, turns that wait for a host's engine, and
what was recalled. Inside the import's transaction. Called by ``jsonl_import``, after the records.
"""

from __future__ import annotations

import re
from typing import Any, Final

import apsw

from memory_sqlite import limits
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_masking as masking
from memory_sqlite.interop.jsonl_export import dump
from memory_sqlite.interop.jsonl_forgotten import Forgotten
from memory_sqlite.interop.jsonl_format import Record
from memory_sqlite.interop.jsonl_sessions import SessionMerger
from memory_sqlite.interop.jsonl_tally import CONFLICT, Tally
from memory_sqlite.storage.fetch import all_rows, integer, one_row
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import holds, sessions

_OUTBOX: Final = (
    "engine_id, owner_id, session_key, session_id, state, admission, terminal, facts, heartbeat, attempts, reason, at,"
    " messages"
)
_TRANSCRIPT: Final = re.compile(r"(sessions/)([0-9a-f]{32})(?=/|$)", re.ASCII)


class RestMerger:
    """One import's other rows."""

    def __init__(
        self,
        store: Store,
        forgotten: Forgotten,
        merged: SessionMerger,
        settings: Settings,
        tally: Tally,
        *,
        same_key: bool,
    ) -> None:
        self._store = store
        self._connection: apsw.Connection = store.connection
        self._forgotten = forgotten
        self._merged = merged
        self._redact = settings.redact_secrets
        self._tally = tally
        self._same_key = same_key

    def accepted_run(self, line: Record, number: int) -> None:
        """A run whose turn is gone. Under another key nobody can tell which run it was."""
        if not self._same_key:
            self._tally.count("left", "accepted_run")
            return
        self._accepted("accepted_runs", "accepted_run", line)

    def accepted_advancement(self, line: Record, number: int) -> None:
        """A committed turn that is gone; its digest depends on no key."""
        self._accepted("accepted_advancements", "accepted_advancement", line)

    def _accepted(self, table: str, kind: str, line: Record) -> None:
        self._connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, NULL)", (bytes.fromhex(line["digest"]),))
        self._tally.count("added" if self._connection.changes() else "present", kind)

    def outbox(self, line: Record, number: int) -> None:
        """A turn that waits for its engine."""
        row = one_row(
            self._connection,
            f"SELECT {_OUTBOX} FROM turn_outbox WHERE advancement_key = ?",
            (line["advancement_key"],),
        )
        if row is not None:
            candidates = [_waiting(line), _waiting(self._masked(line))]
            same = tuple(row) in candidates
            if not same:
                self._tally.problem(f"the waiting turn {CONFLICT}", number)
            self._tally.count("present" if same else "conflicts", "outbox")
            return
        tokens = {self._store.token(line[name]) for name in ("session_key", "session_id")}
        if any(self._forgotten.refuses_moment(token, line["at"], None) for token in tokens):
            self._tally.count("forgotten", "outbox")
            return
        marks = ", ".join("?" * 14)
        self._connection.execute(
            f"INSERT INTO turn_outbox (advancement_key, {_OUTBOX}) VALUES ({marks})",
            (line["advancement_key"], *_waiting(self._masked(line))),
        )
        self._tally.count("added", "outbox")

    def _masked(self, line: Record) -> Record:
        if not self._redact:
            return line
        kept = {name: masking.masked_value(line[name]) for name in ("facts", "messages") if line[name] is not None}
        return {**line, **kept}

    def recall(self, line: Record, number: int) -> None:
        """One recorded recall; hits of what did not come are not in it."""
        digest = bytes.fromhex(line["query_digest"])
        hits = [hit for hit in map(self._hit, line["hits"]) if hit is not None]
        rows = all_rows(
            self._connection,
            "SELECT id FROM recalls WHERE query_digest = ? AND way = ? AND at = ?",
            (digest, line["way"], line["at"]),
        )
        sql = (
            "SELECT rank, reference, path, start_line, end_line, score FROM recall_hits WHERE recall_id = ?"
            " ORDER BY rank"
        )
        if any([tuple(hit) for hit in all_rows(self._connection, sql, row)] == hits for row in rows):
            self._tally.count("present", "recall")
            return
        if line["hits"] and not hits:
            self._tally.count("forgotten", "recall")
            return
        self._connection.execute(
            "INSERT INTO recalls (query_digest, way, at) VALUES (?, ?, ?)", (digest, line["way"], line["at"])
        )
        recall_id = self._connection.last_insert_rowid()
        self._connection.executemany(
            "INSERT INTO recall_hits VALUES (?, ?, ?, ?, ?, ?, ?)", [(recall_id, *hit) for hit in hits]
        )
        self._tally.count("added", "recall")

    def hold(self, line: Record, number: int) -> None:
        """A session that is kept: it is kept here too, where it came. One that is kept here stays so."""
        outcome = self._merged.refused_sessions.get(line["session"])
        row = sessions.by_key(self._connection, line["session"])
        if outcome is not None or row is None:
            self._tally.count(outcome or "forgotten", "hold")
            return
        kept = one_row(
            self._connection,
            "SELECT reason, at FROM session_holds WHERE session_id = ? AND kind = ?",
            (row.id, line["hold_kind"]),
        )
        if kept is None:
            holds.place(self._connection, row.id, line["hold_kind"], line["reason"], line["at"])
            self._tally.count("added", "hold")
        elif kept == (line["reason"], line["at"]):
            self._tally.count("present", "hold")
        else:
            self._tally.problem(f"the hold {CONFLICT}", number)
            self._tally.count("conflicts", "hold")

    def _hit(self, hit: Record) -> tuple[Any, ...] | None:
        reference = hit["reference"]
        if hit["message"] is not None:
            row = one_row(
                self._connection,
                "SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.key = ? AND m.position = ?",
                tuple(hit["message"]),
            )
            if row is None:
                return None
            reference = f"message:{row[0]}"
        elif reference.startswith("record:"):
            known = "SELECT EXISTS (SELECT 1 FROM records WHERE record_id = ?)"
            if not integer(self._connection, known, (reference.removeprefix("record:"),)):
                return None
        tokens = self._merged.tokens
        path = _TRANSCRIPT.sub(lambda match: match[1] + tokens.get(match[2], match[2]), hit["path"], count=1)
        return (hit["rank"], reference, path, hit["start_line"], hit["end_line"], float(hit["score"]))

    def finish(self) -> None:
        """No more rows: of more recalls than are kept the oldest go, as when one is recorded."""
        if self._tally.counts["added"]["recall"]:
            self._connection.execute(
                "DELETE FROM recalls WHERE id <= (SELECT max(id) FROM recalls) - ?", (limits.RECALLS_KEPT,)
            )


def _waiting(line: Record) -> tuple[Any, ...]:
    """A waiting turn as ``_OUTBOX`` has it."""
    return (
        line["engine_id"],
        line["owner_id"],
        line["session_key"],
        line["session_id"],
        line["state"],
        _json(line["admission"]),
        _json(line["terminal"]),
        _json(line["facts"]),
        int(line["heartbeat"]),
        line["attempts"],
        line["reason"],
        line["at"],
        _json(line["messages"]),
    )


def _json(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else dump(value)
