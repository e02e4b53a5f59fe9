"""The door: one method per operation, naming the rooms in order.

``Memory`` owns one agent's store, its current generation and its workspace. It may be used from many threads: writes
take turns, reads have their own connections.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from memory_sqlite import errors, limits
from memory_sqlite.agent import arguments, freshness
from memory_sqlite.agent import opened as opening
from memory_sqlite.agent.answer import answer
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.contract_methods import ContractMethods
from memory_sqlite.custody_methods import CustodyMethods
from memory_sqlite.doctor_methods import DoctorMethods
from memory_sqlite.fact_methods import FactMethods
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.model import (
    SOURCES,
    ChatType,
    ImportReport,
    IndexReport,
    Layer,
    Page,
    Passage,
    RecallBlock,
    Receipt,
    ResetReport,
    SessionInfo,
    SessionKind,
    Source,
)
from memory_sqlite.query_methods import QueryMethods
from memory_sqlite.transcripts import audience
from memory_sqlite.transcripts.bounds import Oversize
from memory_sqlite.transfer_methods import TransferMethods

if TYPE_CHECKING:
    from memory_sqlite.agent.watching import Watch
    from memory_sqlite.search.explanation import Explanation

Progress = Callable[[str, int, int | None], None]
Sort = Literal["score", "diverse", "newest", "oldest"]
PathLike = str | os.PathLike[str]


class Memory(FactMethods, TransferMethods, CustodyMethods, QueryMethods, DoctorMethods, ContractMethods):
    """One agent's memory. Make it with ``Memory.open``; use it as a context manager or call ``close``."""

    def __init__(self, opened: Opened | None, settings: Settings, clock: Clock) -> None:
        self._opened = opened
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()

    @classmethod
    def open(
        cls,
        data_dir: PathLike | None = None,
        agent: str | None = None,
        workspace: PathLike | None = None,
        *,
        settings: Settings | None = None,
        read_only: bool = False,
        serving: bool = False,
        clock: Clock | None = None,
        progress: Progress | None = None,
    ) -> Memory:
        """Open an agent's memory, making it on first use.

        ``data_dir`` defaults to the platform's place for user data, ``agent`` to ``main``, ``workspace`` (the directory
        of ``MEMORY.md`` and ``memory/``) to the one last given for this agent. ``settings`` replaces configuration file
        and environment. With ``read_only`` nothing is made or written and an unknown agent is an error.
        With ``serving`` searches run in worker processes, one of which is started at once: for hosts that answer many;
        a command that asks once reads in its own process, which is faster. An index that another version built is built
        anew first (``progress`` hears of it); while serving it answers until its successor has been built beside it.

        Raises the configuration, session-key and store errors of ``memory_sqlite.errors``; see ``docs/operations.md``.
        """
        chosen = opening.settings_for(settings, data_dir, agent, workspace)
        clock = clock or Clock()
        if not chosen.enabled:
            return cls(None, chosen, clock)
        opened = opening.open_agent(chosen, clock, read_only=read_only, serving=serving, progress=progress)
        if opened.has_unfinished_forgetting():
            from memory_sqlite.forgetting import run as forgetting

            forgetting.resume_quietly(opened, chosen, clock)
        memory = cls(opened, chosen, clock)
        if serving and not read_only:
            from memory_sqlite.agent.upkeep import Upkeep
            from memory_sqlite.retention.daily import Daily

            opened.upkeep = Upkeep(opened, clock, memory._lock, Daily(opened, chosen, clock))
            opened.fill_beside()
        return memory

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings

    @property
    def agent(self) -> str:
        """The agent whose memory this is."""
        return self._settings.agent

    # --- writing -------------------------------------------------------------------------------------------------

    def remember(
        self,
        *,
        session: str,
        messages: Sequence[Mapping[str, Any]],
        run_id: str | None = None,
        chat_type: ChatType | None = None,
        kind: SessionKind | None = None,
        sender_is_owner: bool | None = None,
        project: str | None = None,
        oversize: Oversize = "refuse",
    ) -> Receipt:
        """Store one or more turns of a session with everything that follows from them, once for ever.

        A message is ``{"role", "content"}`` with optional ``id``, ``name``, ``at``, ``sender``; unknown keys are kept.
        When this returns the turns are on disk and searchable (``searchable`` says if the index must catch up later).

        Raises ``InvalidArgument``, ``RecordTooLarge``, ``SessionConflict`` and the store's errors: then nothing of the
        call was stored.
        """
        from memory_sqlite.agent import turns

        if (opened := self._enter()) is None:
            return Receipt("disabled", session)
        info = SessionInfo(session, chat_type, kind, sender_is_owner, project)
        prepared = turns.prepare(info, messages, run_id, self._settings, oversize)
        with self._lock:
            return turns.remember(opened, prepared, run_id, self._settings, self._clock)

    def import_transcripts(
        self,
        paths: Sequence[PathLike],
        *,
        format: str | None = None,
        session: str | None = None,
        chat_type: ChatType | None = None,
        kind: SessionKind | None = None,
        sender_is_owner: bool | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Read hosts' transcript files; what is already known is recognised, odd lines are counted and reported.

        ``format`` and ``session`` override what the files say. Raises ``UnknownFormat`` and the store's errors.
        """
        from memory_sqlite.interop import transcripts

        if (opened := self._enter()) is None:
            return ImportReport("disabled")
        chosen = arguments.check_paths(paths)
        said = SessionInfo(session or "", chat_type, kind, sender_is_owner)
        with self._lock:
            return transcripts.import_files(opened, chosen, said, format, self._settings, self._clock, progress)

    def index(self, *, full: bool = False, spend: bool = False, progress: Progress | None = None) -> IndexReport:
        """Bring the search index up to the store and the workspace; ``full`` builds a new generation.

        Then, where an embedding provider is set, everything gets a vector; others write and search meanwhile.
        To a provider that charges no more than a little is sent without ``spend``: ``vectors`` says what is left.
        Raises ``WorkspaceUnavailable`` when the workspace that was given is not there, and the store's errors.
        """
        if (opened := self._enter()) is None:
            return IndexReport("disabled", None)
        with self._lock:
            report = freshness.index(opened, self._settings, self._clock, full=full, progress=progress)
        if opened.embedding is None:
            return report
        return replace(report, vectors=opened.embedding.fill(spend=spend, progress=progress))

    def reset(self, *, keep_vectors: bool | None = None, progress: Progress | None = None) -> ResetReport:
        """Drop every derived file and build the search index anew; what was said and the notes are not touched.

        Vectors go over into the new one with ``keep_vectors``, and by default where some of them were paid for.
        A generation that somebody else has open answers them until they close it (``held``); other searches have none
        until the new one is there (``IndexUnavailable``). ``index(full=True)`` builds without such a gap.
        Raises ``WorkspaceUnavailable``, ``StoreBusy`` and ``StoreReadOnly`` before anything is dropped.
        """
        from memory_sqlite.agent import resetting

        if (opened := self._enter()) is None:
            return ResetReport("disabled")
        with self._lock:
            report = resetting.reset(opened, self._settings, self._clock, progress, keep_vectors)
        if opened.embedding is None or report.index is None:
            return report
        vectors = opened.embedding.fill(spend=False, progress=progress)
        return replace(report, index=replace(report.index, vectors=vectors))

    def watch(
        self,
        *,
        on_batch: Callable[[IndexReport], object] | None = None,
        on_warning: Callable[[str], object] | None = None,
    ) -> Watch:
        """Follow the workspace and take changed notes in as they settle, until the handle is closed.

        ``on_batch`` hears what each batch did, ``on_warning`` what went wrong, each once; both in the watch's thread.
        Where the system has no watches left, searches go on looking for themselves. Needs the extra ``watch``.
        Raises ``ExtraMissing``, ``WorkspaceUnavailable``, ``StoreReadOnly``; ``InvalidConfiguration`` when disabled.
        """
        from memory_sqlite.agent import watching

        if (opened := self._enter()) is None:
            raise errors.InvalidConfiguration("memory is disabled (enabled = false); there is nothing to watch")
        watch = watching.Watch(opened, self._lock, self._clock, on_batch, on_warning)
        opened.fill_beside()
        return watch

    def forget(
        self,
        *,
        sessions: Sequence[str] = (),
        participants: Sequence[str] = (),
        hook_sources: Sequence[str] = (),
        records: Sequence[str] = (),
        references: Sequence[str] = (),
        since: str | float | None = None,
        until: str | float | None = None,
        notes: bool = False,
        keep_turns: bool = False,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Forget what is named, for ever: in the store, every generation, optionally the notes, and the files' bytes.

        Names are exact: session keys or tokens, senders, record ids, references of hits (also lines of a note or
        transcript). ``since`` and ``until`` narrow sessions, participants and hook sources; alone they take all
        that was said between them. Turns go whole; a fact takes the turns that said it unless ``keep_turns``. ``notes``
        takes blocks that repeat the text out of the notes. Raises ``InvalidArgument`` and the store's errors.
        """
        from memory_sqlite.forgetting import run, selection

        if (opened := self._enter()) is None:
            return ForgetReport("disabled", dry_run)
        asked = selection.check(
            sessions, participants, hook_sources, records, references, since, until, notes, keep_turns
        )
        with self._lock:
            return run.forget(opened, asked, self._settings, self._clock, dry_run=dry_run)

    # --- reading -------------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        session: str | None = None,
        max_results: int | None = None,
        min_score: float = 0.0,
        sources: Sequence[Source] = SOURCES,
        layers: Sequence[Layer] | None = None,
        projects: Sequence[str] | None = None,
        active_projects: Sequence[str] = (),
        since: str | float | None = None,
        until: str | float | None = None,
        sort: Sort = "score",
        zone: str | None = None,
        explain: bool = False,
        deadline_ms: int | None = None,
        cancelled: threading.Event | None = None,
    ) -> Page:
        """Find what was meant, best first. ``session=None`` is the operator; a session sees what its audience may.

        ``since`` (included) and ``until`` (not) bound event time, as ISO-8601 or epoch; ``min_score`` is a floor for
        every hit. ``projects`` leaves out what belongs to none of them, ``active_projects`` only favours. ``zone`` (an
        IANA name or an offset, by default the clock's) says whose day "yesterday" in the query is. After
        ``deadline_ms``, or once ``cancelled`` is set, the search is stopped.
        Raises ``InvalidArgument``, ``IndexUnavailable``, ``Cancelled``; while serving ``Overloaded``, ``WorkerLost``.
        """
        if (opened := self._enter()) is None:
            return Page(query, (), disabled=True)
        most = limits.OPERATOR_MAX_RESULTS if session is None else self._settings.max_search_results
        asked = arguments.check(
            query, max_results, min_score, sources, layers, projects, since, until, sort, explain, most,
            active_projects, zone,
        )  # fmt: skip
        guard = arguments.deadline(deadline_ms, cancelled, self._clock)
        with opened.store.readers.borrow() as store:
            viewer = audience.of_session(store, session)
        fresh = freshness.freshen(opened, self._clock, self._lock)
        return answer(opened, asked, viewer, fresh, self._settings, self._clock, guard=guard)

    def explain(
        self,
        query: str,
        reference: str | None = None,
        *,
        session: str | None = None,
        reveal: bool = False,
        max_results: int | None = None,
        min_score: float = 0.0,
        sources: Sequence[Source] = SOURCES,
        layers: Sequence[Layer] | None = None,
        projects: Sequence[str] | None = None,
        active_projects: Sequence[str] = (),
        since: str | float | None = None,
        until: str | float | None = None,
        sort: Sort = "score",
        zone: str | None = None,
    ) -> Explanation:
        """How ``search`` reads this query and scores what it finds; why what ``reference`` names was found or not.

        For a session it tells of nothing that the session may not see; ``reveal`` is for the operator who asks about a
        session's search. Raises ``InvalidArgument``, ``PathNotAllowed``, ``IndexUnavailable``.
        """
        from memory_sqlite.agent import explaining

        if (opened := self._enter()) is None:
            return explaining.disabled(query, self._clock)
        most = limits.OPERATOR_MAX_RESULTS if session is None else self._settings.max_search_results
        asked = arguments.check(
            query, max_results, min_score, sources, layers, projects, since, until, sort, True, most,
            active_projects, zone,
        )  # fmt: skip
        return explaining.explained(opened, asked, reference, session, reveal, self._clock, self._lock)

    def get(
        self,
        reference: str,
        *,
        session: str | None = None,
        from_line: int = 1,
        lines: int | None = None,
        offset: int = 0,
    ) -> Passage:
        """Read a hit back, or a note, transcript or record file by path, from line ``from_line``.

        Read on with ``from_line=next_from, offset=next_offset``. ``not_found`` is a result. Raises ``AccessDenied``,
        ``PathNotAllowed``, ``InvalidArgument``.
        """
        if (opened := self._enter()) is None:
            return Passage("disabled", reference, "")
        from memory_sqlite.sources import reading

        asked = arguments.check_range(reference, from_line, lines, offset, self._settings.max_read_lines)
        place = reading.Place(opened.workspace, self._settings.extra_paths)
        with opened.store.readers.borrow() as store:
            viewer = audience.of_session(store, session)
            return reading.read(store, viewer, place, *asked)

    def recall(
        self,
        query: str,
        *,
        session: str | None = None,
        scopes: Sequence[str] | None = None,
        zone: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> RecallBlock:
        """The framed block a host puts before a prompt: what is relevant to ``query`` for this session, or nothing.

        Pinned and named facts come first (see ``facts``); ``zone`` as in ``search``. Never raises for a slow or broken
        search: ``reason`` says why the block is empty, within ``auto_recall_timeout_ms``.
        """
        from memory_sqlite.recall import block

        if (opened := self._enter()) is None or not self._settings.auto_recall:
            return RecallBlock("", reason="disabled")
        return block.recall(opened, query, session, scopes, self._settings, self._clock, cancelled, self._lock, zone)

    def sessions(self, *, limit: int = 100, offset: int = 0) -> list[dict[str, Any]]:
        """The agent's sessions, the most recently active first, with what each is and how much was said."""
        from memory_sqlite.agent import reporting

        if (opened := self._enter()) is None:
            return []
        return reporting.sessions(opened, *arguments.check_window(limit, offset))

    def status(self, *, deep: bool = False) -> dict[str, Any]:
        """What is stored and indexed, where, and what is wrong with it; reads only. ``deep`` adds what costs reading
        every page: whether the files are whole, bytes of each table, lexical rows and vectors against chunks."""
        from memory_sqlite.agent import reporting

        if (opened := self._enter()) is None:
            return {"agent": self.agent, "status": "disabled"}
        said = reporting.status(opened, self._settings)
        if not deep:
            return said
        from memory_sqlite.doctor import deep_status

        return said | {"deep": deep_status.deep(opened)}

    # --- ending --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of every file; safe to call twice."""
        if os.getpid() != self._pid:  # a forked copy: the files, their locks and the worker processes are the parent's
            return
        with self._lock:
            if not self._closed and self._opened is not None:
                self._opened.close()
            self._closed = True

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _enter(self) -> Opened | None:
        """The opened rooms, or ``None`` when memory is disabled. Raises ``MemoryClosed``."""
        if os.getpid() != self._pid:  # SQLite's handles and locks must not cross a fork (sqlite.org/howtocorrupt.html)
            raise errors.MemoryClosed("this memory was opened before a fork; it is closed in the forked process")
        if self._closed:
            raise errors.MemoryClosed("this memory was closed")
        return self._opened
