"""One reload as our runtimes go through it: shut, wait, let go of what retires, and come back if it did not happen.

Not here: who retires, in which order, and for how long a host looks on (``host.reload``). Called by ``legacy_runtime``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from memory_sqlite.runtime.gate import Gate

if TYPE_CHECKING:
    from memory_sqlite.agent.embedding import Embedding


class Drain:
    """A prepared reload. ``embeddings`` says whose provider is taken away, asked when it begins."""

    def __init__(
        self,
        gate: Gate,
        embeddings: Callable[[], Sequence[Embedding]],
        close_managers: Callable[[str | None], Awaitable[None]],
        *,
        retires: bool,
    ) -> None:
        self._gate = gate
        self._embeddings = embeddings
        self._let_go: list[Embedding] = []
        self._close_managers = close_managers
        self._retires = retires
        self._is_shut = False

    async def drain(self) -> None:
        """Let nobody in, wait for those inside, then let go of managers and embedding services. Safe twice. What was
        resumed meanwhile, because the host looked on no longer, is left as it is."""
        embeddings = tuple(self._embeddings())
        if not self._retires and not embeddings:
            return
        if not self._is_shut:
            self._is_shut = True
            self._gate.shut()
        await self._gate.drained()
        if self._retires and not self._was_resumed():
            await self._close_managers(None)
        for embedding in embeddings:
            if self._was_resumed():
                return
            self._let_go.append(embedding)
            await asyncio.to_thread(embedding.let_go)
            if self._was_resumed():
                embedding.take_up()

    def _was_resumed(self) -> bool:
        return not self._is_shut

    def resume(self) -> None:
        """Take calls again; the embedding service is made anew, of the provider that is there then. Safe twice."""
        for embedding in self._let_go:
            embedding.take_up()
        self._let_go = []
        if self._is_shut:
            self._is_shut = False
            self._gate.open()
