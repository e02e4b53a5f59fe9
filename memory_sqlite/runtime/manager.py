"""Our search manager: one agent's memory as the file-shaped legacy contract sees it.

Its hits are raw: a host lets ``LegacyRuntime.authorize_search_hits`` choose among them before anybody sees one. Even
so a search for a session looks no further than that session may, or than the private conversation it recalls for.
Files are read as whoever holds the manager: a host gets the notes, the operator's command line everything. Everything
that waits runs in a thread. Not here: giving managers out (``legacy_runtime``), status (``manager_status``), candidates
(``manager_candidates``), shapes (``manager_shapes``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from memory_sqlite import errors, limits
from memory_sqlite.agent import arguments, freshness
from memory_sqlite.agent.answer import answer
from memory_sqlite.model import SOURCES, Page
from memory_sqlite.runtime import manager_candidates, manager_status, raw_viewer
from memory_sqlite.runtime.agents import AgentRooms, Agents
from memory_sqlite.runtime.callers import Purpose
from memory_sqlite.runtime.gate import Gate
from memory_sqlite.runtime.manager_results import Results
from memory_sqlite.runtime.manager_shapes import (
    EmbeddingProbe,
    ManagerStatus,
    MemoryReadResult,
    MemorySearchResult,
    ReadMissing,
    ReadText,
    SearchOptions,
    SyncProgress,
    SyncSession,
)
from memory_sqlite.sources import reading
from memory_sqlite.transcripts.audience import OPERATOR

T = TypeVar("T")

_CLOSED: Final = "the memory search manager is closed"


class Manager:
    """One agent's manager. Any thread and any loop may use it; closing it leaves the memory open for others."""

    def __init__(self, agents: Agents, agent_id: str, purpose: Purpose, gate: Gate) -> None:
        self.agent_id = agent_id
        self.purpose = purpose
        self._agents = agents
        self._gate = gate
        self._closed = threading.Event()
        self._sync_error: str | None = None
        self._probe: EmbeddingProbe | None = None

    # --- reading -------------------------------------------------------------------------------------------------

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemorySearchResult]:
        """Raw hits, best first. Raises ``InvalidArgument``, ``IndexUnavailable``, ``Cancelled``."""
        asked = options or SearchOptions()
        return list((await self.search_page(query, asked)).results)

    async def search_page(self, query: str, options: SearchOptions) -> Results:
        """The same with what goes with it: whether it is stale, warnings, references."""
        cancelled = threading.Event()
        unhook = options.signal.on_abort(cancelled.set) if options.signal is not None else _nothing
        try:
            early = options.on_partial_results
            if early is not None and not options.lexical_only and self._rooms().opened.embedding is not None:
                early((await self._in_thread(lambda: self._search(query, options, cancelled, True))).results)
            try:
                found = await self._in_thread(lambda: self._search(query, options, cancelled, options.lexical_only))
            except BaseException:
                if early is not None:
                    early(None)
                raise
        except asyncio.CancelledError:
            cancelled.set()  # the thread stops searching for somebody who has gone
            raise
        finally:
            unhook()
        if options.on_debug is not None:
            options.on_debug(found.debug())
        return found

    def _search(self, query: str, options: SearchOptions, cancelled: threading.Event, lexical: bool) -> Results:
        rooms = self._rooms()
        asked = arguments.check(
            query,
            _within(options.max_results, limits.OPERATOR_MAX_RESULTS),
            options.min_score if options.min_score is not None else 0.0,
            SOURCES if options.sources is None else options.sources,
            None,
            None,
            None,
            None,
            "score",
            False,
            limits.OPERATOR_MAX_RESULTS,
            options.active_project_keys,
        )
        guard = arguments.deadline(None, cancelled, rooms.clock)
        with rooms.opened.store.readers.borrow() as store:
            viewer = raw_viewer.of(store, options.session_key)
        fresh = freshness.freshen(rooms.opened, rooms.clock, rooms.lock)
        page: Page = answer(
            rooms.opened, asked, viewer, fresh, rooms.settings, rooms.clock, guard=guard, lexical_only=lexical
        )
        # the command line shows people what was said as it was said; others may put it before a model
        return Results.of(page, rooms.opened, for_prompts=self.purpose != "cli")

    async def list_trigger_candidates(
        self, limit: int | None = None, active_project_keys: Sequence[str] = ()
    ) -> list[MemorySearchResult]:
        """Entries that name what brings them up, the most important first."""
        active = tuple(active_project_keys)
        return await self._in_thread(lambda: manager_candidates.triggers(self._rooms(), limit, active))

    async def list_curated_project_candidates(
        self, active_project_keys: Sequence[str], limit: int | None = None
    ) -> list[MemorySearchResult]:
        """Entries of the active projects, the most important first."""
        active = tuple(active_project_keys)
        return await self._in_thread(lambda: manager_candidates.projects(self._rooms(), limit, active))

    async def read_file(
        self, rel_path: str, from_line: int | None = None, lines: int | None = None
    ) -> MemoryReadResult:
        """Read a note by its path from line ``from_line`` (1-based), at most ``lines`` lines; transcripts and records
        by their virtual paths for the command line alone.

        Raises ``AccessDenied``, ``PathNotAllowed``, ``InvalidArgument``: what is denied is never ``not_found``.
        """
        return await self._in_thread(lambda: self._read(rel_path, from_line, lines))

    def _read(self, rel_path: str, from_line: int | None, lines: int | None) -> MemoryReadResult:
        rooms = self._rooms()
        opened, settings = rooms.opened, rooms.settings
        asked = arguments.check_range(
            rel_path, 1 if from_line is None else from_line, lines, 0, settings.max_read_lines
        )
        if self.purpose != "cli" and _is_of_sessions(asked[0]):
            raise errors.AccessDenied("a file of notes can be read here, and nothing that was said in a session")
        names = Results.names(opened)
        place = reading.Place(opened.workspace, settings.extra_paths)
        with opened.store.readers.borrow() as store:
            found = reading.read(store, OPERATOR, place, names.find(asked[0]), *asked[1:])
        if found.status != "ok":
            return ReadMissing(names.hide(found.path) or rel_path)
        return ReadText(
            found.text,
            names.hide(found.path),
            truncated=found.truncated,
            from_line=found.from_line,
            lines=found.lines,
            next_from=found.next_from,
        )

    # --- keeping up ----------------------------------------------------------------------------------------------

    async def sync(
        self,
        *,
        reason: str | None = None,
        force: bool = False,
        sessions: Sequence[SyncSession] = (),
        archive_files: Sequence[str] = (),
        progress: Callable[[SyncProgress], object] | None = None,
    ) -> None:
        """Bring the index up to the store and the notes; ``force`` builds it anew beside the one that answers.

        Sessions and archives need no reading: what was said is in the store, and follows with everything else.
        Raises the store's errors and ``IndexUnavailable``; ``status`` says the code of the last one.
        """
        loop = asyncio.get_running_loop()

        def tell(stage: str, done: int, total: int | None) -> None:
            if progress is not None:
                try:
                    loop.call_soon_threadsafe(progress, SyncProgress(done, done if total is None else total, stage))
                except RuntimeError:
                    pass  # the loop has ended and nobody listens any more: the sync goes on

        await self._in_thread(lambda: self._sync(force, tell))

    def _sync(self, force: bool, tell: Callable[[str, int, int | None], None]) -> None:
        rooms = self._rooms()
        try:
            with rooms.lock:
                freshness.index(rooms.opened, rooms.settings, rooms.clock, full=force, progress=tell)
            rooms.opened.brought()
            if rooms.opened.embedding is not None and rooms.opened.filer is None:
                rooms.opened.embedding.fill(spend=False, progress=tell)
        except errors.MemorySqliteError as error:
            self._sync_error = error.code
            raise
        self._sync_error = None

    # --- how it is -----------------------------------------------------------------------------------------------

    def status(self) -> ManagerStatus:
        """Counts, what is searched and how, and whether it is as new as its sources. Reads only."""
        with self._using():
            return manager_status.status(self._rooms(), self.purpose, self._sync_error)

    def get_cached_embedding_availability(self) -> EmbeddingProbe | None:
        """What the last probe found; ``None`` before the first."""
        return None if self._probe is None else manager_status.as_cached(self._probe)

    async def probe_embedding_availability(self) -> EmbeddingProbe:
        """Whether a text can be embedded now: one word is, where a provider is set."""
        self._probe = await self._in_thread(lambda: manager_status.probe(self._rooms()))
        return self._probe

    async def probe_vector_store_availability(self) -> bool:
        """Whether the index has a place for vectors."""
        return await self._in_thread(lambda: manager_status.vector_spaces(self._rooms()) is not None)

    async def probe_vector_availability(self) -> bool:
        """Whether there are vectors to compare a question with, and a provider that embeds it."""
        return await self._in_thread(lambda: manager_status.has_vectors(self._rooms()))

    # --- ending --------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Take no more calls; safe twice."""
        self._closed.set()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def _rooms(self) -> AgentRooms:
        return self._agents.rooms(self.agent_id)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._using():
                return work()

        return await asyncio.to_thread(guarded)

    def _using(self) -> Any:
        if self._closed.is_set():
            raise errors.ProviderUnavailable(_CLOSED)
        return self._gate.using()


def _within(value: int | None, most: int) -> int | None:
    """Older hosts ask for more than there is; what is no number is refused further on."""
    return min(value, most) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_of_sessions(path: str) -> bool:
    kind, _, rest = path.partition(":")
    bare = reading.LINE_RANGE.sub("", rest if kind == "note" else path)
    return (
        kind in ("message", "record")
        or reading.TRANSCRIPT_PATH.match(bare) is not None
        or reading.RECORD_PATH.match(bare) is not None
    )


def _nothing() -> None:
    """Where nobody can abort, nothing is to be unhooked."""
