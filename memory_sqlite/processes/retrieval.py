"""Asking a generation through the retrieval workers: the typed face of their pool.

Lives here: what parent and worker agree on for each question. Not here: which number is current. Called by whoever
answers searches; it sends path and number with each request and takes ``Gone`` back: then ask the store again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.model import DocumentKind
from memory_sqlite.processes import checks, hits
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.hits import Found, SearchRequest
from memory_sqlite.processes.pending import Aborting, Pending
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.questions import HydrateRequest, PresenceRequest, Question, State, StateRequest, Texts
from memory_sqlite.processes.slots import Bounds

WORKER = "retrieval"


class Retrieval:
    """The retrieval workers of a process. Any thread may ask; each call here waits for its answer.

    All calls raise ``Gone``, ``Overloaded``, ``Cancelled`` (the caller's ``abort`` was set, or ``deadline_s`` seconds
    passed: then the worker is free again or gone), ``WorkerLost`` and what the worker met: ``IndexUnavailable``.
    """

    def __init__(self, pool: Pool | None = None, *, bounds: Bounds | None = None, key: FileKey | None = None) -> None:
        """``key`` opens the generations that are asked about: those of one agent."""
        self.pool = pool or Pool(WORKER, bounds=bounds, key=key)

    @property
    def available(self) -> bool:
        """Whether workers can be had here; if not, read in your own process."""
        return self.pool.available

    def search(
        self,
        path: Path,
        number: int,
        asked: SearchRequest,
        *,
        deadline_s: float | None = None,
        abort: Aborting | None = None,
    ) -> Found:
        """What ``search.run.search`` returns for the generation ``number`` at ``path``."""
        found: Found = self.submit_search(path, number, asked, deadline_s=deadline_s).result(abort)
        return found

    def submit_search(
        self, path: Path, number: int, asked: SearchRequest, *, deadline_s: float | None = None
    ) -> Pending:
        """The same without waiting: ``result`` gives it, ``cancel`` stops it, ``async_calls.outcome`` awaits it."""
        return self._submit("search", path, number, hits.request_json(asked), asked, deadline_s)

    def texts(self, path: Path, number: int, chunks: tuple[int, ...], *, deadline_s: float | None = None) -> Texts:
        """The texts of chunks; unknown ids are left out, ids that did not fit are in ``left``."""
        texts: Texts = self._ask("hydrate", path, number, HydrateRequest(chunks), deadline_s)
        return texts

    def present(
        self, path: Path, number: int, kind: DocumentKind, keys: tuple[str, ...], *, deadline_s: float | None = None
    ) -> frozenset[str]:
        """Those of the keys that the generation has a document for."""
        present: frozenset[str] = self._ask("presence", path, number, PresenceRequest(kind, keys), deadline_s)
        return present

    def state(self, path: Path, number: int, *, deadline_s: float | None = None) -> State:
        """What the generation says of itself."""
        state: State = self._ask("state", path, number, StateRequest(), deadline_s)
        return state

    def let_go(self, path: Path) -> int:
        """Have every worker close a generation, so that it can be retired; how many had it open.

        Waits for those that are answering from it.
        """
        had = 0
        for pending in self.pool.tell("let_go", {"path": str(path)}, _let_go):
            try:
                had += pending.result()
            except (errors.WorkerLost, errors.Cancelled):
                pass  # its hold went with it
        return had

    def residents(self, wait_s: float = 0.5) -> list[dict[str, Any]]:
        """What the workers keep of vectors in memory: route, rows, bytes. Who is busy for longer is left out."""
        soon = _Soon(wait_s)
        kept: list[dict[str, Any]] = []
        for pending in self.pool.tell("residents", {}, _residents):
            try:
                kept += pending.result(soon)
            except (errors.WorkerLost, errors.Cancelled):
                pass
        return kept

    def close(self) -> None:
        """End the workers."""
        self.pool.close()

    def _ask(self, kind: str, path: Path, number: int, question: Question, deadline_s: float | None) -> Any:
        return self._submit(kind, path, number, question.json(), question, deadline_s).result()

    def _submit(
        self,
        kind: str,
        path: Path,
        number: int,
        body: dict[str, Any],
        asked: SearchRequest | Question,
        deadline_s: float | None,
    ) -> Pending:
        def check(answer: dict[str, Any], blob: bytes) -> Any:
            if blob:
                raise WireError("bytes that were not asked for")
            return hits.answer_of(answer, asked) if isinstance(asked, SearchRequest) else asked.answer(answer)

        return self.pool.submit(
            kind,
            {"path": str(path), "number": number, "ask": body},
            check,
            # an agent has a directory, and agents take turns
            owner=str(path.parent),
            place=str(path),
            deadline_s=deadline_s,
        )


class _Soon:
    """Not for ever: set once so many seconds have passed."""

    def __init__(self, seconds: float) -> None:
        self._over = time.monotonic() + seconds

    def is_set(self) -> bool:
        return time.monotonic() >= self._over


RESIDENT: Final[dict[str, checks.Check[Any]]] = {
    "route": checks.text,
    "whole": checks.truth,
    "rows": checks.count,
    "gone": checks.count,
    "bytes": checks.count,
}


def _residents(answer: dict[str, Any], blob: bytes) -> list[dict[str, Any]]:
    kept = checks.several(lambda value: checks.fields(value, RESIDENT))
    return list(checks.fields(answer, {"residents": kept})["residents"])


def _let_go(answer: dict[str, Any], blob: bytes) -> bool:
    closed: bool = checks.fields(answer, {"closed": checks.truth})["closed"]
    return closed
