"""One agent's store and search index under another key. One rename makes the change; what is before it is beside it.

The index gets a new number under the new key first; the new store names it, and takes the old store's place. So at
every moment the store that is there and the index it names are whole and of one key, and a process that is killed
leaves files that nobody names. Not here: which agents, and the keyring (``run``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.keyring_file import sync_directory
from memory_sqlite.generations import registry
from memory_sqlite.rekeying.reports import AgentChange
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate, reencryption, unlocking
from memory_sqlite.storage.failures import translated
from memory_sqlite.values import dataclass

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Keys:
    """From which key to which; ``was`` is the id of the first."""

    old: FileKey | None
    new: FileKey | None

    @property
    def was(self) -> str | None:
        return None if self.old is None else self.old.key_id


def check(directory: Path, key: FileKey | None) -> None:
    """Refuse what must not be copied: a store of another program, of a newer version. Raises ``StoreDamaged``,
    ``SchemaTooNew``, ``StoreBusy``."""
    connection = connections.open_trial(directory / paths.STORE_FILE, key)
    try:
        with translated(f"the store of {directory.name}"):
            try:
                migrate.check(connection)
            except apsw.ReadOnlyError:
                pass  # a writer died in the middle; opened for writing it is mended, and checked again
    finally:
        connection.close()


def change(directory: Path, keys: Keys, now: int, step: Step) -> AgentChange:
    """Everything of one agent under the new key. ``step`` hears what is being done.

    Raises the store's errors; then store and index are as they were.
    """
    path = directory / paths.STORE_FILE
    before_bytes = size(directory)
    reencryption.sweep(directory)
    with reencryption.alone(path, keys.old) as source:
        with translated("the store"):
            migrate.check(source)
            current = registry.current(source)
            number, dropped = None, None
            if current is not None:
                number, dropped = _index(directory, current.number, _next_number(directory, source), keys, step)
            step("store")
            before = reencryption.digests(source)
        copied = reencryption.beside(path)
        reencryption.copy(source, copied, keys.new)
        try:
            with reencryption.copied(copied, keys.new) as target:
                reencryption.verify(before, target)
                with translated("the copy"), connections.writing(target):
                    _name_index(target, current, number, now)
            reencryption.finish(copied)
            step("swap")
            reencryption.put_in_place(copied, path)
        except BaseException:
            reencryption.discard(copied)
            raise
    clean(directory, number)
    rows = sum(count for name, (count, _) in before.items() if name != "sqlite_schema")
    return AgentChange(directory.name, keys.was, before_bytes, rows, number, dropped)


def clean(directory: Path, number: int | None) -> None:
    """Take away what is of the old key: every generation but the one the store names. Raises ``StoreReadOnly``."""
    for index in unlocking.generation_files(directory):
        if paths.generation_number(index.name) != number:
            reencryption.erase(index)
    reencryption.sweep(directory)
    try:
        sync_directory(directory)
    except OSError as error:
        raise reencryption.refused(error) from error


def finished(directory: Path, key: FileKey | None) -> None:
    """For an agent whose store has the new key already: what was left to clean when somebody was killed."""
    with reencryption.alone(directory / paths.STORE_FILE, key) as connection, translated("the store"):
        current = registry.current(connection)
    clean(directory, None if current is None else current.number)


def _next_number(directory: Path, source: apsw.Connection) -> int:
    """Numbers are never used twice, not those that a killed process gave either."""
    used = source.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'generations'").get
    files = [paths.generation_number(path.name) or 0 for path in unlocking.generation_files(directory)]
    return max([int(str(used)), *files]) + 1


def _index(directory: Path, number: int, new_number: int, keys: Keys, step: Step) -> tuple[int | None, str | None]:
    """The current generation under its new key and number; ``None`` and why when it cannot be taken along."""
    path = paths.generation_file(directory, number)
    if not path.is_file() or path.is_symlink():
        return None, "its file is not there"
    step("index")
    new = paths.generation_file(directory, new_number)
    copied = reencryption.beside(new)
    try:
        with reencryption.alone(path, keys.old) as source:
            with translated("the index"):
                before = reencryption.digests(source)
            reencryption.copy(source, copied, keys.new)
            with reencryption.copied(copied, keys.new) as target:
                reencryption.verify(before, target)
            reencryption.finish(copied)
            copied.replace(new)
            sync_directory(directory)
    except errors.StoreDamaged:  # it is derived: one that is damaged is built anew, and holds nothing up
        reencryption.discard(copied)
        return None, "it is damaged"
    except OSError as error:
        reencryption.discard(copied)
        raise reencryption.refused(error) from error
    except BaseException:
        reencryption.discard(copied)
        raise
    return new_number, None


def _name_index(target: apsw.Connection, current: registry.Generation | None, number: int | None, now: int) -> None:
    """Let the new store name the new index and no other; inside the caller's transaction."""
    target.execute("DELETE FROM generations").fetchall()
    if current is None or number is None:
        return
    target.execute(
        "INSERT INTO generations (number, identity, state, created_at, published_at) VALUES (?, ?, 'current', ?, ?)",
        (number, json.dumps(current.identity), current.created_at, now),
    ).fetchall()


def size(directory: Path) -> int:
    """The bytes of an agent's files."""
    found = [directory / paths.STORE_FILE, *unlocking.generation_files(directory)]
    return sum(path.stat().st_size for path in found if path.is_file())
