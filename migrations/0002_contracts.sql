-- Version 2: turns committed once for ever, the host's turn outbox, what was recalled for a host, and how often a
-- transcript was rewritten.

-- Which advancement keys were committed, for ever: outlives the turn, as accepted_runs does. The digest is SHA-256.
CREATE TABLE accepted_advancements (
  digest  BLOB PRIMARY KEY CHECK (length(digest) = 32),
  turn_id INTEGER REFERENCES turns (id) ON DELETE SET NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX accepted_advancements_turn ON accepted_advancements (turn_id);

-- Turns that a host has admitted and that their engine has not acknowledged yet, in the order they were enqueued.
-- messages is the inclusive range once it was read; a row is deleted on acknowledgement.
CREATE TABLE turn_outbox (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  advancement_key TEXT    NOT NULL UNIQUE,
  engine_id       TEXT    NOT NULL,
  owner_id        TEXT    NOT NULL,
  session_key     TEXT    NOT NULL,
  session_id      TEXT    NOT NULL,
  state           TEXT    NOT NULL CHECK (state IN ('admitted', 'accepted', 'ready', 'blocked')),
  admission       TEXT    NOT NULL CHECK (json_valid(admission)),
  terminal        TEXT    CHECK (json_valid(terminal)),
  facts           TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(facts)),
  heartbeat       INTEGER NOT NULL DEFAULT 0 CHECK (heartbeat IN (0, 1)),
  attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  reason          TEXT,
  at              INTEGER NOT NULL,
  messages        TEXT    CHECK (json_valid(messages))
) STRICT;
CREATE INDEX turn_outbox_session ON turn_outbox (session_key, seq);

-- That something was recalled, where a host asked for it to be recorded. No text: the query is a digest.
CREATE TABLE recalls (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  query_digest BLOB    NOT NULL CHECK (length(query_digest) = 16),
  way          TEXT    NOT NULL,
  at           INTEGER NOT NULL
) STRICT;
CREATE TABLE recall_hits (
  recall_id  INTEGER NOT NULL REFERENCES recalls (id) ON DELETE CASCADE,
  rank       INTEGER NOT NULL CHECK (rank >= 1),
  reference  TEXT    NOT NULL,
  path       TEXT    NOT NULL,
  start_line INTEGER NOT NULL,
  end_line   INTEGER NOT NULL,
  score      REAL    NOT NULL,
  PRIMARY KEY (recall_id, rank)
) STRICT, WITHOUT ROWID;
CREATE INDEX recall_hits_reference ON recall_hits (reference);

-- How often what a session's transcript shows was changed other than by adding to it (forgotten, grown, taken back).
-- No row means: never. A delta cursor of another number begins anew.
CREATE TABLE transcript_generations (
  session_id INTEGER PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  number     INTEGER NOT NULL CHECK (number >= 1)
) STRICT, WITHOUT ROWID;

-- Further names of a session: a host calls one conversation by its key, and by the id that its transcript's file has.
CREATE TABLE session_names (
  name       TEXT PRIMARY KEY,
  session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX session_names_session ON session_names (session_id);
