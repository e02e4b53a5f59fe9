"""One agent's store behind the product's face: opened on first use, one writer at a time, closed once.

Facts: sections 4.3, 5.2, 8 and 9 of the layered-memory reference. Reading an agent that has no memory makes nothing.
Not here: shapes (``results``), reading files back (``reading``), what hosts call (``manager``, ``hooks``,
``surfaces``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.agent import turns
from memory_sqlite.agent.opened import Opened, open_agent
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.integrations.layered_memory.caller import Caller
from memory_sqlite.integrations.layered_memory.recall_text import without_history
from memory_sqlite.integrations.layered_memory.results import Results
from memory_sqlite.layers import compatible
from memory_sqlite.layers.layered_retention import DAY_MS, delete_old_days
from memory_sqlite.search.layered_order import Root, compatible_search
from memory_sqlite.sources.record_lines import Selection
from memory_sqlite.storage import store as stores
from memory_sqlite.transcripts.audience import Audience
from memory_sqlite.transcripts.bounds import Oversize

NO_SESSION: Final = "no trusted session key: nothing is searched"
DISABLED: Final = "memory is disabled"
NO_MEMORY: Final = "this agent has no memory yet"
PROFILES_PRIVATE: Final = "agent profiles are shown in the owner's direct chats only"
BUDGET_USED: Final = "maxSearchBytes was reached: not everything was searched"

Around = Callable[[apsw.Connection], AbstractContextManager[None]]


class AgentMemory:
    """The memory of one agent under ``compatibility = "layered-memory"``."""

    def __init__(self, agent: str, settings: Settings, clock: Clock) -> None:
        if settings.compatibility != "layered-memory":
            raise errors.InvalidConfiguration('the layered-memory face needs compatibility = "layered-memory"')
        self.settings = replace(settings, agent=agent)
        self._clock = clock
        self._lock = threading.RLock()
        self._opened: Opened | None = None
        self._closed = False
        self._pending = 0

    @property
    def agent(self) -> str:
        """Whose memory this is."""
        return self.settings.agent

    def opened(self, *, create: bool) -> Opened | None:
        """The agent's rooms, opened once. ``None`` when disabled, or when there is nothing to read and nothing is made.

        Raises ``MemoryClosed``, ``LegacyLayout`` and the store's errors.
        """
        opened = self._opened
        if opened is not None:
            return opened  # without the lock: a reader does not wait for a write
        with self._lock:
            if self._closed:
                raise errors.MemoryClosed("[memory] store is closed")
            if self._opened is None and self.settings.enabled:
                data_dir = self.settings.data_dir
                directory = paths.agent_directory(data_dir, self.agent)
                if not create and not (directory / paths.STORE_FILE).exists():
                    if stores.layered_layout(data_dir):
                        raise errors.LegacyLayout("this directory belongs to the layered-memory product")
                    return None
                self._opened = open_agent(self.settings, self._clock, read_only=False)
            return self._opened

    def append_turn(
        self, caller: Caller, messages: Sequence[Any], run_id: str | None, *, oversize: Oversize = "refuse"
    ) -> bool:
        """Store the current turn of a host's messages with its layers, all or nothing; ``False`` for a known run.

        Raises ``RecordTooLarge``, ``InvalidArgument`` and the store's errors.
        """
        said = self._said(caller, messages)
        self._pending += 1
        try:
            with self._lock:
                opened = self.opened(create=True)
                if opened is None:
                    return False
                prepared = self._prepare(caller, said, run_id, oversize)
                return turns.remember(opened, prepared, run_id, self.settings, self._clock).status == "stored"
        finally:
            self._pending -= 1

    def _said(self, caller: Caller, messages: Sequence[Any]) -> list[dict[str, Any]]:
        """The current turn; what was recalled and fed back by the host as the person's words is not theirs."""
        said: list[dict[str, Any]] = []
        for message in compatible.current_turn(messages):
            content = without_history(message["content"]) if message["role"] == "user" else message["content"]
            if content:
                sender = {"sender": caller.sender} if caller.sender and message["role"] == "user" else {}
                said.append({**message, "content": content, **sender})
        return said

    def _prepare(
        self, caller: Caller, said: list[dict[str, Any]], run_id: str | None, oversize: Oversize
    ) -> turns.Prepared:
        try:
            return turns.prepare(caller.info(), said, run_id, self.settings, oversize)
        except errors.RecordTooLarge as error:
            limit = self.settings.max_record_bytes
            raise errors.RecordTooLarge(f"[memory] record exceeds maxRecordBytes ({limit})") from error

    def find(
        self,
        caller: Caller,
        query: str,
        *,
        max_results: int,
        min_score: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
        around: Around | None = None,
    ) -> Results:
        """Search as the product does, for a trusted session and nobody else. Raises ``Cancelled``."""
        if cancelled is not None and cancelled():
            raise errors.Cancelled("[memory] search was aborted")
        if caller.session is None:
            return Results(warning=NO_SESSION)
        opened = self.opened(create=False)
        if opened is None:
            return Results(warning=NO_MEMORY if self.settings.enabled else DISABLED)
        with opened.store.readers.borrow() as connection, (around or _alone)(connection):
            viewer = caller.audience(connection)
            answer = compatible_search(
                connection,
                query,
                roots(viewer, self.settings.profile_scope),
                agent=self.agent,
                max_results=max_results,
                min_score=min_score,
                max_bytes=self.settings.max_search_bytes,
                max_days=self.settings.retention_days,
                cancelled=cancelled,
            )
        warning = BUDGET_USED if answer.coverage == "partial" else None
        if warning is None and self.settings.profile_scope == "agent" and not viewer.owner_private:
            warning = PROFILES_PRIVATE
        return Results(answer.found, coverage=answer.coverage, warning=warning)

    def clean(self) -> int:
        """Delete the day files that are too old; returns their number."""
        with self._lock:
            opened = self.opened(create=False)
            if opened is None:
                return 0
            deleted = delete_old_days(opened.store, self.settings, self._clock)
            turns.apply_quietly(opened)
            return deleted

    def day_files(self) -> int:
        """How many day files the product would have on disk for what is stored, conversations included."""
        opened = self.opened(create=False)
        if opened is None:
            return 0
        active = "1" if self.settings.profile_scope == "agent" else "folder <> 'agent-profiles'"
        with opened.store.readers.borrow() as connection:
            count = connection.execute(
                f"SELECT (SELECT count(*) FROM (SELECT DISTINCT session_id, recorded_at / {DAY_MS} FROM turns))"
                " + (SELECT count(*) FROM (SELECT DISTINCT folder, day, CASE folder WHEN 'agent-profiles' THEN 0"
                f" ELSE session_id END FROM records WHERE {active}))"
            ).get
        assert isinstance(count, int)
        return count

    @property
    def pending_writes(self) -> int:
        """Turns that are being stored or wait for it now."""
        return self._pending

    def close(self) -> None:
        """Wait for the write that is going on, then let go of every file; safe to call twice."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None


def roots(viewer: Audience, profile_scope: str) -> list[Root]:
    """What is scanned, in the product's order. Agent profiles reach the owner's direct sessions, and only the owner's
    own words do; a session's own are always its own."""
    found: list[Root] = []
    own = Selection("r.session_id = ?", (-1 if viewer.session_id is None else viewer.session_id,))
    found += [Root("memories", own), Root("scenarios", own)]
    if profile_scope == "session":
        found.append(Root("profiles", own))
    else:
        found.append(Root("agent-profiles", profiles_of(viewer)))
    return found


def profiles_of(viewer: Audience) -> Selection:
    """The agent profiles a reader may see."""
    own = -1 if viewer.session_id is None else viewer.session_id
    if viewer.owner_private:
        return Selection("r.session_id = ? OR (r.agent_wide = 1 AND r.origin = 'owner')", (own,))
    return Selection("r.session_id = ?", (own,))


def _alone(connection: apsw.Connection) -> AbstractContextManager[None]:
    return nullcontext()
