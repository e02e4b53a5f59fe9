"""The read fence: while a turn runs, what an engine reads of its session ends before the entry the turn began with.

One fence stands for one admitted turn. It breaks when that entry is gone, rewritten, moved, or when a cursor has passed
it; then the turn, and that turn alone, goes on without the engine. Called by ``logical_turn`` and by whoever reads a
transcript for an engine (``EngineHost.fence_of``).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from memory_sqlite import errors
from memory_sqlite.context.shapes import DeltaResult, TurnAdmission
from memory_sqlite.host.engines import turn_rows
from memory_sqlite.host.engines.transcript_reader import TranscriptEntry, TranscriptReader, is_as_anchored


class ReadFence:
    """Stands before the admitted entry until it is lifted. Thread-safe; once broken it stays broken."""

    def __init__(self, admission: TurnAdmission, reader: TranscriptReader) -> None:
        self.admission = admission
        self._reader = reader
        self._lock = threading.Lock()
        self._digest: bytes | None = None
        self._broken: str | None = None
        self._lifted = False

    @property
    def broken(self) -> str | None:
        """Why it broke, or ``None``."""
        return self._broken

    @property
    def position(self) -> int:
        """Where on the active path the admitted entry stands: readers see what is before it."""
        return self.admission.anchor.active_message_position

    def lift(self) -> None:
        """The turn has ended: later reads are not held up, and nothing breaks it any more."""
        self._lifted = True

    def check(self) -> None:
        """Look at the transcript: is the admitted entry what and where it was? Reads; call it in a thread.

        Raises ``FenceBroken``, and ``TurnUnreadable`` while the transcript cannot be read.
        """
        if self._lifted:
            return
        if self._broken is not None:
            raise errors.FenceBroken(self._broken)
        anchor = self.admission.anchor
        with self._reader.view(anchor.agent_id, anchor.session_key) as view:
            if view is None or (view.session_id, view.store_path) != (anchor.session_id, anchor.store_path):
                self._break("the admitted entry belongs to another session or store now")
            entry = view.entry(anchor.entry_id)
            if entry is None:
                self._break("the admitted entry is gone")
            if entry.role != "user":
                self._break("the admitted entry is not a user's message")
            if not is_as_anchored(entry, anchor):
                self._break("the admitted entry was moved")
            if view.generation != anchor.generation:
                self._break("the transcript was rewritten")
        self._unchanged(entry)

    def read(self, deltas: Callable[..., DeltaResult], **params: Any) -> DeltaResult:
        """Read a transcript on for an engine, up to the admitted entry. Call it in a thread.

        ``deltas`` is told the fence's anchor and ends before it. Raises ``FenceBroken``: for this turn it stays broken.
        """
        self.check()
        try:
            result = deltas(**params, fence=None if self._lifted else self.admission.anchor)
        except errors.FenceBroken as error:
            self._break(str(error))
        self.check()  # what was read while the entry was being changed is not given out
        return result

    def _unchanged(self, entry: TranscriptEntry) -> None:
        digest = hashlib.sha256(turn_rows.dump(dict(entry.message)).encode("utf-8")).digest()
        with self._lock:
            if self._digest is None:
                self._digest = digest
        if digest != self._digest:
            self._break("the admitted entry was rewritten")

    def _break(self, why: str) -> NoReturn:
        with self._lock:
            self._broken = self._broken or why
        raise errors.FenceBroken(self._broken)


class Fences:
    """The fences that stand. Several turns of one session may run: the earliest entry counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standing: list[ReadFence] = []

    def put(self, fence: ReadFence) -> None:
        """Reads of its session end before it from now on."""
        with self._lock:
            self._standing.append(fence)

    def lift(self, fence: ReadFence) -> None:
        """Take it away; nothing happens when it does not stand."""
        fence.lift()
        with self._lock:
            self._standing = [standing for standing in self._standing if standing is not fence]

    def of(self, agent_id: str, session_key: str, session_id: str | None) -> ReadFence | None:
        """The fence that reads of a session end at, by whichever of its names it is asked for; or ``None``."""
        with self._lock:
            found = [
                fence
                for fence in self._standing
                if (anchor := fence.admission.anchor).agent_id == agent_id
                and (anchor.session_key == session_key or anchor.session_id == session_id)
            ]
        return min(found, key=lambda fence: fence.position, default=None)
