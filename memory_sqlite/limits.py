"""Every bound of the house, in one place. A constant carries the reason or the measurement it rests on.

Bounds of settings that a user may change live in ``config.py`` beside the setting's type and default and refer to
these names; bounds that nobody may change are used directly.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- settings: (lowest, highest, default); names and ranges are those of the layered-memory product, section 12 of its
# reference, so that a host that migrates keeps its configuration
MAX_SEARCH_RESULTS: Final = (1, 100, 10)
MAX_SEARCH_BYTES: Final = (1 * MIB, 256 * MIB, 16 * MIB)
MAX_READ_LINES: Final = (1, 2_000, 200)
RETENTION_DAYS: Final = (1, 3_650, 90)
RETENTION_GAP_DAYS: Final = 30
"""A clock that has moved on further than this with nothing recorded between is doubted: nothing expires on its word."""
RETENTION_DOUBT_DAYS: Final = 7
"""A doubted clock that has gone on for so long is believed: a wrong one is noticed, or set right, within days."""
RETENTION_RUNNING_DAYS: Final = 7
"""A turn that waits in a host's outbox keeps its session for so long, however short the retention is."""
RETENTION_BATCH: Final = 64
"""Turns or records that expire in one transaction: some 10 ms of the write lock (250 turns without times took 43)."""
RETENTION_EVERY_S: Final = 86_400.0
RETENTION_RETRY_S: Final = 3_600.0
"""A serving memory looks once a day for what has expired, and after an hour where files could not be cleaned yet."""
HOLD_REASON_MAX_CHARS: Final = 500
EXTRACTION_INTERVAL: Final = (1, 100, 5)
MAX_RECORD_BYTES: Final = (1 * KIB, 1 * MIB, 64 * KIB)
AUTO_RECALL_MAX_RESULTS: Final = (1, 10, 5)
AUTO_RECALL_MAX_CHARS: Final = (256, 16_000, 4_000)
AUTO_RECALL_TIMEOUT_MS: Final = (50, 5_000, 1_000)
CONTEXT_MAX_TOKENS: Final = (0, 2**53 - 1, None)
EMBEDDING_DIMENSIONS: Final = (1, 8_192, None)
"""The largest models answer with 4,096 numbers."""
EMBEDDING_QUERY_TIMEOUT_MS: Final = (50, 60_000, 1_500)
EMBEDDING_BATCH_TIMEOUT_MS: Final = (1_000, 600_000, 60_000)
ENCRYPTION_KEY_MIN_BYTES: Final = 32
ENCRYPTION_PASSPHRASE_MIN_BYTES: Final = 8
"""The least that NIST SP 800-63B lets people choose; stretched with scrypt, and only where the user asks for it."""
ENCRYPTION_KEY_MAX_BYTES: Final = 4 * KIB
"""A longer one is the wrong file, or the wrong command."""
SCRYPT_CHOSEN: Final = (2**17, 8, 1)
"""N, r and p as OWASP's password storage cheat sheet asks for: 128 MiB and 0.35 s an open (measured)."""
SCRYPT_COST: Final = (2**14, 2**20)
SCRYPT_BLOCK_MAX: Final = 8
SCRYPT_PARALLEL_MAX: Final = 4
"""What a keyring may ask for at most: 1 GiB. One is trusted with that before its user's key has opened it."""
ENCRYPTION_KEY_COMMAND_S: Final = 60.0
"""A password manager may ask a person first."""
FILE_KEY_BYTES: Final = 32
"""Raw key of a database file: what AEGIS-256 and AES-256 take."""
PROOF_DECRYPTED_MAX_BYTES: Final = 2 * 1024 * MIB
"""Encrypted files up to here are searched for what was forgotten, one after the other, whole in a child's memory."""

# --- asking
QUERY_MAX_CHARS: Final = 8_000
"""A longer query is cut here, with a warning: a question is not a document (100,000 characters arrive in week one)."""
QUERY_MAX_TERMS: Final = 64
"""Distinct terms of a query that are searched; the rarest win."""
OPERATOR_MAX_RESULTS: Final = 100
DEFAULT_RESULTS: Final = 6
DEADLINE_MAX_MS: Final = 600_000
"""The longest deadline a search may be given; without one it runs to its end."""
EXCERPT_MAX_CHARS: Final = 700
"""UTF-16 units; the same as the excerpts hosts are used to."""
GET_MAX_CHARS: Final = 12_000
"""UTF-16 units of one get; a single longer line is cut and can be read on with ``next_from``."""

EXPLAINED_CANDIDATES_MAX: Final = 100
"""Candidates that an explanation lists, the best first; about the others one can ask by name."""
EXPLAINED_COUNT_MAX: Final = 1_000_000
"""Documents with a word are counted up to here: the index is walked for it."""

# --- remembering
SESSION_KEY_MAX_BYTES: Final = 1_024
RUN_ID_MAX_BYTES: Final = 512
HOST_ID_MAX_BYTES: Final = 512
MESSAGES_PER_CALL_MAX: Final = 10_000
EPISODE_MAX_UNITS: Final = 2_000
"""UTF-16 units of an L1 episode, as in the layered-memory product."""
FACTS_PER_MESSAGE_MAX: Final = 8
FACTS_PER_CALL_MAX: Final = 1_000
FACT_CONTENT_MAX_UNITS: Final = 2_000
"""UTF-16 units of a stated fact, as of an episode."""
FACT_NAME_MAX_UNITS: Final = 200
FACT_ALIASES_MAX: Final = 32
FACT_SCOPES_MAX: Final = 16
SAME_TURN_WINDOW_MS: Final = 15 * 60 * 1000
"""Two copies of one turn that reach us by different ways may carry clocks this far apart (host clock against file)."""

# --- files
SESSION_KEY_BYTES: Final = 32
NOTE_MAX_BYTES: Final = 16 * MIB
TRANSCRIPT_LINE_MAX_BYTES: Final = 16 * MIB
"""A longer line is refused with its number; reading it would break the import's memory bound (200 MiB). Measured on the
worst text, ASCII with one emoji in six characters: a line of 16 MiB peaks at 156 MiB, one of 31 MiB at 282 MiB."""
EXPORT_TEXT_MAX_BYTES: Final = 2 * MIB
"""One text of a row that is imported: twice the largest ``max_record_bytes``. A line is bounded like a transcript's."""
EXPORT_DEPTH_MAX: Final = 64
"""Nesting of one line of an export. Deeper JSON of a host is exported as text; the rows themselves nest three deep."""
BUSY_TIMEOUT_MS: Final = 10_000
CHUNK_TOKENS: Final = 400
CHUNK_OVERLAP_TOKENS: Final = 80
CONTEXT_MESSAGES: Final = 2
"""Messages before and after that are indexed as a message's context (LoCoMo R@10: .638 alone, .786 with them)."""
FRESHNESS_INTERVAL_S: Final = 1.0
FRESHNESS_BUDGET_S: Final = 0.5
"""A search may spend this long applying small changes before it answers with ``stale``."""
WATCH_SETTLE_S: Final = 0.2
"""A watch takes changes in when nothing was written for so long: a file still being written is waited for,"""
WATCH_SETTLE_MAX_S: Final = 5.0
"""but not longer than this: a note that is written to without a pause is taken in as it is, and again later."""
WATCH_SLICE_S: Final = 0.25
"""How long a watch holds the memory's lock at a time."""
WATCH_POLL_S: Final = 10.0
"""How often a watch looks where the system cannot watch, or where the workspace has gone."""
FULL_HASH_INTERVAL_S: Final = 3_600.0
"""How often a serving process hashes every note: an edit that kept size, times and inode is seen then,"""
FULL_HASH_INDEX_S: Final = 86_400.0
"""and ``index`` does it when nobody has for so long (measured: 2,001 notes of 4.7 KiB in 0.22 s)."""

# --- worker processes
FRAME_MAX_BYTES: Final = 8 * MIB
"""One message between a process and its worker, either way; what is larger is refused before it is sent."""
WORKERS_MAX: Final = 4
"""Never more workers than cores either; measured on two cores: four workers answer no more searches than two."""
POOL_PENDING_MAX: Final = 128
POOL_PENDING_BYTES_MAX: Final = 256 * MIB
"""Requests of one pool that are waiting or running; one more is refused at once (``Overloaded``)."""
WORKER_KILL_GRACE_S: Final = 0.25
"""Between asking a worker to stop and killing it; an interrupted statement comes back within 35 ms (measured)."""
WORKER_START_S: Final = 30.0
"""A worker that has not reported by then never will; on a quiet machine it takes 0.2 s."""
WORKER_START_FAILURES_MAX: Final = 3
"""Failed starts in a row after which a pool says that workers are not available here,"""
WORKER_START_RETRY_S: Final = 60.0
"""and how long it says so before it tries once more."""
WORKER_IDLE_S: Final = 30 * 60.0
"""After so long without a request a worker closes a generation, and the last worker of a pool ends."""
WORKER_SPARE_IDLE_S: Final = 60.0
"""A second, third and fourth worker end after this: each holds some 30 MiB."""
WORKER_HOLDS_MAX: Final = 8
"""Generations that one worker keeps open; of more agents, those that were asked least recently are closed."""
WORKER_INTERRUPT_EVERY_S: Final = 0.005
"""An interrupt that falls between two statements is lost, so it is repeated until the request has ended."""
WORKER_PARENT_CHECK_S: Final = 2.0
"""How often a worker looks whether its parent lives. End of input says so at once, unless a process forked from the
parent has kept the pipe open."""
DIRECT_WRITE_MAX_BYTES: Final = 32 * KIB
"""Half of what an empty pipe takes on Linux: a smaller frame to an idle worker is written without waiting."""
ABORT_POLL_S: Final = 0.01
"""How often a caller that waits looks at an abort event that is not the pool's own."""
PREPARATION_AFTER_BYTES: Final = 2 * MIB
"""Text that a pass prepares in its own process before workers prepare the rest: 2 MiB of notes take 0.4 s, a worker
0.2 s to start and 0.1 s of CPU (measured)."""
PREPARATION_REQUEST_BYTES: Final = 24 * KIB
"""Text of one request to a preparation worker, some four notes. Measured for 11 MiB of notes and two workers: 2.8 s
with 16 KiB, 2.5 with 24, 2.7 with 32, 3.4 with 96, 3.7 with 160; the CPU is the same. A frame of 32 KiB is written
without a thread of its own (``DIRECT_WRITE_MAX_BYTES``), and the answer is two and a half times as large."""
HYDRATE_CHUNKS_MAX: Final = 1_000
PRESENCE_KEYS_MAX: Final = 10_000

# --- vectors
VECTOR_PYTHON_ROWS: Final = 10_000
"""Up to so many vectors are compared in Python rather than NumPy imported for it (13 us a row against 0.13 s)."""
VECTOR_RESIDENT_ROWS: Final = 5_000
"""Up to so many vectors a worker asks sqlite-vec (5 ms) rather than load NumPy (0.1 s, 25 MiB) and keep them."""
VECTOR_FLOAT_ROWS: Final = 50_000
"""Up to so many vectors a worker keeps as they are; of more it keeps eighths (int8 and bits)."""
VECTOR_SPARE_ROWS: Final = 2_048
"""The least room for more of them, and the least number of lost ones, before a worker loads them anew."""
VECTOR_LOAD_ROWS: Final = 32_768
"""Vectors that one search takes into a worker's memory before it goes another way (384 dimensions: 0.25 s of CPU)."""
VECTOR_RESIDENT_MAX_BYTES: Final = 256 * MIB
"""What a worker keeps of vectors, of all agents together: 600,000 x 384 as int8 and bits, 4,000,000 as bits alone."""

# --- hosting a context engine: figures of the context-engine contract
TURN_ENTRIES_MAX: Final = 20_000
TURN_BYTES_MAX: Final = 8 * MIB
"""What one committed turn may hold, as JSON; a larger one is never committed (``too-large``)."""
OUTBOX_DRAIN_ROWS: Final = 16
"""Turns that one drain of the outbox delivers, over all sessions."""
COMPACTION_TIMEOUT_S: Final = 180.0
"""How long a host waits for an engine's compaction; the engine is kept until its work settles."""
ENGINE_FOREGROUND_WAIT_S: Final = 10.0
"""How long somebody waits for work that an engine has been given to settle; after that it goes on beside them."""
DEGRADED_TURNS_KEPT: Final = 1_024
"""Logical turns of which a host remembers that they run on the legacy path, for their retries."""

# --- salvage
SALVAGE_ROW_MAX_BYTES: Final = 64 * MIB
"""A longer row than the store holds (a turn that waits in the outbox: 8 MiB) is a damaged length."""
SALVAGE_DECRYPTED_MAX_BYTES: Final = 768 * MIB
"""An encrypted store is decrypted in memory, never on disk; twice its size is needed for a moment."""
SALVAGE_UNREADABLE_PAGES_MAX: Final = 1_000
"""Damaged pages of an encrypted store: each costs reading all pages before it again. More, and it is the wrong key."""

# --- what is read from outside, beyond which it is refused, cut or left out
CONFIG_FILE_MAX_BYTES: Final = 1 * MIB
"""A configuration is a page; anything larger is the wrong file, and is refused before it is parsed."""
STDIN_MAX_BYTES: Final = 64 * MIB
EVAL_FILE_MAX_BYTES: Final = 64 * MIB
"""A file of labelled queries; 1,000 of them are some 200 KiB."""
ROLE_MAX_CHARS: Final = 64
FOLDER_DEPTH_MAX: Final = 64
"""Folders below a note place; deeper ones are reported and not read."""
FACT_SENTENCE_MAX_CHARS: Final = 600
"""A longer "sentence" is pasted material and yields no fact."""
OPEN_ANSWER_MAX_BYTES: Final = 8 * MIB
"""Lines held back for one open answer; beyond it the rest becomes a message of its own: memory stays bounded."""
OPEN_ANSWER_WAITING_MAX: Final = 256
"""Items that wait behind an open answer; parallel tools rarely exceed ten."""
CLOSED_ANSWERS_MAX: Final = 1_024
"""Answers remembered as closed, so that a straggling part does not claim the host id of what was already given out."""
SESSIONS_FILE_MAX_BYTES: Final = 16 * MIB
"""A host's list of sessions beside its transcripts; a larger one is not looked into."""
WITHHELD_MAX: Final = 200
"""How many withheld hits are counted; more are not told apart."""
REPORTED_PROBLEMS_MAX: Final = 200
"""Problems an import lists; its counts are not bounded."""
LAYERED_OPEN_MESSAGES_MAX: Final = 10_000
"""Messages of the oldest layered-memory layout held back until their turn is whole; that product bounded a line to a
megabyte and wrote a few hundred a day."""
LAYERED_LOOK_FILES_MAX: Final = 1_000
"""Files of another product's directory that are counted to say that there is one."""
LAYERED_GAP_MAX: Final = 10_000
"""Lines that an export to layered-memory writes in place of records that are gone, in one file; beyond it the records
move up and their citations change."""
RECALLS_AT_ONCE_MAX: Final = 32
"""Recalls running in one process. One that hangs where nothing can interrupt it keeps its thread and its file."""
FACTS_LOOKED_AT_MAX: Final = 5_000
"""Facts whose names one question is compared with, the newest first; the answer says when there are more."""
FACTS_DEFAULT: Final = 20
FACTS_MAX: Final = 200
"""Facts of one answer: those asked for when nothing is said, and the most that may be."""
RECALL_QUERY_UNITS: Final = 2_000
"""UTF-16 units of the person's words that recall searches for, as in the layered-memory product."""

# --- backups
BACKUP_STEP_PAGES: Final = 2_000
"""Pages copied between two words about progress: 8 MiB, some 10 ms."""
BACKUP_MANIFEST_MAX_BYTES: Final = 64 * MIB
BACKUP_AGENTS_MAX: Final = 20_000
"""A manifest has some 1.5 KiB an agent; a larger one is refused before it is parsed."""
KEYRING_MAX_BYTES: Final = 1 * MIB
BACKUP_CAME_BACK_MAX: Final = 200
"""Sessions that a restore lists as come back; more are counted."""

# --- hosts
RECALLS_KEPT: Final = 10_000
"""Recorded recalls; of more, the oldest go. One is about a kilobyte."""

# --- embedding
EMBEDDING_BACK_OFF_S: Final = 2.0
"""After a failure an embedding provider is left alone for so long, twice as long after each further one,"""
EMBEDDING_BACK_OFF_MAX_S: Final = 120.0
"""and never longer than this: searches are answered from words at once meanwhile."""
EMBEDDING_ATTEMPTS_MAX: Final = 5
"""Requests for one batch to a server that is busy or fails, as long as the time for the batch lasts,"""
EMBEDDING_RETRY_S: Final = 0.5
"""with so long a pause before the second, twice as long before each further one, unless the server names a time."""
EMBEDDING_ANSWER_MAX_BYTES: Final = 64 * MIB
"""64 vectors of 8,192 numbers, 20 characters each, take 10 MiB."""
EMBEDDING_REFUSED_CHARS: Final = 1_000
"""A text that is refused alone is tried once more cut to this: some servers refuse what their model cannot hold."""
EMBEDDING_REFUSED_MAX: Final = 8
"""When a batch of so many texts is refused one by one, it is the provider and not the texts."""
EMBEDDING_QUERIES_KEPT: Final = 128
"""Vectors of recent questions: paging, and recall before a search, ask the same again."""
EMBEDDING_REQUEST_CHARS: Final = 2_000
"""Text of one request to a model's own process, some 500 tokens: a question waits for one such request at most."""
EMBEDDING_WORKER_GRACE_S: Final = 10.0
"""A product of matrices cannot be interrupted, and killing the worker costs loading the model again: so much longer."""
EMBEDDING_UNASKED_TEXTS: Final = 200
EMBEDDING_UNASKED_CHARS: Final = 200_000
"""What is sent to a provider that charges without somebody having said so: what comes in day by day, some 50,000 tokens
or less than a cent at the prices of 2025 (0.02 to 0.13 dollars a million). A whole memory never is."""
EMBEDDING_CLOSE_S: Final = 2.0
"""A closing memory waits so long for a batch that is being embedded; what comes later is thrown away."""
EMBEDDING_LOOK_S: Final = 60.0
"""How often a serving memory looks for texts without a vector that other processes brought; its own wake it."""

# --- the provider runtime
CURSOR_MAX_CHARS: Final = 4_096
"""As the contract bounds the cursors of a transcript; a longer one is refused before it is looked at."""
CURSOR_HOLD_S: Final = 600.0
"""A cursor keeps the generation that it began in open for so long, and goes on in the current one after that."""
CURSOR_HOLDS_MAX: Final = 4
"""Generations that one handle keeps open for its cursors; of more, the oldest is let go."""
CURSOR_HOLDS_ALL_MAX: Final = 64
"""The same for all handles of a provider together: each is an open file, and hosts open thousands of handles."""
REFRESH_RETRY_S: Final = 0.1
"""A refresh that finds somebody writing tries again after so long."""
LISTING_MAX: Final = 500
"""Hits that following a cursor gives in all: four bytes each of what was seen are in the cursor (2,720 characters)."""
CANDIDATES_DEFAULT: Final = 48
"""What a host asks for when it recalls by project (2026.9.6)."""
CANDIDATES_MAX: Final = 200
READ_LINE_MAX_CHARS: Final = 1 * MIB
"""Code points of a line that one read gives, since the contract reads on by whole lines; a longer line is cut."""

# --- audiences
LINEAGE_HOPS_MAX: Final = 64
"""Sessions from a child to its root, both counted, as the audience contract bounds it."""

# --- the flush before compaction
FLUSH_WRITE_MAX_BYTES: Final = 256 * KIB
"""What one write of the file arm may add; a day's notes are some 10 KiB."""
FLUSH_TRANSCRIPT_MESSAGES_MAX: Final = 10_000
FLUSH_TRANSCRIPT_MAX_BYTES: Final = 8 * MIB
"""The newest messages that a flush's model is given, as JSON; the same bound as a committed turn's."""

# --- our tools, as a model calls them
TOOL_RESULTS_MAX: Final = 20
TOOL_ANSWER_MAX_UNITS: Final = 16_000
"""UTF-16 units of one answer with its frame: twenty excerpts, or one get with its line numbers."""

# --- serving other programs
TOOL_STRUCTURED_MAX_UNITS: Final = 24_000
"""UTF-16 units of an answer's structured form, as JSON: twenty excerpts with their names, beside the same as text."""
FORGET_REFERENCES_MAX: Final = 20
"""As many as one search shows."""
SERVE_FRAME_MAX_BYTES: Final = 4 * MIB
"""One request to a server; a question is 8,000 characters and a fact 2,000 units, so that a larger one is none."""
SERVE_CALLS_MAX: Final = 64
"""Calls of one server that wait or run; one more is refused at once (``Overloaded``)."""
SERVE_THREADS: Final = 16
"""Threads they run in: they wait for workers and for the lock."""
SERVE_PROGRESS_EVERY_S: Final = 1.0
"""How often a call that goes on says that it does, to a client that asked to hear so: hosts give up on silent ones."""
SERVE_RESOURCES_PAGE: Final = 100
SERVE_CONNECTIONS_MAX: Final = 128
SERVE_SESSIONS_MAX: Final = 256
"""Connections and protocol sessions of one HTTP server; one more is answered 503."""
SERVE_STOP_S: Final = 2.0
"""How long a server that is told to stop waits for answers that are on their way."""
SERVE_TOKEN_CHARS: Final = (16, 512)

# --- our context engine, and reading transcripts on from a cursor (figures of the context-engine contract)
DELTA_MESSAGES: Final = (1, 10_000, 1_000)
DELTA_BYTES: Final = (1, 64 * MIB, 1_000_000)
"""Lowest, highest and default of what one read of a transcript gives."""
ADVANCEMENT_KEY_MAX_BYTES: Final = 512
MESSAGE_OVERHEAD_TOKENS: Final = 8
"""What a chat format puts around a message: 3 or 4 tokens for OpenAI's models (its cookbook), 5 for ChatML and Llama 3,
and a few of the provider's own."""
PART_OVERHEAD_TOKENS: Final = 4
"""The same around a block, a call or its arguments."""
IMAGE_TOKENS_MAX: Final = 50_000
"""The most that one image costs where the host does not say: 2,833 + 8 x 5,667 tokens for gpt-4o-mini (OpenAI's table
of 2025); others charge up to 5,000. Base64 itself is never sent as text."""
ASSEMBLED_MEMORY_SHARE: Final = 4
"""Of the room beside the newest turn every fourth token may go to what is recalled."""
EARLIER_MESSAGES_MAX: Final = 6
"""Earlier messages of the session that are recalled for a prompt."""
DELTA_RESETS_MAX: Final = 3
"""Resets in a row after which an engine that follows a transcript leaves it for later."""

# --- gateway methods and the consumers of a host (figures of the contract)
GATEWAY_RESULTS: Final = 20
GATEWAY_RESULTS_MAX: Final = 50
"""Hits that ``memory.search`` asks for when nothing is said, and the most that it may be told to."""
GATEWAY_MESSAGE_CHARS: Final = 2_000
"""Of an error's text a client is told no more."""
AGENT_ID_MAX_CHARS: Final = 64
PROJECT_RECALL_CANDIDATES: Final = 48
PROJECT_RECALL_ENTRY_UNITS: Final = 600
PROJECT_RECALL_UNITS: Final = 2_000
"""UTF-16 units of one recalled entry of a project, and of everything that is put before the prompt, frame included."""
TRIGGER_RECALL_SEARCH: Final = 24
TRIGGER_RECALL_CANDIDATES: Final = 512
TRIGGER_PHRASES_CHARS: Final = 16 * KIB
"""Candidates that are asked for, and how much of one's phrases is looked at."""
TRIGGER_RECALL_MAX: Final = 3
TRIGGER_RECALL_UNITS: Final = 1_800
"""UTF-16 units of all entries that triggers recall, frame included."""
TRIGGER_RECALL_CACHE_S: Final = 15.0
RECALL_CACHE_ENTRIES: Final = 1_000
"""What one run was given is given again for so long; so many answers are kept in all, the oldest go (2026.9.6)."""
RECALL_TOOLS_MAX: Final = 32
"""Tools that an explicit list for deep recall may name."""
VOICE_SNIPPET_UNITS: Final = 700
VOICE_RESULTS: Final = 6
VOICE_TIMEOUT_S: Final = 0.8
"""A spoken answer cannot wait longer for what is looked up on the side."""
WIKI_RESULTS: Final = 10
WIKI_LOOKUP_MAX_CHARS: Final = 16_384
"""An opaque lookup is a reference in percent-encoded JSON; a longer one is refused before it is parsed."""
DEEP_RECALL_UNITS: Final = (40, 1_000, 220)
"""Lowest, highest and default length of the summary that a deep recall puts before a prompt, without its frame."""

# --- queries in SQL: lowest, highest, default of what one query may take
QUERY_ROWS: Final = (1, 10_000_000, 1_000)
"""Rows of one answer; of more, the first ones are given and the answer says so."""
QUERY_TIMEOUT_S: Final = (0.05, 3_600.0, 30.0)
"""How long one query may run; what it waits for its reader does not count."""
QUERY_MEMORY_BYTES: Final = (16 * MIB, 4 * 1024 * MIB, 256 * MIB)
"""What SQLite may hold for one query: caches, sorters, temporary tables, single values."""
QUERY_PYTHON_BYTES: Final = 768 * MIB
"""Address space of a query's process beyond that: a JSON line of 16 MiB takes up to 280 MiB while it is read, and a
generation is mapped with up to 256 MiB."""
QUERY_ANSWER_MAX_BYTES: Final = 64 * MIB
"""Rows that one answer holds in memory; where they are handed out as they come, they are not counted."""
QUERY_VALUE_MAX_BYTES: Final = 32 * MIB
"""One value or row in SQLite: twice the longest line that is read."""
QUERY_SQL_MAX_CHARS: Final = 100_000
QUERY_PARAMETERS_MAX: Final = 1_000
QUERY_COLUMNS_MAX: Final = 500
QUERY_EXPRESSION_DEPTH: Final = 200
QUERY_COMPOUND_MAX: Final = 50
QUERY_PROGRAM_MAX: Final = 250_000
"""Instructions of one compiled statement; a query of three pages has some thousands."""
QUERY_LIKE_MAX_CHARS: Final = 1_000
"""Of a LIKE or GLOB pattern: matching takes up to the product of pattern and text."""
QUERY_KILL_GRACE_S: Final = 2.0
"""A query that is not back so long after its time was up hangs within one step, and its process is killed."""
QUERY_PROCESSES_MAX: Final = 2
"""Queries of one memory at once; each has a process of its own, and the machine two cores. One more is refused."""
QUERY_IDLE_S: Final = 60.0
"""A query process without a request ends after this; a new one takes 0.2 s."""
QUERY_FILES_MAX: Final = 100_000
"""Files that one pattern may name; more are a mistake, and listing them took the time of the query."""
QUERY_BLOCK_BYTES: Final = 1 * MIB
QUERY_SAMPLE_FILES: Final = 16
QUERY_SAMPLE_BYTES: Final = 256 * KIB
"""Where the columns of a JSONL table come from: the keys in so much of so many files, spread over all of them."""
QUERY_PROMOTED_MAX: Final = 200
"""Keys of JSONL lines that become columns; the others are reached through ``value``."""
QUERY_BATCH_ROWS: Final = 256
QUERY_BATCH_BYTES: Final = 256 * KIB
"""Rows travel from a query's process in batches of about so many."""
