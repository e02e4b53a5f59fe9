"""Rows of the store as records of the layered-memory product: which keys, in which order, with which ids.

Facts: the product's records, compact JSON, keys in its order, ``senderId`` and ``runId`` left out where there is none.
An id that came from there goes back; others are made from what they stand for, so that two exports agree. Not here:
files and encryption (``layered_export``). Pure but for the reads.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import Any, Final

import apsw

from memory_sqlite.clock import iso
from memory_sqlite.interop.layered_rows import RUN_OF_RECORD
from memory_sqlite.storage.fetch import Row, all_rows

Record = dict[str, Any]

_TYPES: Final = {"L1": "episodic", "L2": "scenario", "L3": "profile"}
_ENTRY: Final = re.compile(r"(.+)#[0-9]+", re.S)
_SIMPLE: Final = frozenset({"role", "content"})
_MESSAGES_SQL: Final = (
    "SELECT id, role, sender, text, raw, at, host_id, name, is_tool_output, position FROM messages WHERE turn_id = ?"
    " AND position > ? ORDER BY position LIMIT ?"
)
_PAGE_OF_TEXTS: Final = 20
"""Rows that may have a megabyte each."""


def turn_line(
    connection: apsw.Connection, agent: str, key: str, token: str, turn: Row, given: set[str], lost: Counter[str]
) -> Record | None:
    """The L0 record of a turn, ``None`` where nothing with words is in it.

    ``turn`` is id, ordinal, run id, time. ``given`` holds the session's run ids and ids of records that were given out:
    there one run is one record, so a further turn of it goes without. ``lost`` counts what the record cannot hold.
    """
    turn_id, ordinal, run_id, at = turn
    messages: list[Record] = []
    sender: str | None = None
    first_message: int | None = None
    last = -1
    while True:
        rows = all_rows(connection, _MESSAGES_SQL, (turn_id, last, _PAGE_OF_TEXTS))
        for row in rows:
            first_message = row[0] if first_message is None else first_message
            role, said_by = row[1], row[2]
            if role == "user" and sender is None and not row[8]:
                sender = said_by
            message = _message(row, at, lost)
            lost["senders"] += said_by is not None and (role != "user" or said_by != sender)
            if message is not None:
                messages.append(message)
        if len(rows) < _PAGE_OF_TEXTS:
            break
        last = rows[-1][9]
    if not messages:
        lost["turns_without_words"] += 1
        return None
    record: Record = {
        "id": _turn_id(connection, token, ordinal, run_id, at, first_message, given),
        "level": "L0",
        "type": "conversation",
        "agentId": agent,
        "sessionKey": key,
    }
    if sender is not None:
        record["senderId"] = sender
    if run_id is not None and not run_id.startswith(RUN_OF_RECORD):
        if f"run:{run_id}" in given:
            lost["runs_of_several_turns"] += 1
        else:
            given.add(f"run:{run_id}")
            record["runId"] = run_id
    return {**record, "messages": messages, "createdAt": iso(at)}


def _message(row: Row, turn_at: int, lost: Counter[str]) -> Record | None:
    """A message as there: role and words. What else it has is counted."""
    _, role, _, text, raw, at, host_id, name, is_tool_output, _ = row
    if not text.strip():
        lost["messages_without_words"] += 1
        return None
    lost["message_times"] += at != turn_at
    lost["message_ids"] += host_id is not None
    lost["message_names"] += name is not None
    value = json.loads(raw)
    simple = isinstance(value, dict) and value.keys() <= _SIMPLE
    lost["raw_records"] += not simple
    if simple and isinstance(value.get("content"), str) and isinstance(value.get("role"), str):
        return {"role": value["role"], "content": value["content"]}  # as it was given, trimmed by nobody
    return {"role": "tool" if is_tool_output else role, "content": text}


def _turn_id(
    connection: apsw.Connection,
    token: str,
    ordinal: int,
    run_id: str | None,
    at: int,
    message: int | None,
    given: set[str],
) -> str:
    """The id that the record had there, unless another one of the session has it; else one made of its place."""
    found: str | None = None
    if run_id is not None and run_id.startswith(RUN_OF_RECORD):
        found = run_id.removeprefix(RUN_OF_RECORD)
    else:
        sql = "SELECT entry_id FROM message_entries WHERE message_id = ? AND way = 'remember' ORDER BY entry_id"
        entries = (_ENTRY.fullmatch(entry_id) for (entry_id,) in all_rows(connection, sql, (message,)))
        found = next((match[1] for match in entries if match is not None), None)
    if found is None or found in given:
        found = f"{at}_{hashlib.sha256(f'{token}:{ordinal}'.encode()).hexdigest()[:12]}"
    given.add(found)
    return found


RECORD_SQL: Final = (
    "SELECT r.folder, r.day, r.ordinal, r.record_id, r.layer, r.content, r.keywords, s.key, r.sender, r.run_id,"
    " r.created_at, r.status FROM records r JOIN sessions s ON s.id = r.session_id"
)


def record_line(agent: str, row: Row) -> Record:
    """The record of a row of ``RECORD_SQL``."""
    _, _, _, record_id, layer, content, keywords, key, sender, run_id, created_at, _ = row
    record: Record = {
        "id": record_id,
        "level": layer,
        "type": _TYPES[layer],
        "content": content,
        "keywords": json.loads(keywords),
        "agentId": agent,
        "sessionKey": key,
    }
    if sender is not None:
        record["senderId"] = sender
    if run_id is not None:
        record["runId"] = run_id
    record["createdAt"] = iso(created_at)
    return record


_ACTIVE: Final = "SELECT count(*) FROM records WHERE status = 'active' AND"
_LOST: Final = {
    "superseded_records": "SELECT count(*) FROM records WHERE status = 'superseded'",
    "importance": f"{_ACTIVE} importance IS NOT NULL",
    "triggers": f"{_ACTIVE} triggers <> '[]'",
    "projects": f"{_ACTIVE} projects <> '[]'",
    "slots": f"{_ACTIVE} slot IS NOT NULL",
    "reinforced": f"{_ACTIVE} reinforced > 1",
    "agent_wide": f"{_ACTIVE} agent_wide = 1 AND folder <> 'agent-profiles'",
    "record_sources": "SELECT count(*) FROM record_sources",
    "session_names": "SELECT count(*) FROM session_names",
    "session_projects": "SELECT count(*) FROM sessions WHERE project IS NOT NULL",
    "session_owners": "SELECT count(*) FROM sessions WHERE sender_is_owner IS NOT NULL",
    "session_holds": "SELECT count(*) FROM session_holds",
    "tombstones": "SELECT count(*) FROM tombstones",
    "accepted_runs": "SELECT count(*) FROM accepted_runs WHERE turn_id IS NULL",
    "advancements": "SELECT count(*) FROM accepted_advancements",
    "waiting_turns": "SELECT count(*) FROM turn_outbox",
    "recalls": "SELECT count(*) FROM recalls",
}
"""What no record there can hold, and how much of it there is."""


def lost_of_store(connection: apsw.Connection) -> Counter[str]:
    """What no record of that product can hold, counted over the whole store."""
    return Counter({kind: int(str(connection.execute(sql).get)) for kind, sql in _LOST.items()})
