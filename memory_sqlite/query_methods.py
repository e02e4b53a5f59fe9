"""The door's methods for structured questions: SQL over the store and over JSONL.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: the work. Inherited by
``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from memory_sqlite import limits, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

if TYPE_CHECKING:
    from memory_sqlite.query.asking import Asker
    from memory_sqlite.query.result import QueryResult, Row


class QueryMethods:
    """What ``Memory`` can do of this kind."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock
    _asker: Asker | None = None
    _asker_lock: ClassVar = threading.Lock()

    if TYPE_CHECKING:  # this is ``Memory``'s own

        def _enter(self) -> Opened | None: ...

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        max_rows: int = limits.QUERY_ROWS[2],
        timeout_s: float = limits.QUERY_TIMEOUT_S[2],
        memory_bytes: int = limits.QUERY_MEMORY_BYTES[2],
        explain: bool = False,
        on_rows: Callable[[tuple[str, ...], list[Row]], None] | None = None,
        abort: threading.Event | None = None,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> QueryResult:
        """One SELECT over the store's views, JSONL files (``jsonl('…')``) and transcripts (``transcript('…')``).

        An operator's tool: it sees everything, whoever said it; never hand SQL of a model or a stranger's to it. It
        reads only, in a process of its own, within the bounds given; ``abort`` ends it from another thread. Rows beyond
        ``max_rows`` are left out and the result says so. With ``on_rows`` batches are handed out as they come, with the
        columns, and not kept. ``explain`` gives the plan and runs nothing. ``docs/query.md`` describes the SQL.

        Raises ``QueryInvalid``, ``QueryRefused``, ``QueryLimit``, ``InvalidArgument`` (bounds, file patterns),
        ``Cancelled``, ``Overloaded``, ``WorkerLost`` and the store's errors.
        """
        from memory_sqlite.query.result import QueryResult

        if (opened := self._enter()) is None:
            return QueryResult(disabled=True)
        from memory_sqlite.query import collecting

        asked = collecting.Question(sql, parameters, max_rows, timeout_s, memory_bytes, explain)
        return collecting.ask(self._own_asker(opened), asked, self._settings, on_rows, abort, progress)

    def _own_asker(self, opened: Opened) -> Asker:
        from memory_sqlite.query.asking import Asker

        with self._asker_lock:  # not the memory's own: a query never waits for a write
            if self._asker is None:
                store = opened.store
                self._asker = Asker(store.directory / paths.STORE_FILE, store.file_key)
                opened.watches.append(self._asker)  # ended with the memory
                if opened.closed:
                    self._asker.close()
            return self._asker
