"""The error catalogue: every failure has a code, an exit code, whether retrying can help, and what to do next.

No error carries the text of a memory or of a query (rule 10 of the design): messages name fields, files and numbers.
The table in ``docs/operations.md`` is generated from ``catalogue()`` and tested against it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

AudienceDenialKind = Literal["stale-lineage", "unverified", "ineligible"]


class MemorySqliteError(Exception):
    """Base of every error this package raises on purpose.

    ``code`` is stable and machine-readable, ``exit_code`` is what the command line exits with, ``retryable`` says
    whether the same call can succeed later without anyone changing anything, ``hint`` is the next step for a person.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint if hint is not None else self.default_hint


class InvalidArgument(MemorySqliteError, ValueError):
    """An argument has the wrong type, shape or range; the message names it."""

    code = "invalid_argument"
    exit_code = 2
    default_hint = "Correct the named argument and call again."


class InvalidConfiguration(MemorySqliteError, ValueError):
    """A setting has the wrong type or is out of bounds; the message names the field and where it came from."""

    code = "invalid_configuration"
    exit_code = 2
    default_hint = "Correct it there; `memory-sqlite config --schema` lists every setting and its bounds."


class UnknownAgent(MemorySqliteError):
    """Reading was asked of an agent that has no store; nothing is created by reading."""

    code = "unknown_agent"
    exit_code = 4
    default_hint = "Check the spelling of --agent; an agent comes into being with its first remember, import or index."


class AccessDenied(MemorySqliteError):
    """The session given may not read what was named."""

    code = "access_denied"
    exit_code = 5
    default_hint = "Ask as the operator (without --session) or from the session that owns it."


class PathNotAllowed(MemorySqliteError):
    """A path leaves the workspace, is not a note, or goes through a link."""

    code = "path_not_allowed"
    exit_code = 5
    default_hint = "Name MEMORY.md, USER.md, a Markdown file below memory/, or a configured extra path."


class RecordTooLarge(MemorySqliteError):
    """One message or record is larger than ``max_record_bytes``; nothing of the call was stored."""

    code = "record_too_large"
    exit_code = 2
    default_hint = 'Pass oversize="truncate" to keep it shortened with a mark, or raise max_record_bytes.'


class SessionConflict(MemorySqliteError):
    """A session is already known to be of another chat type or kind."""

    code = "session_conflict"
    exit_code = 2
    default_hint = "Use another session key; what a session is does not change once it is known."


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


class LabelsInvalid(MemorySqliteError, ValueError):
    """A file of labelled queries cannot be used; the message names the first line that is wrong."""

    code = "labels_invalid"
    exit_code = 65
    default_hint = 'One JSON object a line, e.g. {"query": "router VLAN", "expected": ["memory/net.md"]}.'


class WorkspaceUnavailable(MemorySqliteError):
    """The workspace does not exist or is not a directory."""

    code = "workspace_unavailable"
    exit_code = 66
    default_hint = "Pass --workspace with the directory that holds MEMORY.md and memory/."


class IndexUnavailable(MemorySqliteError):
    """The derived index cannot be opened and cannot be rebuilt here and now."""

    code = "index_unavailable"
    exit_code = 69
    default_hint = "Run `memory-sqlite index --full`; the index is derived and can always be rebuilt."


class ExtraMissing(MemorySqliteError):
    """What was asked for needs a package that is not installed; it comes with an extra."""

    code = "extra_missing"
    exit_code = 69
    default_hint = "Install the extra that the message names, e.g. `pip install 'memory-sqlite[watch]'`."


class EmbeddingFailed(MemorySqliteError):
    """The embedding provider is down, slow, or answers with what are no vectors; keyword search works without it."""

    code = "embedding_failed"
    exit_code = 75
    retryable = True
    default_hint = "Check that the provider of `memory-sqlite config` can be reached, then run `memory-sqlite index`."


class Cancelled(MemorySqliteError):
    """The caller cancelled, or the deadline passed, before an answer was there."""

    code = "cancelled"
    exit_code = 75
    retryable = True


class Overloaded(MemorySqliteError):
    """More requests are waiting for workers than a pool takes; this one was refused at once and nothing was done."""

    code = "overloaded"
    exit_code = 75
    retryable = True
    default_hint = "Wait for an answer before asking more, or ask from fewer threads."


class WorkerLost(MemorySqliteError):
    """The worker process that had the request died or answered wrongly; the next request gets a new worker."""

    code = "worker_lost"
    exit_code = 75
    retryable = True


class ProviderRefused(MemorySqliteError):
    """A host refused a request before or after a provider's code: a capability not declared, a foreign reference."""

    code = "provider_refused"
    exit_code = 2
    default_hint = "Ask only for what the handle's capabilities declare, with references of that provider."


class ProviderInvalid(MemorySqliteError):
    """A plugin registered or returned something that is not a memory provider, capability or engine."""

    code = "provider_invalid"
    exit_code = 1
    default_hint = "Correct the plugin: the conformance kit names each rule it breaks."


class ProviderUnavailable(MemorySqliteError):
    """There is no memory provider to ask, its handle was closed, or its plugin instance is gone."""

    code = "provider_unavailable"
    exit_code = 6
    default_hint = "Open a new handle; select and enable a memory plugin where there is none."


class CallerNotCurrent(MemorySqliteError):
    """The caller's authority or audience was forged, belongs elsewhere, or has lapsed."""

    code = "caller_not_current"
    exit_code = 5
    default_hint = "Resolve the audience again from the turn that is running."


class CurrencyUnavailable(CallerNotCurrent):
    """A session is being written at this moment, so nobody can say whether the caller is still current."""

    code = "currency_unavailable"
    exit_code = 5
    retryable = True
    default_hint = "Try again when the session has been written."


class AudienceDenied(MemorySqliteError):
    """A turn has no memory audience: its lineage is over, could not be verified, or never grants one."""

    code = "audience_denied"
    exit_code = 5
    default_hint = "Go on without private memory; spawn the session anew when its lineage is stale."

    def __init__(self, kind: AudienceDenialKind, message: str, *, hint: str | None = None) -> None:
        """``stale-lineage``: an ancestor was reset or removed, or nothing was recorded: spawn the session anew.
        ``unverified``: something moved or could not be read: a later turn tries again. ``ineligible``: malformed,
        cyclic, of another agent, too deep, or without a durable chat type."""
        super().__init__(message, hint=hint)
        self.kind = kind


class CursorExpired(MemorySqliteError):
    """A cursor cannot be continued: it is damaged, somebody else's, of another query, or too old."""

    code = "cursor_expired"
    exit_code = 4
    default_hint = "Search again without a cursor."


class BudgetTooSmall(MemorySqliteError, ValueError):
    """Not even the newest turn, shortened, fits into the token budget."""

    code = "budget_too_small"
    exit_code = 2
    default_hint = "Give a larger token budget, or compact the conversation first."


class AdvancementCollision(MemorySqliteError):
    """An advancement key is already in use for another turn, engine or owner."""

    code = "advancement_collision"
    exit_code = 1
    default_hint = "Use one advancement key for one logical turn; it is for ever."


class FenceBroken(MemorySqliteError):
    """The entry a running turn began with is gone, rewritten or moved, or a cursor has passed it."""

    code = "fence_broken"
    exit_code = 1
    retryable = True
    default_hint = "Go on with the legacy context for this turn; the next one tries the engine again."


class TurnUnreadable(MemorySqliteError):
    """An accepted turn could not be read from its host's transcript; ``kind`` says why. One kind is worth retrying."""

    code = "turn_unreadable"
    exit_code = 1
    default_hint = "A transcript that is being rebuilt is read again by the next drain; any other turn stays blocked."

    def __init__(self, kind: str) -> None:
        super().__init__(f"the turn cannot be read from its transcript: {kind}")
        self.kind = kind

    @property
    def is_transient(self) -> bool:
        """Whether the transcript can only not be read at this moment."""
        return self.kind == "projection-unavailable"


class EngineTimedOut(MemorySqliteError):
    """A context engine did not answer in time; what it was given goes on until it settles."""

    code = "engine_timed_out"
    exit_code = 75
    retryable = True


class MemoryClosed(MemorySqliteError):
    """The ``Memory`` was closed before the call."""

    code = "closed"
    exit_code = 1
    default_hint = "Open it again with Memory.open()."


def _subclasses(base: type[MemorySqliteError]) -> list[type[MemorySqliteError]]:
    found: list[type[MemorySqliteError]] = []
    for child in base.__subclasses__():
        found.append(child)
        found.extend(_subclasses(child))
    return found


def catalogue() -> dict[str, type[MemorySqliteError]]:
    """Every error by its code, in definition order."""
    return {error.code: error for error in _subclasses(MemorySqliteError)}
