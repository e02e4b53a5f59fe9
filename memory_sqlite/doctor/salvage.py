"""Everything that can be read of a damaged store, in a new data directory beside it. The original is only read.

Lives here: the order of the work and the report. Pages come from ``page_copy``, their rows from ``tree_pages`` and
``tree_walk``; ``salvaged_rows`` puts them into a new store. What is derived (generations) is left for ``index`` to
build. Called by ``salvaging``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.backup import placing
from memory_sqlite.clock import Clock
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor import page_copy, tree_shapes, tree_walk
from memory_sqlite.doctor.salvaged_rows import Filling
from memory_sqlite.doctor.tree_pages import Reader
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate, session_key
from memory_sqlite.storage.failures import translated
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.transcripts.identity import text_digest
from memory_sqlite.values import dataclass

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """``whole``: nothing was missing. ``tables`` says of each table what came over and what did not (see
    ``salvaged_rows.Salvaged``); ``doubtful`` are messages whose text is not the one that was once stored: a plain file
    has no check of its pages, and the text came over as it is now. ``session_key`` is ``new`` when the old one was
    lost: then tokens in old citations name nothing any more."""

    status: Literal["whole", "partial"]
    path: str
    pages: int
    unreadable_pages: int
    unattributed_pages: int
    tables: Mapping[str, Mapping[str, int]]
    doubtful: int
    session_key: Literal["kept", "new"]


def salvage(
    directory: Path, out: Path, key: FileKey | None = None, progress: Progress | None = None, clock: Clock | None = None
) -> SalvageReport:
    """Read what can be read of the store in an agent's directory into the new data directory ``out``.

    ``key`` is that of the agent's files, ``None`` for a store in clear. ``out`` is there whole or not at all, with mode
    0700, the store of the same agent in it in the newest schema, and what opens it: ``session.key`` and, where the
    source has one, ``keyring.json``. It has no index yet: open it once for writing. What a killed salvage leaves beside
    ``out`` is taken away by the next one into the same place.

    Raises ``OutputExists``; ``StoreDamaged`` when nothing in the file can be read, ``EncryptionKeyWrong`` when nothing
    opens with the key; ``UnknownAgent`` when there is no file; ``StoreBusy`` while somebody writes to it;
    ``InvalidArgument``, ``StoreReadOnly`` and ``DiskFull`` for ``out``.
    """
    store = directory / paths.STORE_FILE
    if not store.is_file() or store.is_symlink():
        raise errors.UnknownAgent("there is no memory.sqlite in this agent's directory")
    if out.exists():
        raise errors.OutputExists("what was to be salvaged into is there already", hint="Name a new directory.")
    clock = clock or Clock()
    with placing.placed(out, clock, "new data directory") as stage:
        scratch = stage / "scratch"
        scratch.mkdir(mode=0o700)
        with translated("the new store"):
            report = _salvaged(store, stage, scratch, key, progress or _quiet, clock, out)
        shutil.rmtree(scratch)
    return report


def _quiet(stage: str, done: int, total: int | None) -> None:
    """Nobody wants to hear."""


def _salvaged(
    store: Path, stage: Path, scratch: Path, key: FileKey | None, progress: Progress, clock: Clock, out: Path
) -> SalvageReport:
    directory = stage / paths.AGENTS_DIRECTORY / store.parent.name
    directory.mkdir(mode=0o700, parents=True)
    directory.parent.chmod(0o700)
    secret, kept = _session_key(store.parent.parent.parent, stage, clock)
    progress("salvage", 0, None)
    with page_copy.pages(store, key, scratch) as source:
        version = _version(source.reader)
        shapes = tree_shapes.shapes(version)
        forest = tree_walk.walk(source.reader, shapes)
        if not any(forest.pages[name] for name in ("sessions", "turns", "messages", "records", "store_info")):
            raise errors.StoreDamaged(
                "nothing in memory.sqlite can be read", hint="If it is encrypted, configure its key; else restore it."
            )
        path = directory / paths.STORE_FILE
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        target = connections.open_store(path, key)
        try:
            target.pragma("foreign_keys", False)
            tree_shapes.fresh(target, version)
            filling = Filling(target, source.reader, forest, shapes, secret, clock.now_ms())
            for done, table in enumerate(filling.tables):
                with connections.writing(target):
                    filling.table(table)
                progress("salvage", done + 1, len(filling.tables))
            with connections.writing(target):
                filling.parents()
                filling.mend()
                filling.numbers()
                kept = _own(target, secret, kept)
            migrate.migrate(target)
            doubtful = _doubtful(target)
        finally:
            target.close()
    tables = filling.counted()
    missing = sum(sum(counts.values()) - counts["rows"] for counts in tables.values())
    whole = not (missing or doubtful or source.unreadable or forest.incomplete or forest.unattributed) and kept
    return SalvageReport(
        "whole" if whole else "partial",
        str(out),
        source.reader.count,
        len(source.unreadable),
        forest.unattributed,
        tables,
        doubtful,
        "kept" if kept else "new",
    )


def _version(reader: Reader) -> int:
    """The schema that the file's first page names; the newest where it cannot be read or names none of ours."""
    page = reader.header()
    version = int.from_bytes(page[60:64], "big")
    is_ours = int.from_bytes(page[68:72], "big") == migrate.APPLICATION_ID
    return version if is_ours and 1 <= version <= migrate.latest() else migrate.latest()


def _session_key(data_dir: Path, stage: Path, clock: Clock) -> tuple[bytes, bool]:
    """The key of tokens in the new directory, and whether it is the old one. A keyring goes along as it is: wrapped."""
    keyring = data_dir / paths.KEYRING_FILE
    if keyring.is_file() and not keyring.is_symlink():
        descriptor = os.open(stage / paths.KEYRING_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(keyring.read_bytes())
    try:
        old = session_key.load(data_dir)
    except errors.MemorySqliteError:
        return session_key.load_or_create(stage, clock), False
    session_key.adopt(stage, old, clock)
    return old, True


def _own(target: apsw.Connection, secret: bytes, kept: bool) -> bool:
    """Make the new store that of its session key; returns whether tokens are what they were."""
    mine = session_key.fingerprint(secret)
    known = target.execute("SELECT value FROM store_info WHERE key = 'session_key_fingerprint'").get
    kept = kept and known in (None, mine)
    target.execute("INSERT OR REPLACE INTO store_info VALUES ('session_key_fingerprint', ?)", (mine,)).fetchall()
    if not kept:
        for number, name in all_rows(target, "SELECT id, key FROM sessions"):
            target.execute(
                "UPDATE sessions SET token = ? WHERE id = ?", (paths.session_token(secret, str(name)), number)
            ).fetchall()
    return kept


def _doubtful(target: apsw.Connection) -> int:
    rows = target.execute("SELECT role, text, text_digest FROM messages")
    return sum(text_digest(str(role), str(text)) != digest for role, text, digest in rows)
