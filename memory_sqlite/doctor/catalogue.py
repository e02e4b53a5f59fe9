"""Every finding the doctor can make: how grave, what it means, what to do, and whether ``--fix`` does it.

``error``: something is lost, wrong, or was not forgotten. ``warning``: something is left undone, or will go wrong.
``info``: so it may be, and no reason to leave with exit code 3. The table of ``docs/findings.md`` is this one, which a
test holds. Called by ``finding``; not here: who finds what.
"""

from __future__ import annotations

from typing import Final, Literal

from memory_sqlite.values import dataclass

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Kind:
    """``command`` is what to type next, empty where no command helps. ``mends``: ``doctor --fix`` does it."""

    severity: Severity
    meaning: str
    fix: str
    command: str = ""
    mends: bool = False


_INDEX: Final = "memory-sqlite index"
_FULL: Final = "memory-sqlite index --full"
_FIX: Final = "memory-sqlite doctor --fix"
_SALVAGE: Final = "memory-sqlite doctor --salvage OUT"
_RESTORE: Final = "memory-sqlite restore BACKUP --data-dir NEW"
_KEY: Final = "memory-sqlite key status"
_REBUILD: Final = "Build the index anew; it is derived, and vectors of unchanged texts are taken over."
_RECOVER: Final = (
    "Copy the directory away, then restore a backup that `memory-sqlite verify` accepts, or read out what is readable."
    " Building the index anew does not help: it would be built from what is damaged."
)

FINDINGS: Final[dict[str, Kind]] = {
    # --- this machine
    "check_failed": Kind("error", "A check could not be made, and nothing else says why.", "Report it with its name."),
    "configuration_invalid": Kind(
        "error", "A setting is wrong, so that no memory can be named.", "Correct the setting that is named.",
        "memory-sqlite config",
    ),
    "library_two_copies": Kind(
        "warning", "apsw and apsw-sqlite3mc are both installed and overwrite each other's files.",
        "Remove both and install one.", "pip uninstall -y apsw && pip install --force-reinstall apsw-sqlite3mc",
    ),
    "library_shared": Kind(
        "info", "A process that has the store open also has Python's sqlite3 loaded: if it opened the same file with"
        " both, the two would drop each other's locks.", "Let nothing but memory-sqlite open these files there.",
    ),
    "file_system_network": Kind(
        "warning", "The data directory is on a network or shared file system, where locks and the write-ahead log's"
        " shared memory reach one machine only.", "Move it to a local disk; let one machine alone open an agent.",
    ),
    "file_system_unsuitable": Kind(
        "error", "The file system cannot keep a write-ahead log with shared memory.", "Move it to a local disk.",
    ),
    "disk_low": Kind(
        "warning", "There is less room than the next build of the index needs.", "Free disk space.",
    ),
    "clock_behind": Kind(
        "warning", "The clock stands before the newest turn that was recorded.", "Set the clock.",
    ),
    "times_ahead": Kind(
        "warning", "Turns carry times that have not come yet; they expire late, and are found as the newest.",
        "Correct the clock of the host that sends them.",
    ),
    "watch_capacity": Kind(
        "warning", "There are more folders of notes than the system lets one user watch.",
        "Raise fs.inotify.max_user_watches; searches look for themselves until then.",
        "sysctl -w fs.inotify.max_user_watches=524288",
    ),
    # --- files
    "permissions_open": Kind(
        "warning", "Others on this machine may read, change or list what is private.",
        "Take the permissions of group and others away.", _FIX, mends=True,
    ),
    "owner_differs": Kind(
        "warning", "Files belong to another user than the one who runs this.",
        "Run as that user, or give the files to one.",
    ),
    "directory_read_only": Kind(
        "info", "The permissions or the medium let this user read the directory and not write it.",
        "Nothing, where that is meant; else correct the permissions.",
    ),
    "file_unreadable": Kind(
        "error", "The permissions do not let this user look at what is here.",
        "Correct the permissions or run as its owner.",
    ),
    "stray_database": Kind(
        "warning", "A database lies here that no part of memory-sqlite made; forgetting does not reach what is in it.",
        "Look what it is and move it away. It is never touched.",
    ),
    "foreign_file": Kind(
        "info", "Something lies here that no part of memory-sqlite made.", "Nothing; it is never touched.",
    ),
    "temporary_leftover": Kind(
        "warning", "A file or folder that a process made under another name and died before it was done; it may hold"
        " what was said.", "Move it into a quarantine folder.", _FIX, mends=True,
    ),
    "quarantine_kept": Kind(
        "info", "What an earlier --fix set aside is still there.", "Delete the folder once nothing is missed.",
    ),
    "quarantine_outlived": Kind(
        "warning", "Something was forgotten after files were set aside: they may hold it still.",
        "Delete the quarantine folder.",
    ),
    "quarantine_in_clear": Kind(
        "warning", "Files that were set aside before the directory was encrypted are in clear.",
        "Delete the quarantine folder.",
    ),
    "legacy_found": Kind(
        "info", "Data of the layered-memory product lies here, which can be brought in; originals stay untouched.",
        "Import it into a data directory of this product.", "memory-sqlite import layered PATH",
    ),
    # --- keys
    "session_key_missing": Kind(
        "error", "session.key is not there: tokens and citations cannot be made, and the store does not open.",
        "Put session.key back from a backup.",
    ),
    "session_key_invalid": Kind(
        "error", "session.key cannot be used: another length, unreadable, or no regular file.",
        "Put session.key (32 bytes) back from a backup.",
    ),
    "session_key_changed": Kind(
        "error", "session.key is not the one that this store was made with.",
        "Put the session.key back that belongs to this data directory.",
    ),
    "encryption_unavailable": Kind(
        "error", "A key is configured, or the files are encrypted, and the SQLite in use cannot encrypt.",
        "Install the SQLite that can.", "pip uninstall -y apsw && pip install --force-reinstall apsw-sqlite3mc",
    ),
    "encryption_key_required": Kind(
        "error", "The files are encrypted and no key is configured. It is not a sign of damage.",
        "Configure the key.", _KEY,
    ),
    "encryption_key_wrong": Kind(
        "error", "The key that is configured does not open these files. It is not a sign of damage.",
        "Configure the key they were encrypted with.", _KEY,
    ),
    "store_not_encrypted": Kind(
        "error", "A key is configured, and what is here is in clear.", "Encrypt it, or take the setting away.",
        "memory-sqlite key encrypt",
    ),
    "keyring_missing": Kind(
        "error", "The files are encrypted, and keyring.json, which holds their wrapped key, is gone.",
        "Put keyring.json back from a backup; nothing else opens these files.",
    ),
    "keyring_damaged": Kind(
        "error", "keyring.json cannot be used.", "Put keyring.json back from a backup of this data directory.",
    ),
    "encryption_mixed": Kind(
        "error", "Some files are encrypted and others are not.", "Make them all of one kind.", _KEY,
    ),
    "key_change_unfinished": Kind(
        "warning", "A change of keys was begun and did not come to its end.", "Give the same command again.", _KEY,
    ),
    # --- the store
    "agent_absent": Kind("info", "This agent has no memory yet.", "Nothing.", ""),
    "store_missing": Kind(
        "error", "The agent's directory is there and its store is not.", "Restore memory.sqlite from a backup.",
        _RESTORE,
    ),
    "store_emptied": Kind(
        "error", "memory.sqlite is empty, although there was a store.", "Restore memory.sqlite from a backup.",
        _RESTORE,
    ),
    "store_not_a_file": Kind(
        "error", "A link, a directory or something else stands where memory.sqlite should be. It is not followed.",
        "Put the file itself there.",
    ),
    "store_foreign": Kind(
        "error", "The file named memory.sqlite is a database of somebody else.", "Move it away.",
    ),
    "store_of_another_agent": Kind(
        "error", "The store says that it is another agent's than its directory's name does.",
        "Move it back to that agent's directory.",
    ),
    "store_damaged": Kind(
        "error", "SQLite says that the store is malformed; `tables` are those that cannot be read whole.", _RECOVER,
        _SALVAGE,
    ),
    "schema_too_new": Kind(
        "error", "The store was written by a newer version of this program.", "Upgrade memory-sqlite.",
        "pip install --upgrade memory-sqlite",
    ),
    "schema_older": Kind(
        "info", "The store was written by an older version; it is upgraded when it is next opened for writing.",
        "Nothing.",
    ),
    "schema_differs": Kind(
        "error", "Tables, columns or indexes of the store are not those of its schema version.",
        "Indexes that are missing are made again; for the rest restore a backup.", _FIX, mends=True,
    ),
    "store_foreign_keys": Kind(
        "error", "Rows refer to rows that are not there.", _RECOVER, _SALVAGE,
    ),
    "texts_changed": Kind(
        "error", "Text is not what was stored: bits were flipped, or something was changed behind the program's back.",
        "Restore a backup that `memory-sqlite verify` accepts, or live with the words as they are.", _RESTORE,
    ),
    "sources_dangling": Kind(
        "warning", "Records rest on turns or messages that are not there any more, and nothing says they were"
        " forgotten: deleted behind the program's back, or lost.",
        "Restore a backup, or forget the records that are named.", "memory-sqlite forget --record ID",
    ),
    "wal_large": Kind(
        "warning", "A write-ahead log has grown far beyond its bound: a reader that never ends holds it, or nobody"
        " could write it back.", "End the processes that are named by index_in_use and store_in_use, then --fix.",
        _FIX, mends=True,
    ),
    "store_in_use": Kind("info", "Other processes have the store open.", "Nothing."),
    "forgetting_unfinished": Kind(
        "warning", "Something is being forgotten and is not gone from every file yet.",
        "Open the memory once, or --fix.", _FIX, mends=True,
    ),
    "forgotten_in_store": Kind(
        "error", "Rows are in the store that a tombstone says were forgotten.",
        "Run the same `memory-sqlite forget` again.",
    ),
    "retention_due": Kind(
        "warning", "What has expired is still here.", "Prune it, or let a writer serve.", "memory-sqlite prune",
    ),
    "outbox_blocked": Kind(
        "warning", "Turns wait for their context engine and will never reach it: they cannot be read any more.",
        "Give them up in the host, or bring their transcripts back.",
    ),
    "outbox_refused": Kind(
        "warning", "A context engine has refused the same turn again and again.",
        "Look at the engine that is named; its turns wait meanwhile.",
    ),
    # --- the index
    "index_missing": Kind("warning", "The store knows of no search index.", "Make one.", _INDEX, mends=True),
    "index_file_missing": Kind(
        "warning", "The file of the current search index is not there.", "Make one.", _INDEX, mends=True
    ),
    "index_damaged": Kind(
        "warning", "The search index cannot be read. Nothing that was said is lost.", _REBUILD, _FULL, mends=True
    ),
    "index_outdated": Kind(
        "warning", "The index was built with another format, tokenizer or chunker than this version's.", _REBUILD,
        _FULL, mends=True,
    ),
    "index_behind": Kind(
        "warning", "The index lacks changes of the store, and nobody is at work on it.", "Apply them.", _INDEX,
        mends=True,
    ),
    "index_of_another_store": Kind(
        "error", "The index knows more changes than the store: the store was put back from a backup.", _REBUILD, _FULL,
        mends=True,
    ),
    "index_inconsistent": Kind(
        "error", "Chunks, documents and words of the index do not fit together.", _REBUILD, _FULL, mends=True
    ),
    "index_does_not_answer": Kind(
        "error", "A ranked question about what is in the index has no answer.", _REBUILD, _FULL, mends=True
    ),
    "index_incomplete": Kind(
        "error", "The store holds what the index should find and does not hold.", _REBUILD, _FULL, mends=True
    ),
    "forgotten_in_index": Kind(
        "error", "The index holds what is not in the store any more, or what was forgotten.", _REBUILD, _FULL,
        mends=True,
    ),
    "index_several_current": Kind(
        "error", "The store calls more than one index the current one.", "The newest stays.", _FIX, mends=True
    ),
    "index_leftover": Kind(
        "warning", "An index is no longer current, nobody has it open, and nobody took it away.",
        "Move it into a quarantine folder.", _FIX, mends=True,
    ),
    "index_held": Kind(
        "info", "A reader or a builder has an index open that is not current; it goes when that one closes it.",
        "Nothing.",
    ),
    "index_in_use": Kind("info", "Other processes have the current index open.", "Nothing."),
    "index_unfinished": Kind(
        "info", "A build was interrupted; the next `memory-sqlite index` goes on with it.", "Nothing.", _INDEX
    ),
    "vectors_inconsistent": Kind(
        "error", "Vectors belong to no chunk, to another text, or are no vectors.", _REBUILD, _FULL, mends=True
    ),
    "vectors_missing": Kind(
        "info", "Texts wait for their vectors.", "Run `memory-sqlite index`; with --yes where the provider charges.",
        _INDEX,
    ),
    # --- sources and services
    "workspace_missing": Kind(
        "warning", "The workspace with the notes is not there.", "Name it with --workspace, or bring it back.",
    ),
    "notes_unreadable": Kind(
        "warning", "Notes are there and cannot be read.", "Correct what is said of each.",
    ),
    "notes_skipped": Kind(
        "info", "What looks like a note is passed over: links, pipes, unusable names.", "Nothing, or put the file"
        " itself there.",
    ),
    "notes_waiting": Kind(
        "info", "Notes came, went or changed since the index was last told.", "Nothing: the next search takes them in.",
        _INDEX,
    ),
    "transcript_lines_refused": Kind(
        "warning", "Lines of imported transcripts could not be read and are not in the memory.",
        "Import again to see which; the lines are named there.", "memory-sqlite import transcripts PATH",
    ),
    "embedding_unusable": Kind(
        "warning", "The embedding provider that is set cannot be used; keyword search works without it.",
        "Correct what is said.", "memory-sqlite config",
    ),
    "embedding_failed": Kind(
        "warning", "The embedding provider does not answer; keyword search works without it.",
        "Start it, or check its address and key.", "memory-sqlite doctor --deep",
    ),
    "vector_engine_missing": Kind(
        "warning", "A provider of vectors is set, and neither sqlite-vec nor NumPy is there: large indexes are compared"
        " in Python.", "Install the extra.", "pip install 'memory-sqlite[vectors]'",
    ),
    "worker_failed": Kind(
        "warning", "A worker process could not be started or gave no answer; searches read in the host's own process.",
        "Check that this Python can start child processes.",
    ),
}  # fmt: skip
"""By code, in the order of the table."""
