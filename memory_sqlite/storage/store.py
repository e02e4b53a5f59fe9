"""One agent's store, opened: data directory, session key, file, schema, key fingerprint.

Everything that must hold before a row is read or written is checked here, in order, and nothing is created before the
checks that could refuse have passed. Not here: what the tables mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.crypto import directory_lock
from memory_sqlite.crypto.directory_lock import Hold
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import file_system, migrate, session_key, unlocking
from memory_sqlite.storage.failures import is_full, translated
from memory_sqlite.storage.pool import ReaderPool
from memory_sqlite.storage.read_only_media import Media
from memory_sqlite.values import dataclass, field

_MANIFEST_BEGIN: Final = 256
_SMALLEST_DATABASE: Final = 512
"""Bytes of the smallest page that SQLite knows."""
_LAYERED_FOLDERS: Final = (
    "conversations",
    "memories",
    "scenarios",
    "profiles",
    "records",
    "sessions",
    "agent-profiles",
)


@dataclass
class Store:
    """An open store. ``connection`` writes unless ``read_only`` and is used by one thread at a time; ``readers`` serve
    reads beside it. ``file_key`` opens its generations too; ``hold`` keeps changes of keys away until it is closed."""

    agent: str
    directory: Path
    key: bytes
    connection: apsw.Connection
    read_only: bool
    readers: ReaderPool
    file_key: FileKey | None = None
    hold: Hold | None = None
    caution: str | None = None
    """What whoever uses it should hear of where it lies."""
    media: Media = field(default_factory=Media)
    """How its files are opened for reading where nothing may be written."""

    def token(self, session: str) -> str:
        """The opaque token of a session key."""
        return paths.session_token(self.key, session)

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """One write transaction: all of it is on disk when the block ends, or none of it.

        Raises ``StoreReadOnly``, ``StoreBusy``, ``DiskFull``, ``StoreDamaged``.
        """
        if self.read_only:
            raise errors.StoreReadOnly("the store was opened for reading only")
        with translated("the store"), connections.writing(self.connection):
            yield self.connection

    def close(self) -> None:
        """Close every connection; safe to call twice."""
        self.readers.close()
        self.connection.close()
        self.media.close()
        if self.hold is not None:
            self.hold.close()


def _readers(path: Path, key: FileKey | None, opener: Callable[[], apsw.Connection]) -> ReaderPool:
    def opened() -> apsw.Connection:
        with unlocking.noticing_changes(path, key):
            connection = opener()
            try:
                connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            except BaseException:
                connection.close()
                raise
        return connection

    return ReaderPool(opened, "the store")


def layered_layout(data_dir: Path) -> bool:
    """True when a directory was written by the layered-memory product (any of its generations)."""
    if (data_dir / ".isolation-key").exists() or (data_dir / ".encryption-check").exists():
        return True
    roots = [data_dir]
    try:
        roots += list((data_dir / paths.AGENTS_DIRECTORY).iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    for root in roots:
        for folder in _LAYERED_FOLDERS:
            candidate = root / folder
            if candidate.is_dir() and next(candidate.rglob("*.jsonl"), None) is not None:
                return True
    return False


def refuse_backup(data_dir: Path) -> None:
    """Raise ``InvalidArgument`` for a backup: once written to it is one no more, for its manifest would not fit."""
    try:
        with (data_dir / paths.BACKUP_MANIFEST_FILE).open("rb") as manifest:
            begin = manifest.read(_MANIFEST_BEGIN)
    except OSError:
        return
    if paths.BACKUP_FORMAT.encode() in begin and (data_dir / paths.AGENTS_DIRECTORY).is_dir():
        raise errors.InvalidArgument(
            "the data directory is a backup and was not touched",
            hint="`memory-sqlite restore` makes a data directory from it; it can be opened for reading as it is.",
        )


def _make_directories(*directories: Path) -> None:
    """Each with mode 0700 and what is missing above it too; existing ones stay as they are."""
    try:
        # one by one: with ``parents`` the mode would be the last one's only, and the others open to all under umask 0
        for wanted in directories:
            for directory in (*reversed(wanted.parents), wanted):
                if not directory.is_dir():
                    directory.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise errors.StoreReadOnly(
            f"a file stands where the directory {Path(str(error.filename)).name!r} should be"
        ) from error
    except OSError as error:
        if is_full(error):
            raise errors.DiskFull("the disk is full; the data directory could not be made") from error
        raise errors.StoreReadOnly(f"the data directory cannot be made ({error.strerror})") from error


def _make_file(path: Path) -> None:
    """An empty file with mode 0600, so that SQLite gives its -wal and -shm the same. Never touches an existing one."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        if is_full(error):
            raise errors.DiskFull(f"the disk is full; {path.name} could not be made") from error
        raise errors.StoreReadOnly(f"{path.name} cannot be made ({error.strerror})") from error
    session_key.sync_directory(path.parent)


def _refuse_unsuitable(path: Path) -> None:
    """Links, directories and other things that are not a plain file."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise errors.StoreReadOnly(f"memory.sqlite cannot be reached ({error.strerror})") from error
    if not path.is_file() or path.is_symlink():
        raise errors.StoreDamaged("memory.sqlite is not a regular file")
    if status.st_size and not os.access(path, os.R_OK):
        raise errors.StoreReadOnly("memory.sqlite cannot be read")
    if 0 < status.st_size < _SMALLEST_DATABASE:  # SQLite takes one byte for an empty file and would write over it
        raise errors.StoreDamaged("memory.sqlite is damaged or not a database")
    if not status.st_size and _was_a_store(path):
        raise errors.StoreDamaged("memory.sqlite is empty, although there was a store")


def _was_a_store(path: Path) -> bool:
    """Whether an empty file once held something: SQLite would throw its WAL away, and with it what can be saved. An
    empty file alone is what a crash leaves between making the file and its schema."""
    try:
        if path.with_name(path.name + "-wal").stat().st_size:
            return True
    except FileNotFoundError:
        pass
    return any(paths.generation_number(entry.name) is not None for entry in os.scandir(path.parent))


def _check_key(store: Store, *, write: bool) -> None:
    """The store was made under this session key, or becomes so on its first open."""
    expected = store.connection.execute("SELECT value FROM store_info WHERE key = 'session_key_fingerprint'").get
    actual = session_key.fingerprint(store.key)
    if expected is None and write:
        with store.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO store_info VALUES ('session_key_fingerprint', ?), ('agent', ?)",
                (actual, store.agent),
            )
        return
    if expected != actual:
        raise errors.SessionKeyChanged("session.key is not the one this agent's store was made with")


def agents(data_dir: Path) -> list[str]:
    """Directory names below ``agents`` that hold a store; the hash keeps names that differ only in case apart."""
    try:
        found = [entry.name for entry in os.scandir(data_dir / paths.AGENTS_DIRECTORY) if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return sorted(name for name in found if (data_dir / paths.AGENTS_DIRECTORY / name / paths.STORE_FILE).exists())


def open_for_writing(data_dir: Path, agent: str, clock: Clock, secret: Secret | None = None) -> Store:
    """Open an agent's store, making directories, keys, file and schema where they are missing.

    ``secret`` is where the user's key comes from, ``None`` for a store in clear.

    Raises ``LegacyLayout``, ``InvalidArgument`` for a backup, the three session-key errors, those of encryption,
    ``SchemaTooNew``, ``StoreDamaged``, ``StoreBusy``, ``StoreReadOnly``, ``DiskFull``. A newer, damaged or
    foreign file is left exactly as it is.
    """
    directory = paths.agent_directory(data_dir, agent)
    path = directory / paths.STORE_FILE
    _refuse_unsuitable(path)
    refuse_backup(data_dir)
    if not path.exists() and layered_layout(data_dir):
        raise errors.LegacyLayout("this directory belongs to the layered-memory product and was not touched")
    system = file_system.of(data_dir)
    if system.kind == "unsuitable":
        raise errors.FileSystemUnsuitable(
            f"the data directory is on a mount of type {system.type}, made for whole files"
        )
    if not data_dir.is_dir():
        unlocking.look(data_dir, directory, secret)  # a key that cannot be read leaves nothing behind
        _make_directories(data_dir)
    hold = directory_lock.hold(data_dir)
    try:
        store = _open_for_writing(data_dir, directory, agent, clock, secret, hold)
    except BaseException:
        hold.close()
        raise
    if system.kind == "network":
        store.caution = f"the data directory is on a network mount ({system.type}): one machine alone may open it"
    return store


def _open_for_writing(
    data_dir: Path, directory: Path, agent: str, clock: Clock, secret: Secret | None, hold: Hold
) -> Store:
    path = directory / paths.STORE_FILE
    looked = unlocking.look(data_dir, directory, secret)
    try:
        key = session_key.load_or_create(data_dir, clock)
    except OSError as error:
        if is_full(error):
            raise errors.DiskFull("the disk is full; session.key could not be made") from error
        raise errors.StoreReadOnly(f"session.key cannot be made ({error.strerror})") from error
    file_key = looked.file_key(key, clock, write=True, hold=hold)
    _make_directories(directory)
    if path.exists() and path.stat().st_size:
        _check_untouched(path, file_key)
    _make_file(path)
    connection = connections.open_store(path, file_key)
    readers = _readers(path, file_key, lambda: connections.open_store_reader(path, file_key))
    store = Store(agent, directory, key, connection, False, readers, file_key, hold)
    try:
        with translated("the store"):
            if connection.readonly("main"):
                raise errors.StoreReadOnly("the store cannot be written")
            migrate.migrate(connection)
            _check_key(store, write=True)
    except BaseException:
        store.close()
        raise
    return store


def _check_untouched(path: Path, key: FileKey | None) -> None:
    """Look through a read-only connection first: a file we must refuse is not even switched to WAL."""
    reader = connections.open_store_reader(path, key)
    try:
        with translated("the store"):
            try:
                migrate.check(reader)
            except apsw.ReadOnlyError:
                # a writer died in the middle: SQLite mends the file when it is opened for writing, a reader may not;
                # the same check is made again there, before anything of ours is written
                return
    finally:
        reader.close()


def open_for_reading(data_dir: Path, agent: str, clock: Clock, secret: Secret | None = None) -> Store:
    """Open an agent's store for reading; makes nothing. Raises ``UnknownAgent`` when there is none, and what
    ``open_for_writing`` raises of keys."""
    directory = paths.agent_directory(data_dir, agent)
    path = directory / paths.STORE_FILE
    _refuse_unsuitable(path)
    if not path.exists() or not path.stat().st_size:
        if layered_layout(data_dir):
            raise errors.LegacyLayout("this directory belongs to the layered-memory product and was not touched")
        raise errors.UnknownAgent(f"there is no memory of an agent named {agent!r}")
    hold, media = directory_lock.hold(data_dir), Media()
    try:
        looked = unlocking.look(data_dir, directory, secret)
        key = session_key.load(data_dir)
        file_key = looked.file_key(key, clock, write=False)
        with translated("the store"):
            connection = media.open(path, file_key, connections.open_store_reader)
    except BaseException:
        media.close()
        hold.close()
        raise
    readers = _readers(path, file_key, lambda: media.open(path, file_key, connections.open_store_reader))
    store = Store(agent, directory, key, connection, True, readers, file_key, hold, media=media)
    try:
        with translated("the store"):
            if migrate.check(connection) < migrate.latest():
                raise errors.StoreReadOnly("the store must be upgraded first; open it once for writing")
            _check_key(store, write=False)
    except BaseException:
        store.close()
        raise
    return store
