"""An agent's embedding service and the filing of its vectors: now and to the end, or beside what a memory serves.

Lives here: which generation is filled, what is not sent unasked, and the thread that fills while serving. Not here: the
provider (``embeddings``), one pass over one generation (``indexing.vector_filing``), searching with vectors. Made by
``opened.open_agent`` where a provider is set; called by ``Memory.index`` and by whatever asks for a question's vector.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import apsw

from memory_sqlite import errors, limits, paths
from memory_sqlite.agent.vector_spaces import of_settings
from memory_sqlite.config import Settings
from memory_sqlite.generations import vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.indexing import vector_filing, vector_inputs
from memory_sqlite.indexing.keeper import IndexKeeper
from memory_sqlite.indexing.vector_claim import Claim
from memory_sqlite.indexing.vector_filing import Filling
from memory_sqlite.indexing.vector_inputs import Missing
from memory_sqlite.model import VectorReport
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.storage.store import Store

if TYPE_CHECKING:
    from memory_sqlite.embeddings.protocol import EmbeddingIdentity, Provider
    from memory_sqlite.embeddings.service import EmbeddingService

Progress = Callable[[str, int, int | None], None]

_UNPAID: Final = "the provider charges; nothing was sent to it, because nobody has said that so much may be"
_CLOSED: Final = "the memory was closed"
_TAKEN: Final = "the embedding provider is being taken away"
_LOADING: Final = "the embedding model is still loading, or its server does not answer"
_NO_TABLES: Final = "the search index has no place for vectors; run `memory-sqlite index --full`"
_WAITING: Final = "another process makes vectors"
_PATIENCE: Final = 2.0
"""Timeouts of a batch in which another process has filed nothing, after which it is taken to hang: a batch takes one at
most, unless the provider refuses it and is asked in halves."""
_RETRIES: Final = 8
"""A generation is published once in a long while; to meet eight new ones in a row something is badly wrong."""


class Embedding:
    """The service, made when it is first needed, and one pass of filing at a time. Any thread may use it."""

    def __init__(
        self, settings: Settings, store: Store, keeper: IndexKeeper, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._store = store
        self._keeper = keeper
        self._service: EmbeddingService | None = None
        self._provider: Provider | None = None
        self._former: tuple[str, EmbeddingService] | None = None
        """The provider that was set before, by the identity of its space, while it answers for the one that fills."""
        self._making = threading.Lock()
        self._closed = threading.Event()
        self._let_go = False
        """Its plugin is being taken away: nothing is made anew until ``take_up``."""
        self._pass = threading.Lock()
        self._wanted = threading.Event()
        """Somebody waits for the pass that fills beside what is served to end."""
        self._filling = Filling()

    def service(self) -> EmbeddingService:
        """What embeds, made at the first call; it loads its model in the background.

        Raises ``InvalidConfiguration`` and ``ExtraMissing`` where the provider that is set cannot be had, and
        ``EmbeddingFailed`` when this was closed.
        """
        with self._making:
            if self._closed.is_set():
                raise errors.EmbeddingFailed(_CLOSED)
            if self._let_go:
                raise errors.EmbeddingFailed(_TAKEN)
            if self._service is None:
                from memory_sqlite.embeddings import registry
                from memory_sqlite.embeddings.service import EmbeddingService

                self._provider = registry.open_provider(self._settings)
                timeout_s = self._settings.embedding_batch_timeout_ms / 1000
                self._service = EmbeddingService(self._provider, batch_timeout_s=timeout_s)
            return self._service

    def answering(self, wait_s: float) -> EmbeddingService | None:
        """Whom to ask for the vector of a question: the provider that is set, once its space is complete; until then
        the one of a space that is, where it can still be had. ``None``: there are no vectors to compare it with.

        Waits at most ``wait_s``, for both together, for models that are loading. Raises as ``service``, and
        ``IndexUnavailable``.
        """
        ends = self._clock() + wait_s
        service = self.service()
        identity = service.identity(wait_s)
        with self._keeper.reader() as index:
            spaces = vector_rows.spaces(index)
        if identity is None:
            return service if spaces else None
        named = vector_rows.identity_text(identity.json())
        mine = next((space for space in spaces if space.identity == named), None)
        others = [space for space in spaces if space is not mine and space.state == "complete"]
        if others and (mine is None or mine.state != "complete"):
            former = self._former_service(others[-1])
            if former is not None and self._is_had(former, others[-1], max(0.0, ends - self._clock())):
                return former
        else:
            self._part_from_former()
        return None if mine is None else service

    @staticmethod
    def _is_had(former: EmbeddingService, space: Space, wait_s: float) -> bool:
        """Whether it is the model of that space, or may still turn out to be: settings name the server of today."""
        identity = former.identity(wait_s)
        if identity is None:
            return bool(former.state()["state"] == "loading")
        return vector_rows.identity_text(identity.json()) == space.identity

    def _former_service(self, space: Space) -> EmbeddingService | None:
        """What made a space, opened once; ``None`` where it cannot be had, or is not to be asked."""
        with self._making:
            if self._closed.is_set():
                return None
            if self._former is not None and self._former[0] == space.identity:
                return self._former[1]
            opened = self._open_former(space)
            left, self._former = self._former, None if opened is None else (space.identity, opened)
        if left is not None:
            left[1].close()
        return opened

    def _open_former(self, space: Space) -> EmbeddingService | None:
        """Who left a server for a model on this machine sends it no question any more, and a model that was on this
        machine is not looked for on a server."""
        from memory_sqlite.embeddings import registry
        from memory_sqlite.embeddings.service import EmbeddingService

        known = json.loads(space.identity)
        settings = self._settings
        # of a server: asked for dimensions only by somebody who asks for them now too
        asks = settings.embedding_provider == known["provider"] and settings.embedding_dimensions is not None
        try:
            former = replace(
                settings,
                embedding_provider=known["provider"],
                embedding_model=known["model"],
                embedding_dimensions=known["dimensions"] if asks else None,
            )
            provider = registry.open_provider(former)
        except errors.MemorySqliteError:
            return None
        assert provider is not None and self._provider is not None, "both are named"
        if provider.cost != space.cost or (provider.cost == "paid" and self._provider.cost != "paid"):
            provider.close()
            return None
        return EmbeddingService(provider)

    def _part_from_former(self) -> None:
        with self._making:
            former, self._former = self._former, None
        if former is not None:
            former[1].close()

    def fill(
        self,
        *,
        spend: bool,
        progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
        patient: bool = True,
    ) -> VectorReport:
        """Give every text of the current generation a vector; never raises for what the provider or the index does.

        ``spend`` allows any amount to be sent to a provider that charges; else it is left where that is more than
        ``limits.EMBEDDING_UNASKED_…``. A pass that is not ``patient`` ends early for one that is.
        """
        with self._turn(patient):
            done = (self._filling.embedded, self._filling.reused)
            provider, model = str(self._settings.embedding_provider), self._settings.embedding_model
            report = VectorReport("partial", provider, model, missing=None, characters=None)
            try:
                report = self._follow(report, spend, progress, lambda: self._ends(stopped, patient))
            except errors.MemorySqliteError as error:
                report = self._counted(replace(report, state="failed", reason=error.message))
            except apsw.SQLError:
                report = replace(report, state="failed", reason=_NO_TABLES)
            return replace(report, embedded=self._filling.embedded - done[0], reused=self._filling.reused - done[1])

    def _counted(self, report: VectorReport) -> VectorReport:
        """A report of a pass that did not come so far, with what is left; unknown where the index cannot say it."""
        try:
            with self._keeper.reader() as index:
                space = of_settings(vector_rows.spaces(index), self.state(), self._settings)
                return _with(report, vector_inputs.missing(index, space))
        except (errors.MemorySqliteError, apsw.Error):
            return report

    def _ends(self, stopped: Callable[[], bool], patient: bool) -> bool:
        return self._closed.is_set() or stopped() or (not patient and self._wanted.is_set())

    @contextmanager
    def _turn(self, patient: bool) -> Iterator[None]:
        if patient:
            self._wanted.set()
        with self._pass:
            if patient:
                self._wanted.clear()
            yield

    def _follow(
        self, report: VectorReport, spend: bool, progress: Progress | None, ends: Callable[[], bool]
    ) -> VectorReport:
        """Fill what is current until it is full, also when another generation takes its place meanwhile."""
        service = self.service()
        timeout_s = self._settings.embedding_batch_timeout_ms / 1000
        identity = service.identity(timeout_s)
        if identity is None:
            raise errors.EmbeddingFailed(service.state().get("error") or _LOADING)
        report = replace(report, provider=identity.provider, model=identity.model, dimensions=identity.dimensions)
        with Claim(self._store.directory, _PATIENCE * timeout_s) as claim:
            for _ in range(_RETRIES):
                number = self._keeper.number()
                if number is None:
                    raise errors.IndexUnavailable("there is no search index yet")
                try:
                    index = vector_filing.open_for_filing(
                        paths.generation_file(self._store.directory, number), self._store.file_key
                    )
                except errors.MemorySqliteError:
                    if self._keeper.number() == number:
                        raise
                    continue
                try:
                    with translated_index():
                        report = self._fill(index, number, identity, report, spend, progress, ends, claim)
                finally:
                    index.close()
                if report.state != "partial" or ends():
                    return report
        return report

    def _fill(
        self,
        index: apsw.Connection,
        number: int,
        identity: EmbeddingIdentity,
        report: VectorReport,
        spend: bool,
        progress: Progress | None,
        ends: Callable[[], bool],
        claim: Claim,
    ) -> VectorReport:
        service, provider = self.service(), self._provider
        assert provider is not None, "its identity is known"
        space = vector_filing.open_space(index, identity, provider.weight, provider.cost)
        unpaid = None if spend else self._unpaid(index, space, report)
        if unpaid is None and not claim.taken:
            newest = vector_inputs.newest_chunk(index)
            if not claim.take(
                lambda: vector_inputs.count_without_vector(index, space, newest),
                lambda: ends() or self._keeper.number() != number,
                lambda: None if progress is None else progress(_WAITING, 0, None),
            ):
                return _with(report, vector_inputs.missing(index, space))
            # another process may have filed, completed and deleted meanwhile
            space = vector_filing.open_space(index, identity, provider.weight, provider.cost)
            unpaid = None if spend else self._unpaid(index, space, report)
        if unpaid is not None:
            return unpaid
        try:
            full = vector_filing.fill(
                index,
                space,
                provider.limits,
                lambda texts: self._in_time(service.embed(texts)),
                self._filling,
                stopped=lambda: ends() or self._keeper.number() != number,
                progress=progress,
            )
            report = replace(report, state="complete" if full else "partial")
        except errors.EmbeddingFailed as error:
            report = replace(report, state="failed", reason=error.message)
        left = vector_inputs.missing(index, space)
        refused = self._refused(index, space, left.texts) if report.state == "complete" else 0
        return _with(replace(report, refused=refused), left)

    def _unpaid(self, index: apsw.Connection, space: Space, report: VectorReport) -> VectorReport | None:
        """What is said where more is missing than is sent unasked to a provider that charges; else ``None``."""
        if space.cost != "paid":
            return None
        left = vector_inputs.missing(index, space)
        if vector_inputs.is_small(left):
            return None
        return _with(replace(report, state="unpaid", reason=_UNPAID), left)

    def _refused(self, index: apsw.Connection, space: Space, missing: int) -> int:
        """How many of the few that are missing at the end were refused; what came since was not."""
        if not self._filling.refused:
            return 0
        found = vector_inputs.without_vector(index, space, vector_inputs.NEWEST, missing)
        return sum(one.digest in self._filling.refused for one in found)

    def _in_time(self, vectors: list[bytes | None]) -> list[bytes | None]:
        if self._closed.is_set():  # nobody waits for these any more: the files are let go of
            raise errors.EmbeddingFailed(_CLOSED)
        return vectors

    def state(self) -> dict[str, Any] | None:
        """What the service says of itself; ``None`` while nothing has needed it."""
        with self._making:
            return None if self._service is None else self._service.state()

    def let_go(self) -> None:
        """Part from the provider, whose plugin is being taken away, when its calls under way have ended or had
        ``limits.EMBEDDING_CLOSE_S``; searches go by words until ``take_up``."""
        from memory_sqlite.embeddings.adapter import Adapter

        with self._making:
            self._let_go = True
            service, self._service = self._service, None
            provider, self._provider = self._provider, None
        self._part_from_former()
        if isinstance(provider, Adapter):
            provider.retire()
            provider.drain(limits.EMBEDDING_CLOSE_S)
        if service is not None:
            service.close()

    def take_up(self) -> None:
        """Use the provider again, made anew when it is needed."""
        with self._making:
            self._let_go = False

    def close(self) -> None:
        """Let go of the provider. A pass ends; what it is embedding at this moment is thrown away."""
        self._closed.set()
        with self._making:
            service, self._service = self._service, None
        self._part_from_former()
        if service is not None:
            service.close()


def _with(report: VectorReport, left: Missing) -> VectorReport:
    return replace(report, missing=left.texts, characters=left.characters)


class Filer:
    """While a memory serves: a thread that gives texts their vectors as they come, woken by whatever brings some."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._ended = threading.Event()
        self._woken = threading.Event()
        self.last: VectorReport | None = None
        """What the last pass did."""
        self._thread = threading.Thread(target=self._run, name="memory-sqlite-vectors", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There may be texts without a vector; returns at once."""
        self._woken.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.clear()
            self.last = self._embedding.fill(spend=False, stopped=self._ended.is_set, patient=False)
            self._woken.wait(limits.EMBEDDING_LOOK_S)

    def close(self) -> None:
        """End the thread after the batch it is embedding. One that does not come back is left to itself: once the
        service is closed nothing is filed any more."""
        self._ended.set()
        self._woken.set()
        self._thread.join(limits.EMBEDDING_CLOSE_S)
