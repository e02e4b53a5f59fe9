"""Who files the vectors of an agent: one pass at a time over all processes, so that no text is paid for twice.

Lives here: the claim and waiting for it. Not here: what a pass does (``vector_filing``), when one is made
(``agent.embedding``, which alone calls this). The claim is ``flock(2)`` on the agent's directory: no file is made for
it, SQLite's own locks (POSIX, on its files) know nothing of it, and it ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

_LOOK_S: Final = 0.05
"""How often who waits tries again: a waiting pass costs 0.1 per cent of a core."""


class Claim:
    """The right to embed for one agent; a context manager that gives it back. Used by one thread."""

    def __init__(
        self,
        directory: Path,
        patience_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """After ``patience_s`` seconds in which nothing was filed, whoever has the claim is taken to hang."""
        self._directory = directory
        self._patience_s = patience_s
        self._clock = clock
        self._pause = pause
        self._descriptor: int | None = None
        self.taken = False

    def take(self, left: Callable[[], int], ends: Callable[[], bool], waiting: Callable[[], object]) -> bool:
        """Take it, waiting while somebody else has it; ``False`` when it ``ends`` before.

        ``left`` is how much of what was there at first has no vector yet: as long as that falls, the other one works.
        It can fall only so often, so nobody waits for ever; after that both work, and what one has filed the other
        passes over. ``waiting`` is called once, before the wait. A file system without such locks lets everybody in.
        """
        if self._is_free():
            return True
        waiting()
        before, since = left(), self._clock()
        while not ends():
            self._pause(_LOOK_S)
            if self._is_free():
                return True
            if self._clock() - since >= self._patience_s:
                now = left()
                if now >= before:
                    self.taken = True
                    return True
                before, since = now, self._clock()
        return False

    def _is_free(self) -> bool:
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # no locks here, or no descriptors left: better paid for twice than never embedded
        self.taken = True
        return True

    def release(self) -> None:
        """Give it back; safe twice."""
        self.taken = False
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked copy of the descriptor would keep it
            except OSError:
                pass
            finally:
                os.close(descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
