"""The views of the store and the index that a query sees: names and columns are promised, tables are not.

Times are ISO 8601 in UTC; beside each, ``…_ms`` is milliseconds since the epoch. Columns are added to a view, never
renamed or dropped; ``docs/query.md`` lists them, and a test compares. Not here: opening files (``opening``), who may
read what (``permitted``).
"""

from __future__ import annotations

from typing import Final

INDEX: Final = "search_index"
"""The name under which the current generation is attached."""


def _time(expression: str, name: str) -> str:
    """Two columns of one time in milliseconds."""
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {expression} / 1000.0, 'unixepoch') AS {name}, {expression} AS {name}_ms"


_RECORD: Final = f"""
    r.record_id AS id, r.layer AS layer, r.kind AS kind, r.content AS content, r.keywords AS keywords,
    s.key AS session, r.sender AS sender, r.run_id AS run_id, r.origin AS origin, r.agent_wide AS agent_wide,
    r.importance AS importance, r.triggers AS triggers, r.projects AS projects, r.slot AS slot, r.value AS value,
    r.polarity AS polarity, r.status AS status, n.record_id AS superseded_by, r.reinforced AS reinforced,
    {_time("r.reinforced_at", "reinforced_time")}, {_time("r.event_at", "time")}, {_time("r.created_at", "created")},
    CASE r.folder WHEN 'agent-profiles' THEN 'agent-profiles/' || r.day || '.jsonl'
      ELSE 'sessions/' || s.token || '/' || r.folder || '/' || r.day || '.jsonl' END AS path, r.ordinal AS line
  FROM main.records r JOIN main.sessions s ON s.id = r.session_id LEFT JOIN main.records n ON n.id = r.superseded_by"""

STORE_VIEWS: Final = {
    "sessions": f"""SELECT s.key AS session, s.token AS token, s.chat_type AS chat_type, s.kind AS kind,
        s.sender_is_owner AS sender_is_owner, s.project AS project, s.turn_count AS turns,
        s.message_count AS messages, {_time("s.started_at", "started")}, {_time("s.active_at", "active")},
        {_time("s.recorded_at", "recorded")} FROM main.sessions s""",
    "turns": f"""SELECT t.id AS id, s.key AS session, t.ordinal AS turn, t.run_id AS run_id,
        t.arrived_by AS arrived_by, (SELECT count(m.id) FROM main.messages m WHERE m.turn_id = t.id) AS messages,
        {_time("t.at", "time")}, {_time("t.recorded_at", "recorded")}
        FROM main.turns t JOIN main.sessions s ON s.id = t.session_id""",
    "messages": f"""SELECT m.id AS id, s.key AS session, t.ordinal AS turn, m.position AS position,
        m.host_id AS message_id, m.role AS role, m.name AS name, m.sender AS sender, m.text AS text, m.raw AS raw,
        m.origin AS origin, m.is_tool_output AS is_tool_output, m.redactions AS redactions,
        m.cut_from_bytes AS cut_from_bytes, {_time("m.at", "time")}, 'sessions/' || s.token AS path
        FROM main.messages m JOIN main.sessions s ON s.id = m.session_id JOIN main.turns t ON t.id = m.turn_id""",
    "records": f"SELECT {_RECORD}",
    "facts": f"SELECT {_RECORD} WHERE r.layer = 'L3' AND r.status = 'active'",
    "record_turns": """SELECT r.record_id AS id, s.key AS session, t.ordinal AS turn, 'source' AS part
        FROM main.records r JOIN main.turns t ON t.id = r.turn_id JOIN main.sessions s ON s.id = t.session_id
        UNION ALL SELECT r.record_id, s.key, t.ordinal, 'further'
        FROM main.record_sources x JOIN main.records r ON r.id = x.record_id JOIN main.turns t ON t.id = x.turn_id
        JOIN main.sessions s ON s.id = t.session_id""",
    "forgotten": f"""SELECT f.kind AS kind, f.reason AS reason, {_time("f.at", "time")} FROM main.tombstones f""",
    "recalls": f"""SELECT c.id AS id, c.way AS way,
        (SELECT count(h.rank) FROM main.recall_hits h WHERE h.recall_id = c.id) AS hits, {_time("c.at", "time")}
        FROM main.recalls c""",
    "recall_hits": """SELECT h.recall_id AS recall, h.rank AS rank, h.path AS path, h.start_line AS start_line,
        h.end_line AS end_line, h.score AS score, h.reference AS reference FROM main.recall_hits h""",
    "generations": f"""SELECT g.number AS number, g.state AS state, {_time("g.created_at", "created")},
        {_time("g.published_at", "published")} FROM main.generations g""",
}
"""Views of the store alone."""

INDEX_VIEWS: Final = {
    "notes": f"""SELECT d.path AS path, d.title AS title, d.size AS bytes,
        (SELECT count(c.id) FROM {INDEX}.chunks c WHERE c.document_id = d.id) AS chunks, d.origin AS origin,
        {_time("(d.mtime_ns / 1000000)", "modified")} FROM {INDEX}.documents d WHERE d.kind = 'note'""",
    "chunks": f"""SELECT d.kind AS kind, d.source AS source, d.layer AS layer, d.path AS path, d.title AS title,
        c.start_line AS start_line, c.end_line AS end_line, c.heading AS heading, c.text AS text, c.tokens AS tokens,
        c.importance AS importance, c.triggers AS triggers, c.projects AS projects, s.key AS session,
        d.origin AS origin, d.role AS role, d.speaker AS speaker, {_time("d.at", "time")}
        FROM {INDEX}.chunks c JOIN {INDEX}.documents d ON d.id = c.document_id
        LEFT JOIN main.sessions s ON s.id = d.session_id""",
}
"""Views of the current generation; without one they are there and empty."""

_INDEX_TABLES: Final = (
    "SELECT NULL AS id, NULL AS kind, NULL AS source, NULL AS path, NULL AS layer, NULL AS title, NULL AS session_id,"
    " NULL AS origin, NULL AS role, NULL AS speaker, NULL AS size, NULL AS mtime_ns, NULL AS at WHERE 0",
    "SELECT NULL AS id, NULL AS document_id, NULL AS start_line, NULL AS end_line, NULL AS text, NULL AS heading,"
    " NULL AS triggers, NULL AS importance, NULL AS projects, NULL AS tokens WHERE 0",
)


def statements(*, with_index: bool) -> dict[str, str]:
    """Name to SELECT of every view; ``with_index`` where a generation is attached."""
    if with_index:
        return STORE_VIEWS | INDEX_VIEWS
    documents, chunks = _INDEX_TABLES
    empty = {
        name: sql.replace(f"{INDEX}.documents d", f"({documents}) d").replace(f"{INDEX}.chunks c", f"({chunks}) c")
        for name, sql in INDEX_VIEWS.items()
    }
    return STORE_VIEWS | empty
