"""``doctor --fix``: mends what the catalogue says it mends, loses nothing, and looks again afterwards.

Files are set aside, never deleted; the store is changed only by what opening it would do anyway, by the indexes of its
schema, and by saying which generation is current. Called by the door. Not here: finding (``examine``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import file_checks, schema
from memory_sqlite.doctor.catalogue import FINDINGS
from memory_sqlite.doctor.examine import Progress, examine
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.doctor.machine_checks import known_workspace
from memory_sqlite.doctor.place import Place
from memory_sqlite.doctor.quarantine import Quarantine
from memory_sqlite.doctor.report import DoctorReport, Mending
from memory_sqlite.generations import registry
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate
from memory_sqlite.storage import store as stores
from memory_sqlite.storage.failures import translated
from memory_sqlite.storage.fetch import all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_sqlite.agent.opened import Opened

_PASSES: Final = 3
"""Looks with mending between them: what one mends may show another (of two current generations one is left over)."""
_NEVER: Final = frozenset({
    "store_damaged", "store_foreign", "store_not_a_file", "store_missing", "store_emptied", "schema_too_new",
    "store_of_another_agent", "session_key_missing", "session_key_invalid", "session_key_changed", "store_foreign_keys",
})  # fmt: skip
"""With one of these the store is not opened for writing: nothing is built from what is wrong."""


class _Work:
    """One pass of mending."""

    def __init__(self, place: Place, found: Collection[Finding], quarantine: Quarantine, progress: Progress | None):
        self.place = place
        self.codes = {one.code for one in found}
        self.found = found
        self.quarantine = quarantine
        self.progress = progress
        self.failed: dict[str, str] = {}

    def each(self) -> None:
        """Every mending in order: who may read, what is set aside, the store, the index."""
        for codes, mend in _MENDINGS:
            asked = self.codes & codes
            if not asked:
                continue
            try:
                mend(self)
            except errors.MemorySqliteError as error:
                self._fail(asked, error.code)
            except (apsw.Error, OSError) as error:
                self._fail(asked, type(error).__name__)

    def _fail(self, codes: Collection[str], reason: str) -> None:
        self.failed |= dict.fromkeys(codes, reason)


def fix(
    settings: Settings,
    clock: Clock,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    only: Collection[str] | None = None,
) -> DoctorReport:
    """Look, mend, look again. The report is of the last look, with what became of each code in ``mendings``.

    Raises nothing that a mending meets: ``mendings`` says what could not be tried.
    """
    quarantine = Quarantine(Place(settings, clock).directory, clock)
    report = examine(settings, clock, deep=deep, progress=progress, only=only)
    tried: dict[str, str] = {}
    for _ in range(_PASSES):
        found = [one for one in report.findings if FINDINGS[one.code].mends]
        if all(one.code in tried for one in found):
            break
        with Place(settings, clock, deep=deep) as place:
            work = _Work(place, found, quarantine, progress)
            work.each()
        tried |= {one.code: "" for one in found} | work.failed
        report = examine(settings, clock, deep=deep, progress=progress, only=only)
    left = {one.code for one in report.findings}
    return replace(
        report,
        mendings=tuple(_outcome(code, reason, left) for code, reason in tried.items()),
        quarantine=None if quarantine.folder is None else quarantine.folder.name,
    )


def _outcome(code: str, reason: str, left: Collection[str]) -> Mending:
    if code not in left:
        return Mending(code, "mended")
    return Mending(code, "failed", reason) if reason else Mending(code, "still")


def _permissions(work: _Work) -> None:
    for path in file_checks.open_to_others(work.place):
        path.chmod(path.lstat().st_mode & 0o700)


def _temporary(work: _Work) -> None:
    for path in file_checks.temporary(work.place):
        work.quarantine.move(path)


def _leftovers(work: _Work) -> None:
    """Each is looked at once more, alone: one that somebody has opened since stays where it is."""
    for one in work.found:
        if one.code != "index_leftover":
            continue
        path = work.place.directory / str(one.evidence["file"])
        try:
            probe = connections.open_index_probe(path, work.place.file_key()) if path.is_file() else None
        except (apsw.NotADBError, apsw.CorruptError):
            probe = None
        else:
            if probe is None and path.is_file():
                continue
        try:
            work.quarantine.move(path)
        finally:
            if probe is not None:
                probe.close()


@contextmanager
def _store(work: _Work) -> Iterator[apsw.Connection]:
    """The store for writing, with the schema it has."""
    if work.codes & _NEVER or not work.place.has_store():
        raise errors.StoreReadOnly("nothing is written to a store in this state")
    stores.refuse_backup(work.place.data_dir)
    connection = connections.open_store(work.place.store_path, work.place.file_key())
    try:
        with translated("the store"):
            migrate.check(connection)
            yield connection
    finally:
        connection.close()


def _indexes_of_schema(work: _Work) -> None:
    with _store(work) as store, connections.writing(store):
        for sql in schema.missing_indexes(store, migrate.check(store)):
            store.execute(sql).fetchall()


def _one_current(work: _Work) -> None:
    """The newest whose file is there stays current; the others become what they were before: retired."""
    with _store(work) as store, connections.writing(store):
        numbers = {int(row[0]) for row in all_rows(store, "SELECT number FROM generations WHERE state = 'current'")}
        here = {number for number in numbers if paths.generation_file(work.place.directory, number).is_file()}
        for number in numbers - {max(here or numbers)}:
            store.execute(
                "UPDATE generations SET state = 'retired', retired_at = ? WHERE number = ?",
                (work.place.clock.now_ms(), number),
            ).fetchall()


def _logs(work: _Work) -> None:
    for one in work.found:
        if one.code == "wal_large":
            path = work.place.directory / str(one.evidence["file"]).removesuffix("-wal")
            opened = connections.open_store if path.name == paths.STORE_FILE else connections.open_index
            connection = opened(path, work.place.file_key())
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.close()


def _forgettings(work: _Work) -> None:
    from memory_sqlite.forgetting import run

    with _opened(work) as opened:
        if opened.has_unfinished_forgetting():
            run.resume(opened, work.place.settings, work.place.clock)


def _index(work: _Work) -> None:
    """Apply what lacks; a generation that is replaced gets a second name in the quarantine folder first, unless it
    holds what was forgotten."""
    from memory_sqlite.agent import freshness

    place, full = work.place, bool(work.codes & _REPLACED)
    workspace = known_workspace(place)
    if workspace is not None and not workspace.is_dir():  # an index built now would have no notes
        raise errors.WorkspaceUnavailable("the workspace is not there")
    with place.store() as store:
        current = registry.current(store)
    before = None if current is None else current.number
    if full and before is not None and "forgotten_in_index" not in work.codes:
        path = paths.generation_file(place.directory, before)
        if path.is_file():
            work.quarantine.keep(path)
    with _opened(work) as opened:
        # opening may have built it anew already
        again = full and opened.keeper.number() == before
        freshness.index(opened, place.settings, place.clock, full=again, progress=work.progress)


@contextmanager
def _opened(work: _Work) -> Iterator[Opened]:
    from memory_sqlite.agent.opened import open_agent

    if work.codes & _NEVER or not work.place.has_store():
        raise errors.StoreReadOnly("nothing is written to a store in this state")
    opened = open_agent(work.place.settings, work.place.clock, read_only=False, progress=work.progress)
    try:
        yield opened
    finally:
        opened.close()


_REPLACED: Final = frozenset({
    "index_damaged", "index_outdated", "index_of_another_store", "index_inconsistent", "index_does_not_answer",
    "index_incomplete", "forgotten_in_index", "vectors_inconsistent",
})  # fmt: skip
_MENDINGS: Final[tuple[tuple[frozenset[str], Callable[[_Work], None]], ...]] = (
    (frozenset({"permissions_open"}), _permissions),
    (frozenset({"temporary_leftover"}), _temporary),
    (frozenset({"index_leftover"}), _leftovers),
    (frozenset({"index_several_current"}), _one_current),
    (frozenset({"schema_differs"}), _indexes_of_schema),
    (frozenset({"forgetting_unfinished"}), _forgettings),
    (_REPLACED | {"index_missing", "index_file_missing", "index_behind"}, _index),
    (frozenset({"wal_large"}), _logs),
)
"""Codes, and what mends them, in the order in which it is done."""
assert {code for codes, _ in _MENDINGS for code in codes} == {code for code, kind in FINDINGS.items() if kind.mends}
