"""``AsyncMemory``: the door for hosts with an event loop. The same methods, in threads, so that the loop never waits.

A cancelled call returns to its caller at once. What had not begun is dropped; a write that had begun is finished or
rolled back whole. Not here: any operation (``memory``). Called by hosts.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.memory import Memory
from memory_sqlite.model import (
    ImportReport,
    IndexReport,
    Page,
    Passage,
    RecallBlock,
    Receipt,
    ResetReport,
)

if TYPE_CHECKING:
    from memory_sqlite.agent.watching import Watch
    from memory_sqlite.backup.reports import BackupReport
    from memory_sqlite.doctor.bundle import BundleReport
    from memory_sqlite.doctor.report import DoctorReport
    from memory_sqlite.interop.export_reports import LayeredExportReport, TranscriptExportReport
    from memory_sqlite.interop.jsonl_reports import ExportImportReport, ExportReport
    from memory_sqlite.query.result import QueryResult
    from memory_sqlite.recall.facts import Facts
    from memory_sqlite.retention.reports import HoldReport, PruneReport
    from memory_sqlite.search.explanation import Explanation
    from memory_sqlite.transcripts.holds import Hold

P = ParamSpec("P")
T = TypeVar("T")
_THREADS: Final = 4
"""Enough to keep two cores busy while one call waits for the disk; row-heavy reads do not scale in threads."""


_RECALLS: Final = 8
"""Recalls at once. Their threads only wait for a thread with a deadline, so that many cost little."""
_SLACK: Final = 1.1
"""A recall that has not come back by then was never begun: all threads were taken."""


class AsyncMemory:
    """One agent's memory for asyncio. Make it with ``await AsyncMemory.open(...)``; use it with ``async with``."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="memory-sqlite")
        # apart from the others: a recall must not wait behind an import
        self._recalls = ThreadPoolExecutor(_RECALLS, thread_name_prefix="memory-sqlite-ask")
        self._closed = False

    @classmethod
    async def open(
        cls,
        data_dir: str | os.PathLike[str] | None = None,
        agent: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        read_only: bool = False,
        serving: bool = False,
        clock: Clock | None = None,
    ) -> AsyncMemory:
        """As ``Memory.open``."""
        opening = functools.partial(
            Memory.open,
            data_dir,
            agent,
            workspace,
            settings=settings,
            read_only=read_only,
            serving=serving,
            clock=clock,
        )
        opened = asyncio.ensure_future(asyncio.to_thread(opening))
        try:
            return cls(await asyncio.shield(opened))
        except asyncio.CancelledError:
            opened.add_done_callback(_close_unwanted)
            raise

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise errors.MemoryClosed("this memory was closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(call, *args, **kwargs))

    async def remember(self, *, session: str, messages: Sequence[Mapping[str, Any]], **options: Any) -> Receipt:
        """As ``Memory.remember``. Cancelling does not undo a turn that is being stored; a run id makes a retry safe."""
        return await self._run(self._memory.remember, session=session, messages=messages, **options)

    async def remember_facts(self, facts: Sequence[Mapping[str, Any]], *, session: str, **options: Any) -> Receipt:
        """As ``Memory.remember_facts``."""
        return await self._run(self._memory.remember_facts, facts, session=session, **options)

    async def import_transcripts(self, paths: Sequence[str | os.PathLike[str]], **options: Any) -> ImportReport:
        """As ``Memory.import_transcripts``."""
        return await self._run(self._memory.import_transcripts, paths, **options)

    async def import_layered(self, path: str | os.PathLike[str], **options: Any) -> ImportReport:
        """As ``Memory.import_layered``."""
        return await self._run(self._memory.import_layered, path, **options)

    async def export(self, path: str | os.PathLike[str], **options: Any) -> ExportReport:
        """As ``Memory.export``."""
        return await self._run(self._memory.export, path, **options)

    async def export_layered(self, path: str | os.PathLike[str], **options: Any) -> LayeredExportReport:
        """As ``Memory.export_layered``."""
        return await self._run(self._memory.export_layered, path, **options)

    async def export_transcripts(self, path: str | os.PathLike[str], **options: Any) -> TranscriptExportReport:
        """As ``Memory.export_transcripts``."""
        return await self._run(self._memory.export_transcripts, path, **options)

    async def import_jsonl(self, path: str | os.PathLike[str], **options: Any) -> ExportImportReport:
        """As ``Memory.import_jsonl``. Cancelling does not undo it: what was begun is finished, or rolled back whole."""
        return await self._run(self._memory.import_jsonl, path, **options)

    async def backup(self, path: str | os.PathLike[str], **options: Any) -> BackupReport:
        """As ``Memory.backup``."""
        return await self._run(self._memory.backup, path, **options)

    async def query(self, sql: str, parameters: Any = None, **options: Any) -> QueryResult:
        """As ``Memory.query``. Cancelling leaves the query to its end; ``abort`` ends it."""
        return await self._run(self._memory.query, sql, parameters, **options)

    async def index(self, **options: Any) -> IndexReport:
        """As ``Memory.index``."""
        return await self._run(self._memory.index, **options)

    async def reset(self, **options: Any) -> ResetReport:
        """As ``Memory.reset``."""
        return await self._run(self._memory.reset, **options)

    async def forget(self, **options: Any) -> ForgetReport:
        """As ``Memory.forget``. Cancelling does not undo it: what was begun is finished, now or by the next open."""
        return await self._run(self._memory.forget, **options)

    async def prune(self, **options: Any) -> PruneReport:
        """As ``Memory.prune``. Cancelling does not undo it: what was begun is finished, now or by the next open."""
        return await self._run(self._memory.prune, **options)

    async def hold(self, session: str, **options: Any) -> HoldReport:
        """As ``Memory.hold``."""
        return await self._run(self._memory.hold, session, **options)

    async def release(self, session: str, **options: Any) -> HoldReport:
        """As ``Memory.release``."""
        return await self._run(self._memory.release, session, **options)

    async def holds(self) -> list[Hold]:
        """As ``Memory.holds``."""
        return await self._run(self._memory.holds)

    async def watch(self, **options: Any) -> Watch:
        """As ``Memory.watch``; the handle ends with this memory, or when it is closed in a thread."""
        return await self._run(self._memory.watch, **options)

    async def search(self, query: str, **options: Any) -> Page:
        """As ``Memory.search``; cancelling stops the search itself, also in a worker process."""
        cancelled = threading.Event()
        try:
            return await self._run(self._memory.search, query, cancelled=cancelled, **options)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def explain(self, query: str, reference: str | None = None, **options: Any) -> Explanation:
        """As ``Memory.explain``."""
        return await self._run(self._memory.explain, query, reference, **options)

    async def get(self, reference: str, **options: Any) -> Passage:
        """As ``Memory.get``."""
        return await self._run(self._memory.get, reference, **options)

    async def end_facts(self, references: Sequence[str]) -> list[str]:
        """As ``Memory.end_facts``."""
        return await self._run(self._memory.end_facts, references)

    async def facts(self, query: str | None = None, **options: Any) -> Facts:
        """As ``Memory.facts``."""
        return await self._run(self._memory.facts, query, **options)

    async def recall(
        self, query: str, *, session: str | None = None, scopes: Sequence[str] | None = None, zone: str | None = None
    ) -> RecallBlock:
        """As ``Memory.recall``; cancelling stops the search behind it."""
        if self._closed:
            raise errors.MemoryClosed("this memory was closed")
        cancelled = threading.Event()
        ask = functools.partial(
            self._memory.recall, query, session=session, scopes=scopes, zone=zone, cancelled=cancelled
        )
        timeout_ms = self._memory.settings.auto_recall_timeout_ms
        try:
            waiting = asyncio.get_running_loop().run_in_executor(self._recalls, ask)
            return await asyncio.wait_for(waiting, timeout_ms / 1000 * _SLACK)
        except TimeoutError:
            return RecallBlock(
                "", reason="timeout", elapsed_ms=timeout_ms * _SLACK, warnings=("recall skipped (timeout)",)
            )
        finally:
            cancelled.set()

    async def sessions(self, **options: Any) -> list[dict[str, Any]]:
        """As ``Memory.sessions``."""
        return await self._run(self._memory.sessions, **options)

    async def status(self, **options: Any) -> dict[str, Any]:
        """As ``Memory.status``."""
        return await self._run(self._memory.status, **options)

    async def doctor(self, **options: Any) -> DoctorReport:
        """As ``Memory.doctor``."""
        return await self._run(self._memory.doctor, **options)

    async def support_bundle(self, path: str | os.PathLike[str], **options: Any) -> BundleReport:
        """As ``Memory.support_bundle``."""
        return await self._run(self._memory.support_bundle, path, **options)

    async def close(self) -> None:
        """As ``Memory.close``: calls that were accepted are finished first, later ones raise ``MemoryClosed``."""
        self._closed = True
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._recalls.shutdown(wait=True)
        self._threads.shutdown(wait=True)
        self._memory.close()

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _close_unwanted(opened: asyncio.Future[Memory]) -> None:
    """Nobody waits any more for this memory to open: let go of its files."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
