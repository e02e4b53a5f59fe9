"""Sessions, turns and messages of an export into the store, inside the import's transaction.

A turn is taken with all its messages or not at all. What is here already is recognised by session and ordinal, or
position; what differs is kept as it is here; what was here once and is gone stays away. Called by ``jsonl_import``.
"""

from __future__ import annotations

from typing import Any

import apsw

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_masking as masking
from memory_sqlite.interop.jsonl_forgotten import Forgotten
from memory_sqlite.interop.jsonl_format import Record
from memory_sqlite.interop.jsonl_tally import CONFLICT, Outcome, Tally
from memory_sqlite.model import SessionInfo
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import Row, integer, one_row
from memory_sqlite.storage.store import Store
from memory_sqlite.text.secrets import mask_label
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.identity import run_digest, text_digest
from memory_sqlite.values import dataclass

_TURN = (
    "SELECT id, run_id, advancement_key, arrived_by, at, recorded_at FROM turns WHERE session_id = ? AND ordinal = ?"
)
_MESSAGE = (
    "SELECT id, turn_id, host_id, role, name, sender, text, raw, at, origin, is_tool_output, redactions,"
    " cut_from_bytes FROM messages WHERE session_id = ? AND position = ?"
)


@dataclass
class _Session:
    """The session whose turns are coming. ``turns`` and ``messages`` are how many it had here before."""

    line: Record
    outcome: Outcome
    id: int = 0
    token: str = ""
    turns: int = 0
    messages: int = 0
    grew: bool = False


@dataclass
class _Turn:
    """The turn whose messages are coming; ``messages`` counts its lines while it is not settled what becomes of it."""

    line: Record
    outcome: Outcome
    id: int = 0
    messages: int = 0
    redactions: int = 0


class SessionMerger:
    """One import's sessions. ``refused_sessions`` and ``refused_turns`` say what else cannot rest on them."""

    def __init__(self, store: Store, forgotten: Forgotten, settings: Settings, tally: Tally, *, same_key: bool) -> None:
        self._store = store
        self._connection: apsw.Connection = store.connection
        self._forgotten = forgotten
        self._redact = settings.redact_secrets
        self._tally = tally
        self._same_key = same_key
        self._session: _Session | None = None
        self._turn: _Turn | None = None
        self.refused_sessions: dict[str, Outcome] = {}
        self.refused_turns: dict[tuple[str, int], Outcome] = {}
        self.tokens: dict[str, str] = {}
        """Tokens of the file and what they are here, where that is something else."""

    # --- sessions ----------------------------------------------------------------------------------------------------

    def session(self, line: Record, number: int) -> None:
        """A session begins; those before it are settled."""
        self.finish()
        if self._redact and line["project"] is not None:
            line = {**line, "project": mask_label(line["project"])}
        token = self._store.token(line["key"])
        if token != line["token"]:
            self.tokens[line["token"]] = token
        known = sessions.by_key(self._connection, line["key"])
        if any(self._forgotten.refuses_session(self._store.token(name)) for name in (line["key"], *line["names"])):
            found = _Session(line, "forgotten")
        elif known is None:
            found = self._new_session(line, token)
        elif known.key != line["key"]:
            self._tally.problem("a session's key is a further name of another session here", number)
            found = _Session(line, "conflicts")
        else:
            found = self._known_session(line, known, number)
        if found.outcome in ("conflicts", "forgotten"):
            self.refused_sessions[line["key"]] = found.outcome
        else:
            self._names(found, number)
        self._tally.count(found.outcome, "session")
        self._session = found

    def _new_session(self, line: Record, token: str) -> _Session:
        self._connection.execute(
            "INSERT INTO sessions (key, token, chat_type, kind, sender_is_owner, project, turn_count, message_count,"
            " started_at, active_at, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                line["key"],
                token,
                line["chat_type"],
                line["session_kind"],
                line["sender_is_owner"],
                line["project"],
                line["turn_count"],
                line["message_count"],
                line["started_at"],
                line["active_at"],
                line["recorded_at"],
            ),
        )
        session_id = self._connection.last_insert_rowid()
        if line["rewritten"]:
            self._connection.execute(
                "INSERT INTO transcript_generations (session_id, number) VALUES (?, ?)", (session_id, line["rewritten"])
            )
        return _Session(line, "added", session_id, token)

    def _known_session(self, line: Record, known: sessions.Session, number: int) -> _Session:
        info = SessionInfo(
            line["key"], line["chat_type"], line["session_kind"], line["sender_is_owner"], line["project"]
        )
        try:
            # what is unknown here may become known, by the rule that every host's word is taken by
            sessions.ensure(self._store, info, at=known.active_at, now=known.active_at)
        except errors.SessionConflict:
            self._tally.problem("the session is of another chat type or kind here", number)
            return _Session(line, "conflicts")
        return _Session(line, "present", known.id, known.token, known.turn_count, known.message_count)

    def _names(self, session: _Session, number: int) -> None:
        for name in session.line["names"]:
            other = sessions.by_key(self._connection, name)
            if other is None:
                self._connection.execute(
                    "INSERT INTO session_names (name, session_id) VALUES (?, ?)", (name, session.id)
                )
            elif other.id != session.id:
                self._tally.problem("a further name of the session is another session's here", number)

    # --- turns -------------------------------------------------------------------------------------------------------

    def turn(self, line: Record, number: int) -> None:
        """A turn begins; the one before it is settled."""
        self._settle()
        session = self._session
        assert session is not None, "the check has seen to it that a session comes first"
        plain, line = line, masking.masked_turn(line) if self._redact else line
        self._turn = turn = _Turn(line, session.outcome)
        if session.outcome in ("conflicts", "forgotten"):
            return
        row = one_row(self._connection, _TURN, (session.id, line["ordinal"]))
        if row is not None:
            turn.id, turn.outcome = int(row[0]), _met(row[1:], plain, line)
            if turn.outcome == "updated":
                self._complete(turn)
            if turn.outcome in ("present", "updated"):
                self._accept(turn)
            else:
                self._tally.problem(f"the turn {CONFLICT}", number)
            return
        turn.outcome = self._arrives(session, line, number)
        if turn.outcome == "added":
            self._connection.execute("SAVEPOINT jsonl_turn")
            self._connection.execute(
                "INSERT INTO turns (session_id, ordinal, run_id, advancement_key, arrived_by, at, recorded_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    session.id,
                    line["ordinal"],
                    line["run_id"],
                    line["advancement_key"],
                    line["arrived_by"],
                    line["at"],
                    line["recorded_at"],
                ),
            )
            turn.id = self._connection.last_insert_rowid()

    def _arrives(self, session: _Session, line: Record, number: int) -> Outcome:
        """Whether a turn that is not here may come."""
        if line["ordinal"] <= session.turns:
            return "forgotten"  # the session has had it
        for table, digests in (("accepted_runs", self._runs(line)), ("accepted_advancements", _advancements(line))):
            for digest in digests:
                row = one_row(self._connection, f"SELECT turn_id FROM {table} WHERE digest = ?", (digest,))
                if row is not None:
                    if row[0] is not None:
                        self._tally.problem("the turn was accepted here as another turn", number)
                    return "forgotten" if row[0] is None else "conflicts"
        key = line["advancement_key"]
        if key is not None and integer(
            self._connection, "SELECT EXISTS (SELECT 1 FROM turns WHERE advancement_key = ?)", (key,)
        ):
            self._tally.problem("the turn's advancement key is another turn's here", number)
            return "conflicts"
        return "added"

    def _runs(self, line: Record) -> list[bytes]:
        """The digests of its runs under this store's key, as far as they can be told."""
        session = self._session
        assert session is not None
        found = []
        for digest, part in line["runs"]:
            if part is not None:
                found.append(run_digest(session.token, line["run_id"], part))
            elif self._same_key:
                found.append(bytes.fromhex(digest))
        return found

    def _complete(self, turn: _Turn) -> None:
        """A turn that had come without its run, and was then committed or told of live."""
        self._connection.execute(
            "UPDATE turns SET run_id = coalesce(run_id, ?) WHERE id = ?", (turn.line["run_id"], turn.id)
        )
        self._connection.execute(
            "UPDATE OR IGNORE turns SET advancement_key = coalesce(advancement_key, ?) WHERE id = ?",
            (turn.line["advancement_key"], turn.id),
        )

    def _accept(self, turn: _Turn) -> None:
        """File what the turn was accepted under, for ever."""
        for digest in self._runs(turn.line):
            self._connection.execute("INSERT OR IGNORE INTO accepted_runs VALUES (?, ?)", (digest, turn.id))
        for digest in _advancements(turn.line):
            self._connection.execute("INSERT OR IGNORE INTO accepted_advancements VALUES (?, ?)", (digest, turn.id))
        if not self._same_key:
            unknown = sum(part is None for _, part in turn.line["runs"])
            self._tally.count("left", "accepted_run", unknown)

    # --- messages ----------------------------------------------------------------------------------------------------

    def message(self, line: Record, number: int) -> None:
        """A message of the turn that is coming."""
        session, turn = self._session, self._turn
        assert session is not None and turn is not None, "the check has seen to it that a turn comes first"
        if turn.outcome in ("conflicts", "forgotten"):
            turn.messages += 1
            return
        if turn.outcome in ("present", "updated"):
            self._message_of_known(session, turn, line, number)
            return
        turn.messages += 1
        refusal = self._insert(session, turn, line)
        if refusal is not None:
            if refusal == "conflicts":
                self._tally.problem("the turn's messages are others' here", number)
            self._connection.execute("ROLLBACK TO jsonl_turn")
            self._connection.execute("RELEASE jsonl_turn")
            turn.outcome = refusal

    def _message_of_known(self, session: _Session, turn: _Turn, line: Record, number: int) -> None:
        outcome = self._same(session, turn, line)
        if outcome is None:
            before = turn.redactions
            outcome = self._insert(session, turn, line) or "added"
            if outcome == "added":
                session.grew = True
                self._tally.redactions += turn.redactions - before
        if outcome == "conflicts":
            self._tally.problem(f"the message {CONFLICT}", number)
        self._tally.count(outcome, "message")

    def _same(self, session: _Session, turn: _Turn, line: Record) -> Outcome | None:
        """How the message fares against the one in its place; ``None`` when there is none."""
        row = one_row(self._connection, _MESSAGE, (session.id, line["position"]))
        if row is None:
            return None
        if row[1:] == (turn.id, *_columns(line)):
            return "present"
        masked = masking.masked_message(line)[0] if self._redact else line
        return "present" if row[1:] == (turn.id, *_columns(masked)) else "conflicts"

    def _insert(self, session: _Session, turn: _Turn, line: Record) -> Outcome | None:
        """Store a message, unless it may not come: then nothing of it was stored, and the answer says why not."""
        if line["position"] <= session.messages:
            # somebody else's is there, or the session has had it
            taken = one_row(self._connection, _MESSAGE, (session.id, line["position"])) is not None
            return "conflicts" if taken else "forgotten"
        if self._redact:
            line, found = masking.masked_message(line)
            turn.redactions += found
        if self._forgotten.refuses_message(session.token, line):
            return "forgotten"
        entry_of_other = (
            "SELECT EXISTS (SELECT 1 FROM message_entries WHERE session_id = ? AND entry_id = ? AND way = ?)"
        )
        for entry, way in line["entries"]:
            if entry is not None and integer(self._connection, entry_of_other, (session.id, entry, way)):
                return "conflicts"
        self._connection.execute(
            "INSERT INTO messages (session_id, turn_id, position, host_id, role, name, sender, text, raw, at, origin,"
            " is_tool_output, redactions, cut_from_bytes, text_digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (session.id, turn.id, line["position"], *_columns(line), text_digest(line["role"], line["text"])),
        )
        message_id = self._connection.last_insert_rowid()
        self._connection.executemany(
            "INSERT OR IGNORE INTO message_entries (session_id, entry_id, message_id, way) VALUES (?, ?, ?, ?)",
            [
                (session.id, f"={message_id}" if entry is None else entry, message_id, way)
                for entry, way in line["entries"]
            ],
        )
        change_log.append(self._connection, "message", message_id)
        return None

    # --- ends --------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """The turn before is complete: keep it, and count it and its messages."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        session = self._session
        assert session is not None
        if turn.outcome == "added":
            self._accept(turn)
            self._connection.execute("RELEASE jsonl_turn")
            self._tally.redactions += turn.redactions
            session.grew = True
        elif turn.outcome in ("conflicts", "forgotten"):
            self.refused_turns[session.line["key"], turn.line["ordinal"]] = turn.outcome
        self._tally.count(turn.outcome, "turn")
        self._tally.count(turn.outcome, "message", turn.messages)

    def finish(self) -> None:
        """No more turns of the session: what it counts and when it was active follows what came to it."""
        self._settle()
        session, self._session = self._session, None
        if session is None or session.outcome != "present" or not session.grew:
            return
        line = session.line
        self._connection.execute(
            "UPDATE sessions SET turn_count = max(turn_count, ?), message_count = max(message_count, ?),"
            " active_at = max(active_at, ?) WHERE id = ?",
            (line["turn_count"], line["message_count"], line["active_at"], session.id),
        )


def _met(row: Row, plain: Record, line: Record) -> Outcome:
    """How a turn fares against the one in its place: ``plain`` is the line as it came, ``line`` as it may be stored."""
    run_id, advancement_key, *said = row
    if said != [line["arrived_by"], line["at"], line["recorded_at"]]:
        return "conflicts"
    pairs = [(run_id, {plain["run_id"], line["run_id"]}), (advancement_key, {line["advancement_key"]})]
    if any(here is not None and here not in there and there != {None} for here, there in pairs):
        return "conflicts"
    return "updated" if any(here is None and there != {None} for here, there in pairs) else "present"


def _columns(line: Record) -> tuple[Any, ...]:
    """A message as its row has it, from ``host_id`` to ``cut_from_bytes``."""
    return (
        line["host_id"],
        line["role"],
        line["name"],
        line["sender"],
        line["text"],
        line["raw"],
        line["at"],
        line["origin"],
        int(line["is_tool_output"]),
        line["redactions"],
        line["cut_from_bytes"],
    )


def _advancements(line: Record) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in line["advancements"]]
