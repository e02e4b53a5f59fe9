-- The schema of memory.sqlite as it is after every migration: the file to read. Nothing executes it but its test, which
-- holds that a store made by the numbered scripts has exactly these tables and indexes.

-- Times are milliseconds since the epoch, UTC. Every table is STRICT.
-- AUTOINCREMENT where a number may outlive its row: in a generation, in a reference that a host has kept.
-- Canonical rows: migrated, never rebuilt. What can be computed again lives in the generations' own files.

CREATE TABLE store_info (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One conversation. What a session is (chat_type, kind, owner) decides who may see what was said in it.
CREATE TABLE sessions (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  key             TEXT    NOT NULL UNIQUE,
  token           TEXT    NOT NULL UNIQUE,
  chat_type       TEXT    NOT NULL DEFAULT 'unknown' CHECK (chat_type IN ('direct', 'group', 'channel', 'unknown')),
  kind            TEXT    NOT NULL DEFAULT 'unknown' CHECK (kind IN ('interactive', 'cron', 'heartbeat', 'subagent', 'unknown')),
  sender_is_owner INTEGER CHECK (sender_is_owner IN (0, 1)),
  project         TEXT,
  turn_count      INTEGER NOT NULL DEFAULT 0 CHECK (turn_count >= 0),
  message_count   INTEGER NOT NULL DEFAULT 0 CHECK (message_count >= 0),
  started_at      INTEGER NOT NULL,
  active_at       INTEGER NOT NULL,
  recorded_at     INTEGER NOT NULL
) STRICT;

-- One accepted exchange. ordinal counts the session's turns for ever, also over deleted ones.
CREATE TABLE turns (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id      INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  ordinal         INTEGER NOT NULL CHECK (ordinal >= 1),
  run_id          TEXT,
  advancement_key TEXT UNIQUE,
  arrived_by      TEXT    NOT NULL,
  at              INTEGER NOT NULL,
  recorded_at     INTEGER NOT NULL,
  UNIQUE (session_id, ordinal)
) STRICT;

-- Which runs were accepted, for ever: outlives the turn, so that a replay after retention or forgetting adds nothing.
-- The digest is SHA-256 over token, NUL, run id and the turn's place in the run.
CREATE TABLE accepted_runs (
  digest  BLOB PRIMARY KEY CHECK (length(digest) = 32),
  turn_id INTEGER REFERENCES turns (id) ON DELETE SET NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX accepted_runs_turn ON accepted_runs (turn_id);

-- L0: one utterance. text is what is shown and searched, raw the host's own record.
CREATE TABLE messages (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id        INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
  position       INTEGER NOT NULL CHECK (position >= 1),
  host_id        TEXT,
  role           TEXT    NOT NULL,
  name           TEXT,
  sender         TEXT,
  text           TEXT    NOT NULL,
  raw            TEXT    NOT NULL,
  at             INTEGER NOT NULL,
  origin         TEXT    NOT NULL CHECK (origin IN ('owner', 'agent', 'untrusted', 'system')),
  is_tool_output INTEGER NOT NULL DEFAULT 0 CHECK (is_tool_output IN (0, 1)),
  redactions     INTEGER NOT NULL DEFAULT 0,
  cut_from_bytes INTEGER,
  text_digest    BLOB    NOT NULL CHECK (length(text_digest) = 16),
  UNIQUE (session_id, position)
) STRICT;
CREATE INDEX messages_turn ON messages (turn_id);
CREATE INDEX messages_host ON messages (session_id, host_id) WHERE host_id IS NOT NULL;
CREATE INDEX messages_digest ON messages (session_id, text_digest);

-- Each transcript entry and each way of arrival that a message was built from: one entry belongs to one message.
CREATE TABLE message_entries (
  session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  entry_id   TEXT    NOT NULL,
  message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  way        TEXT    NOT NULL,
  PRIMARY KEY (session_id, entry_id, way)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_entries_message ON message_entries (message_id);

-- L1 to L3. A superseded record stays readable; it is not searched. day and ordinal make its virtual path and line.
CREATE TABLE records (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  record_id     TEXT    NOT NULL UNIQUE,
  layer         TEXT    NOT NULL CHECK (layer IN ('L1', 'L2', 'L3')),
  kind          TEXT,
  content       TEXT    NOT NULL,
  keywords      TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(keywords)),
  session_id    INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id       INTEGER REFERENCES turns (id) ON DELETE SET NULL,
  sender        TEXT,
  run_id        TEXT,
  origin        TEXT    NOT NULL CHECK (origin IN ('owner', 'agent', 'untrusted', 'system')),
  agent_wide    INTEGER NOT NULL DEFAULT 0 CHECK (agent_wide IN (0, 1)),
  importance    INTEGER CHECK (importance BETWEEN 1 AND 10),
  triggers      TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(triggers)),
  projects      TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(projects)),
  slot          TEXT,
  value         TEXT,
  polarity      INTEGER NOT NULL DEFAULT 1 CHECK (polarity IN (-1, 1)),
  status        TEXT    NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'superseded')),
  superseded_by INTEGER REFERENCES records (id) ON DELETE SET NULL,
  reinforced    INTEGER NOT NULL DEFAULT 1 CHECK (reinforced >= 1),
  reinforced_at INTEGER,
  day           TEXT    NOT NULL CHECK (day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'),
  folder        TEXT    NOT NULL CHECK (folder IN ('memories', 'scenarios', 'profiles', 'agent-profiles')),
  ordinal       INTEGER NOT NULL CHECK (ordinal >= 1),
  event_at      INTEGER NOT NULL,
  created_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_place ON records (session_id, folder, day, ordinal) WHERE folder <> 'agent-profiles';
CREATE UNIQUE INDEX records_agent_place ON records (day, ordinal) WHERE folder = 'agent-profiles';
CREATE INDEX records_slot ON records (slot) WHERE slot IS NOT NULL AND status = 'active';
CREATE INDEX records_turn ON records (turn_id);
CREATE INDEX records_superseded ON records (superseded_by) WHERE superseded_by IS NOT NULL;

-- The further turns a record rests on, beside its own: those that reinforced a fact, those that a scenario covers.
CREATE TABLE record_sources (
  record_id INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
  turn_id   INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
  PRIMARY KEY (record_id, turn_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_sources_turn ON record_sources (turn_id);

-- The lasting record that something was forgotten. subject is an opaque token, digest or id, never text of a memory;
-- it speaks of what was said between since_at and until_at (both included; the widest bounds mean: whenever).
CREATE TABLE tombstones (
  id       INTEGER PRIMARY KEY,
  kind     TEXT    NOT NULL CHECK (kind IN ('session', 'participant', 'span', 'entry', 'message', 'record', 'note')),
  subject  TEXT    NOT NULL,
  since_at INTEGER NOT NULL,
  until_at INTEGER NOT NULL,
  reason   TEXT    NOT NULL,
  at       INTEGER NOT NULL,
  UNIQUE (kind, subject, since_at, until_at)
) STRICT;

-- Forgetting that is under way: what is still to be deleted here, then notes, generations and bytes. A crash leaves it to
-- the next open. notes are paths, hashes and line numbers. No row means: nothing is left to do.
CREATE TABLE forgettings (
  id    INTEGER PRIMARY KEY,
  stage TEXT    NOT NULL CHECK (stage IN ('rows', 'index', 'bytes')),
  notes TEXT    NOT NULL CHECK (json_valid(notes)),
  at    INTEGER NOT NULL
) STRICT;
CREATE TABLE forgetting_targets (
  kind   TEXT    NOT NULL CHECK (kind IN ('session', 'turn', 'record')),
  target INTEGER NOT NULL,
  PRIMARY KEY (kind, target)
) STRICT, WITHOUT ROWID;

-- Every insert, change and deletion of something searchable, in commit order. Generations apply it.
CREATE TABLE change_log (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  kind   TEXT    NOT NULL CHECK (kind IN ('message', 'record', 'session')),
  target INTEGER NOT NULL,
  op     TEXT    NOT NULL CHECK (op IN ('put', 'delete'))
) STRICT;

-- The builds of the derived search index. Numbers are never used twice.
CREATE TABLE generations (
  number       INTEGER PRIMARY KEY AUTOINCREMENT,
  identity     TEXT    NOT NULL CHECK (json_valid(identity)),
  state        TEXT    NOT NULL CHECK (state IN ('building', 'current', 'retired')),
  created_at   INTEGER NOT NULL,
  published_at INTEGER,
  retired_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX generations_current ON generations (state) WHERE state = 'current';

-- How far each transcript file has been read, so that a grown file is read on and an unchanged one skipped.
CREATE TABLE import_cursors (
  path     TEXT    PRIMARY KEY,
  format   TEXT    NOT NULL,
  device   INTEGER NOT NULL,
  inode    INTEGER NOT NULL,
  size     INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

PRAGMA application_id = 1836282220; -- "msql"
PRAGMA user_version = 3;
