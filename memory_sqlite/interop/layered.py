"""Importing a directory of the layered-memory product: its turns, records, ids, times and citations.

The directory is only read. Twice: turns first, then the records made from them, so that memory stays bounded whatever
it holds. Not here: reading (``layered_directory``), rows (``layered_rows``), the key (``layered_key``). Called by
``Memory.import_layered``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.indexing import rows
from memory_sqlite.interop import layered_rows
from memory_sqlite.interop.layered_directory import (
    LayeredProblem,
    LayeredRecord,
    LayeredTurn,
    has_agent,
    is_layered_directory,
    read_layered,
)
from memory_sqlite.interop.layered_key import adopt_session_key, read_isolation_key, unknown_source
from memory_sqlite.model import ImportReport, SourceProblem
from memory_sqlite.paths import agent_directory_name
from memory_sqlite.storage.connection import writing

__all__ = ["adopt_session_key", "import_directory"]

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

    def problem(self, path: str, reason: str, line: int | None = None) -> None:
        """List one thing that went wrong or differs; the list is bounded, the counts are not."""
        if len(self.problems) < limits.REPORTED_PROBLEMS_MAX:
            self.problems.append(SourceProblem(path, reason, line))

    def report(self, seconds: float) -> ImportReport:
        """The finished report."""
        return ImportReport(
            "partial" if self.problems or self.refused else "ok",
            files=len(self.files),
            sessions=len(self.sessions),
            turns_stored=self.turns_stored,
            turns_known=self.turns_known,
            messages=self.messages,
            episodes=self.layers["L1"],
            facts=self.layers["L3"],
            shortened=self.shortened,
            redactions=self.redactions,
            refused=self.refused,
            ignored=self.ignored,
            forgotten=self.forgotten,
            seconds=seconds,
            problems=tuple(self.problems),
        )


def import_directory(
    opened: Opened, path: Path, agent: str, settings: Settings, clock: Clock, progress: Progress | None
) -> ImportReport:
    """Import what ``agent`` has there. Importing again adds what is new; what cannot be read is counted and listed.

    Raises ``UnknownFormat`` when the directory is no layered-memory directory, ``UnknownAgent`` when that agent has
    nothing there, and the store's errors.
    """
    started = clock.monotonic()
    if not is_layered_directory(path):
        raise unknown_source()
    if not has_agent(path, agent):
        raise errors.UnknownAgent(
            f"the directory to import holds no agent named {agent!r}",
            hint="Pass --from-agent with the id of an agent that it holds.",
        )
    tally = _Tally()
    key = read_isolation_key(path)
    if key is not None and key != opened.store.key:
        tally.problem(path.name, "its session key differs from this data directory's: session tokens change")
    run = _Import(opened, agent, settings, clock, tally, progress)
    for wanted in (LayeredTurn, LayeredRecord):
        run.take(path, wanted)
    if progress is not None:
        progress("indexing", 0, None)
    warning = apply_quietly(opened)
    if warning is not None:
        tally.problem(opened.store.directory.name, warning)
    elif tally.messages + sum(tally.layers.values()) >= _BULK_CHANGES:
        index = opened.keeper.writer()
        with writing(index):
            rows.finish(index)
    return tally.report(round(clock.monotonic() - started, 3))


class _Import:
    """One run over a directory: items are held until there are enough for a transaction."""

    def __init__(
        self,
        opened: Opened,
        agent: str,
        settings: Settings,
        clock: Clock,
        tally: _Tally,
        progress: Progress | None,
    ) -> None:
        self._opened = opened
        self._agents = (agent, agent_directory_name(agent))
        self._agent = agent
        self._settings = settings
        self._clock = clock
        self._tally = tally
        self._progress = progress
        self._held: list[LayeredTurn | LayeredRecord] = []
        self._bytes = 0
        self._done = 0

    def take(self, path: Path, wanted: type[LayeredTurn] | type[LayeredRecord]) -> None:
        """Store every item of one kind; problems are told in the pass over turns, which sees them all."""
        for item in read_layered(path, self._agent):
            if isinstance(item, LayeredProblem):
                if wanted is LayeredTurn:
                    self._tally.refused += 1
                    self._tally.problem(item.path, item.reason, item.line)
            elif isinstance(item, wanted):
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
        with self._opened.store.transaction():
            for item in held:
                try:
                    done.append((item, self._keep(item)))
                except _REFUSALS as error:
                    done.append((item, error.message))
        for item, kept in done:  # counted only once they are on disk
            self._count(item, kept)
        self._done += len(held)
        if self._progress is not None:
            self._progress(held[-1].path, self._done, None)

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
