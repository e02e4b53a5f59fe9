"""What lies on disk cannot be used: stores, keys, layouts, exports, backups."""

from __future__ import annotations

from memory_sqlite.errors.base import MemorySqliteError


class StoreBusy(MemorySqliteError):
    """Another process holds the write lock longer than the busy timeout."""

    code = "store_busy"
    exit_code = 75
    retryable = True
    default_hint = "Another process is writing; try again."


class StoreReadOnly(MemorySqliteError):
    """The data directory or the store cannot be written."""

    code = "store_read_only"
    exit_code = 73
    default_hint = "Check the permissions of the data directory, or point --data-dir at one you may write."


class DiskFull(MemorySqliteError):
    """The disk is full; the transaction was rolled back whole."""

    code = "disk_full"
    exit_code = 74
    retryable = True
    default_hint = "Free disk space and repeat the call; nothing was half-written."


class FileSystemUnsuitable(MemorySqliteError):
    """The data directory is on a file system on which SQLite cannot keep a write-ahead log: many network mounts."""

    code = "file_system_unsuitable"
    exit_code = 73
    default_hint = "Point --data-dir at a local disk; without a write-ahead log readers and writers would not be safe."


class StoreDamaged(MemorySqliteError):
    """SQLite reports that the store is malformed or not a database. It is left exactly as it is."""

    code = "store_damaged"
    exit_code = 65
    default_hint = "Copy the file away before anything else; nothing here deletes or rebuilds a store."


class SchemaTooNew(MemorySqliteError):
    """The store was written by a newer version; it was not touched."""

    code = "schema_too_new"
    exit_code = 65
    default_hint = "Upgrade memory-sqlite."


class SessionKeyInvalid(MemorySqliteError):
    """``session.key`` cannot be used: wrong length, unreadable, or not a regular file."""

    code = "session_key_invalid"
    exit_code = 65
    default_hint = "Restore session.key (32 bytes) from a backup; without it session tokens and citations change."


class SessionKeyMissing(MemorySqliteError):
    """``session.key`` is missing although agents exist; a new one is never made silently."""

    code = "session_key_missing"
    exit_code = 65
    default_hint = "Restore session.key from a backup into the data directory."


class SessionKeyChanged(MemorySqliteError):
    """``session.key`` is not the one this store was made with."""

    code = "session_key_changed"
    exit_code = 65
    default_hint = "Restore the session.key that belongs to this data directory."


class EncryptionUnavailable(MemorySqliteError):
    """A key is configured, but the SQLite in use cannot encrypt, or two SQLite distributions are installed."""

    code = "encryption_unavailable"
    exit_code = 69
    default_hint = "pip uninstall -y apsw && pip install --force-reinstall apsw-sqlite3mc"


class EncryptionKeyRequired(MemorySqliteError):
    """The data directory is encrypted and no key is configured; nothing was read or written."""

    code = "encryption_key_required"
    exit_code = 77
    default_hint = "Set encryption_key_env, encryption_key_file or encryption_key_command; `memory-sqlite key status`."


class EncryptionKeyWrong(MemorySqliteError):
    """The key that is configured does not open this data directory; nothing was written. It is not a sign of damage."""

    code = "encryption_key_wrong"
    exit_code = 77
    default_hint = "Configure the key it was encrypted with; `memory-sqlite key status` names that key's id."


class StoreNotEncrypted(MemorySqliteError):
    """A key is configured, but what is in the data directory is in clear; nothing was read or written."""

    code = "store_not_encrypted"
    exit_code = 65
    default_hint = "memory-sqlite key encrypt"


class KeyringMissing(MemorySqliteError):
    """The stores are encrypted, but keyring.json, which holds their wrapped key, is gone; nothing was written."""

    code = "keyring_missing"
    exit_code = 65
    default_hint = "Put keyring.json back from a backup; without it nothing can open these files."


class KeyringDamaged(MemorySqliteError):
    """keyring.json cannot be used: not readable, cut off, altered, or made for another data directory."""

    code = "keyring_damaged"
    exit_code = 65
    default_hint = "Put keyring.json back from a backup of this data directory."


class EncryptionMixed(MemorySqliteError):
    """Some files of the data directory are encrypted and others are not, and no change of keys is under way."""

    code = "encryption_mixed"
    exit_code = 65
    default_hint = (
        "`memory-sqlite key status` lists the files; `key encrypt` or `key decrypt` makes them all of one kind."
    )


class KeyChanged(MemorySqliteError):
    """The data directory was encrypted, decrypted or given another key since this process opened it."""

    code = "key_changed"
    exit_code = 75
    default_hint = "Close this memory and open it again."


class DirectoryInUse(MemorySqliteError):
    """Another process has the data directory open, and what was asked for needs it alone."""

    code = "directory_in_use"
    exit_code = 75
    retryable = True
    default_hint = "Stop the process that serves it and call again."


class SqliteUnsuitable(MemorySqliteError):
    """The SQLite inside the installed apsw is too old or was built without FTS5, or apsw is not there."""

    code = "sqlite_unsuitable"
    exit_code = 69
    default_hint = "pip install --force-reinstall apsw-sqlite3mc"


class LegacyLayout(MemorySqliteError):
    """The directory belongs to the layered-memory product; it was recognised and not touched."""

    code = "legacy_layout"
    exit_code = 65
    default_hint = "memory-sqlite import layered PATH --data-dir NEW_DIRECTORY"


class UnknownFormat(MemorySqliteError):
    """A transcript is in no format that is known here."""

    code = "unknown_format"
    exit_code = 65
    default_hint = "Pass --format with one of the formats that `memory-sqlite import transcripts --help` lists."


class ExportInvalid(MemorySqliteError):
    """An export cannot be imported: it is cut, changed, or not what its format says. Nothing of it was imported."""

    code = "export_invalid"
    exit_code = 65
    default_hint = "Export again, or copy the file again; the line named is the first that is wrong."

    def __init__(self, message: str, line: int | None = None, *, hint: str | None = None) -> None:
        """``line`` is the number of the line, from 1, where one is to blame."""
        super().__init__(message if line is None else f"line {line}: {message}", hint=hint)
        self.line = line


class OutputExists(MemorySqliteError):
    """There is a file already where one was to be written; it was left as it is."""

    code = "output_exists"
    exit_code = 73
    default_hint = "Name another file, or say --force to write over it."


class BackupInvalid(MemorySqliteError):
    """A backup cannot be used: a file of it is missing, cut or changed, or its manifest says what none can."""

    code = "backup_invalid"
    exit_code = 65
    default_hint = "Take another backup, or copy this one again; `memory-sqlite verify` lists what is wrong with it."


class LabelsInvalid(MemorySqliteError, ValueError):
    """A file of labelled queries cannot be used; the message names the first line that is wrong."""

    code = "labels_invalid"
    exit_code = 65
    default_hint = 'One JSON object a line, e.g. {"query": "router VLAN", "expected": ["memory/net.md"]}.'
