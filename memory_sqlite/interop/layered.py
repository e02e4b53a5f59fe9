"""Importing a directory of the layered-memory product: its turns, records, ids, times and citations.

The directory is only read. Three times, so that memory stays bounded whatever it holds: everything is looked at before
the first row is stored, then come the turns, then the records made from them. What was stored before a crash is
recognised by the next import, which goes on behind it. Not here: reading (``layered_directory``), rows
(``layered_rows``), the keys (``layered_key``, ``layered_check``). Called by ``Memory.import_layered``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.indexing import rows
from memory_sqlite.interop import layered_check, layered_rows
from memory_sqlite.interop.layered_cipher import LineCipher
from memory_sqlite.interop.layered_directory import (
    LayeredItem,
    LayeredProblem,
    LayeredRecord,
    LayeredTurn,
    read_layered,
)
from memory_sqlite.interop.layered_files import KEY_FILE, day_files, has_agent, is_layered_directory
from memory_sqlite.interop.layered_key import adopt_session_key, check_source, read_isolation_key, unknown_source
from memory_sqlite.layers import retention_rule
from memory_sqlite.model import Expiry, ImportReport, SourceProblem
from memory_sqlite.paths import agent_directory_name
from memory_sqlite.storage.connection import writing
from memory_sqlite.transcripts import arrivals
from memory_sqlite.values import dataclass, field

__all__ = ["adopt_session_key", "check_before", "import_directory"]

Progress = Callable[[str, int, int | None], None]

_BATCH_ITEMS: Final = 200
"""Lines a transaction: a sync a batch instead of a sync a line, and never a long write lock."""
_BATCH_BYTES: Final = 2 * limits.MIB
_BULK_CHANGES: Final = 5_000
"""After this many changes the index is tidied as after a build, like after a transcript import."""
_REFUSALS: Final = (errors.InvalidArgument, errors.SessionConflict)
"""What one bad line may raise: it costs that line."""


@dataclass
class _Tally:
    files: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    turns_stored: int = 0
    turns_known: int = 0
    messages: int = 0
    layers: dict[str, int] = field(default_factory=lambda: {"L1": 0, "L2": 0, "L3": 0})
    shortened: int = 0
    redactions: int = 0
    refused: int = 0
    ignored: int = 0
    forgotten: int = 0
    problems: list[SourceProblem] = field(default_factory=list)
    expires: Expiry | None = None

    def problem(self, path: str, reason: str, line: int | None = None) -> None:
        """List one thing that went wrong or differs; the list is bounded, the counts are not."""
        if len(self.problems) < limits.REPORTED_PROBLEMS_MAX:
            self.problems.append(SourceProblem(path, reason, line))

    def report(self, seconds: float, *, dry_run: bool) -> ImportReport:
        """The finished report."""
        return ImportReport(
            "partial" if self.problems or self.refused else "ok",
            files=len(self.files),
            sessions=len(self.sessions),
            turns_stored=self.turns_stored,
            turns_known=self.turns_known,
            messages=self.messages,
            episodes=self.layers["L1"],
            scenarios=self.layers["L2"],
            facts=self.layers["L3"],
            shortened=self.shortened,
            redactions=self.redactions,
            refused=self.refused,
            ignored=self.ignored,
            forgotten=self.forgotten,
            seconds=seconds,
            problems=tuple(self.problems),
            dry_run=dry_run,
            expires=self.expires,
        )


class _DryRun(Exception):
    """Takes a dry run's transaction back; never leaves this module."""


def check_before(path: Path, data_dir: Path, secret: bytes | None) -> None:
    """What must hold before a data directory is made to import into. Raises as ``check_source`` and ``decide``."""
    with _listed():
        check_source(path, data_dir)
        layered_check.decide(path, secret)


def import_directory(
    opened: Opened,
    path: Path,
    agent: str,
    settings: Settings,
    clock: Clock,
    progress: Progress | None,
    *,
    secret: bytes | None = None,
    backups: bool = False,
    dry_run: bool = False,
) -> ImportReport:
    """Import what ``agent`` has there. Importing again adds what is new; what cannot be read is counted and listed.

    ``secret`` is the value whose hash its lines are encrypted with. ``backups`` takes what ``.legacy-backup`` holds
    and the sessions no longer do. With ``dry_run`` all of it is done and taken back. Raises ``UnknownFormat`` when the
    directory is no layered-memory directory, ``UnknownAgent`` when that agent has nothing there, ``InvalidArgument``
    when a folder in it cannot be listed, the errors of ``layered_check.decide``, and the store's.
    """
    started = clock.monotonic()
    tally = _Tally()
    with _listed():
        if not is_layered_directory(path):
            raise unknown_source()
        if not has_agent(path, agent):
            raise errors.UnknownAgent(
                f"the directory to import holds no agent named {agent!r}",
                hint="Pass --from-agent with the id of an agent that it holds.",
            )
        key = read_isolation_key(path)
        if key is not None and key != opened.store.key:
            tally.problem(path.name, "its session key differs from this data directory's: session tokens change")
        elif key is None and any(file.layout == "G2" for file in day_files(path, agent)):
            tally.problem(path.name, f"its {KEY_FILE} is missing: session tokens change")
        cipher = layered_check.decide(path, secret)
        run = _Import(opened, path, agent, cipher, backups, settings, clock, tally, progress, dry_run)
        run.look()
    try:
        with _listed(), opened.store.transaction() if dry_run else nullcontext():
            for wanted in (LayeredTurn, LayeredRecord):
                run.take(wanted)
            now = clock.now_ms()
            tally.expires = retention_rule.expiry(opened.store.connection, settings, tally.sessions, now)
            if dry_run:
                raise _DryRun
    except _DryRun:
        pass
    else:
        _bring_up(opened, tally, progress)
    return tally.report(round(clock.monotonic() - started, 3), dry_run=dry_run)


@contextmanager
def _listed() -> Iterator[None]:
    """A folder that cannot be listed ends the import: half of a memory is not taken for all of it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise errors.InvalidArgument(f"a folder of the directory to import cannot be listed ({reason})") from error


def _bring_up(opened: Opened, tally: _Tally, progress: Progress | None) -> None:
    if progress is not None:
        progress("indexing", 0, None)
    warning = apply_quietly(opened)
    if warning is not None:
        tally.problem(opened.store.directory.name, warning)
    elif tally.messages + sum(tally.layers.values()) >= _BULK_CHANGES:
        index = opened.keeper.writer()
        with writing(index):
            rows.finish(index)


class _Import:
    """One run over a directory: items are held until there are enough for a transaction."""

    def __init__(
        self,
        opened: Opened,
        path: Path,
        agent: str,
        cipher: LineCipher | None,
        backups: bool,
        settings: Settings,
        clock: Clock,
        tally: _Tally,
        progress: Progress | None,
        dry_run: bool,
    ) -> None:
        self._opened = opened
        self._path = path
        self._agents = (agent, agent_directory_name(agent))
        self._agent = agent
        self._cipher = cipher
        self._backups = backups
        self._dry_run = dry_run
        self._settings = settings
        self._clock = clock
        self._tally = tally
        self._progress = progress
        self._held: list[LayeredTurn | LayeredRecord] = []
        self._bytes = 0
        self._done = 0
        self._total = 0

    def _items(self) -> Iterator[LayeredItem]:
        return read_layered(self._path, self._agent, self._cipher, backups=self._backups)

    def look(self) -> None:
        """Read everything once and store nothing: what cannot be read is listed, the rest counted."""
        for item in self._items():
            if isinstance(item, LayeredProblem):
                self._tally.refused += 1
                self._tally.problem(item.path, item.reason, item.line)
                continue
            self._total += 1
            if self._progress is not None and self._total % _BATCH_ITEMS == 0:
                self._progress("checking", self._total, None)

    def take(self, wanted: type[LayeredTurn] | type[LayeredRecord]) -> None:
        """Store every item of one kind. What cannot be read was told before."""
        for item in self._items():
            if isinstance(item, wanted):
                self._hold(item)
        self._store()

    def _hold(self, item: LayeredTurn | LayeredRecord) -> None:
        if item.agent not in self._agents:
            self._refuse(item, "belongs to another agent")
            return
        self._tally.files.add(item.path)
        self._held.append(item)
        said = item.messages if isinstance(item, LayeredTurn) else (item.content,)
        self._bytes += sum(len(str(part)) for part in said)
        if len(self._held) >= _BATCH_ITEMS or self._bytes >= _BATCH_BYTES:
            self._store()

    def _store(self) -> None:
        held, self._held, self._bytes = self._held, [], 0
        if not held:
            return
        done: list[tuple[LayeredTurn | LayeredRecord, layered_rows.Kept | str]] = []
        with nullcontext() if self._dry_run else self._opened.store.transaction():
            before = arrivals.newest(self._opened.store.connection)
            for item in held:
                try:
                    done.append((item, self._keep(item)))
                except _REFUSALS as error:
                    done.append((item, error.message))
            arrivals.note(self._opened.store.connection, before, self._clock.now_ms())
        for item, kept in done:  # counted only once they are on disk
            self._count(item, kept)
        self._done += len(held)
        if self._progress is not None:
            self._progress("importing", self._done, self._total)

    def _keep(self, item: LayeredTurn | LayeredRecord) -> layered_rows.Kept:
        """One item, whole or not at all: a refusal half-way leaves nothing of it."""
        now = self._clock.now_ms()
        store = self._opened.store
        with store.connection:  # a savepoint inside the batch's transaction
            if isinstance(item, LayeredTurn):
                kept = layered_rows.store_turn(store, item, self._settings, now)
            else:
                kept = layered_rows.store_record(store, item, self._settings, now)
        return kept

    def _count(self, item: LayeredTurn | LayeredRecord, kept: layered_rows.Kept | str) -> None:
        tally = self._tally
        if isinstance(kept, str):
            self._refuse(item, kept)
            return
        if kept.outcome == "refused":
            self._refuse(item, kept.problem or "was not taken")
            return
        if kept.problem is not None:
            tally.problem(item.path, kept.problem, item.line)
        if kept.outcome in ("left", "forgotten"):
            tally.ignored += kept.outcome == "left"
            tally.forgotten += kept.outcome == "forgotten"
            return
        tally.sessions.add(item.session)
        tally.messages += kept.messages
        tally.redactions += kept.redactions
        tally.shortened += kept.shortened
        if isinstance(item, LayeredTurn):
            tally.turns_stored += kept.outcome == "stored"
            tally.turns_known += kept.outcome == "known"
        else:
            tally.layers[item.layer] += kept.outcome == "stored"

    def _refuse(self, item: LayeredTurn | LayeredRecord, reason: str) -> None:
        self._tally.refused += 1
        self._tally.problem(item.path, reason, item.line)
