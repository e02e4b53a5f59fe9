-- Version 3: sessions that are kept although they are old, and when sessions were brought in by an import.

-- A pin keeps a session from retention, a legal hold from forgetting too. Without ON DELETE: while either stands, the
-- session's row cannot go, whatever the code that tries.
CREATE TABLE session_holds (
  session_id INTEGER NOT NULL REFERENCES sessions (id),
  kind       TEXT    NOT NULL CHECK (kind IN ('legal', 'pin')),
  reason     TEXT,
  at         INTEGER NOT NULL,
  PRIMARY KEY (session_id, kind)
) STRICT, WITHOUT ROWID;

-- When an import last brought something into a session with the times it had elsewhere, or when a session whose turns
-- have expired was last active: retention counts from then, where its turns tell nothing later.
CREATE TABLE session_imports (
  session_id INTEGER PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
