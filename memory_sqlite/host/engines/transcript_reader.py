"""What a host's transcript must let us ask, and reading one accepted turn out of it.

A host gives a ``TranscriptReader``; the rules of the range (inclusive, on the active path, bounded) are here, so that
every host keeps the same ones. Called by ``drain`` and ``fence``, in threads, never on the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from memory_sqlite import errors, limits
from memory_sqlite.context.shapes import TurnAdmission, TurnAnchor
from memory_sqlite.host.engines import turn_rows
from memory_sqlite.text.units import utf8_length

ReadFailure = Literal["projection-unavailable", "session-rebound", "stale", "non-descendant", "too-large"]


@dataclass(frozen=True)
class TranscriptEntry:
    """One message entry on the active path. ``position`` counts messages of that path, ``raw_seq`` lines ever written.

    ``parent_id`` is the message entry before it on the path, ``None`` for the first.
    """

    entry_id: str
    parent_id: str | None
    raw_seq: int
    position: int
    role: str
    message: Mapping[str, Any]
    idempotency_key: str | None = None


class TranscriptView(Protocol):
    """One consistent look at a session's active path; nothing in it changes while it is open."""

    @property
    def session_id(self) -> str: ...

    @property
    def store_path(self) -> str: ...

    @property
    def generation(self) -> str:
        """Another one after anything but an append."""
        ...

    def entry(self, entry_id: str) -> TranscriptEntry | None:
        """An entry of the active path, or ``None``."""
        ...

    def between(self, first: int, last: int) -> Iterable[TranscriptEntry]:
        """The entries at positions ``first`` to ``last``, both included, oldest first."""
        ...


class TranscriptReader(Protocol):
    """A host's transcripts."""

    def view(self, agent_id: str, session_key: str) -> AbstractContextManager[TranscriptView | None]:
        """Look at the session that the key names now; ``None`` when there is none.

        Raises ``errors.TurnUnreadable("projection-unavailable")`` while it cannot be looked at.
        """
        ...


def _unreadable(kind: ReadFailure) -> errors.TurnUnreadable:
    return errors.TurnUnreadable(kind)


def is_as_anchored(entry: TranscriptEntry, anchor: TurnAnchor) -> bool:
    """Whether an entry is where its anchor says: same place in the file, on the path, and below the same parent."""
    return (entry.raw_seq, entry.parent_id, entry.position, entry.idempotency_key) == (
        anchor.raw_seq,
        anchor.effective_parent_id,
        anchor.active_message_position,
        anchor.idempotency_key,
    )


def read_turn(
    reader: TranscriptReader,
    admission: TurnAdmission,
    terminal: TurnAnchor,
    *,
    max_entries: int = limits.TURN_ENTRIES_MAX,
    max_bytes: int = limits.TURN_BYTES_MAX,
) -> tuple[Mapping[str, Any], ...]:
    """The messages from the admitted entry to the terminal one, both included.

    Raises ``TurnUnreadable``: the session is another one now (``session-rebound``), an end is gone, moved or rewritten
    (``stale``), the terminal does not follow from the admission (``non-descendant``), or it is beyond the bounds.
    """
    start = admission.anchor
    with reader.view(start.agent_id, start.session_key) as view:
        if view is None or (view.session_id, view.store_path) != (start.session_id, start.store_path):
            raise _unreadable("session-rebound")
        if (terminal.agent_id, terminal.session_id, terminal.session_key) != (
            start.agent_id,
            start.session_id,
            start.session_key,
        ):
            raise _unreadable("non-descendant")
        if view.generation != start.generation or terminal.generation != start.generation:
            raise _unreadable("stale")
        first, last = view.entry(start.entry_id), view.entry(terminal.entry_id)
        if first is None or last is None or not is_as_anchored(first, start) or not is_as_anchored(last, terminal):
            raise _unreadable("stale")
        if first.role != "user":
            raise _unreadable("stale")
        if last.position < first.position:
            raise _unreadable("non-descendant")
        if last.position - first.position >= max_entries:
            raise _unreadable("too-large")
        return _bounded(view, first, last, max_bytes)


def _bounded(
    view: TranscriptView, first: TranscriptEntry, last: TranscriptEntry, max_bytes: int
) -> tuple[Mapping[str, Any], ...]:
    messages: list[Mapping[str, Any]] = []
    size, before = 0, first.parent_id
    for entry in view.between(first.position, last.position):
        if entry.parent_id != before:
            raise _unreadable("non-descendant")
        before = entry.entry_id
        try:
            size += utf8_length(turn_rows.dump(dict(entry.message)))
        except (TypeError, ValueError, RecursionError) as error:
            raise _unreadable("stale") from error
        if size > max_bytes:
            raise _unreadable("too-large")
        messages.append(entry.message)
    if before != last.entry_id:
        raise _unreadable("non-descendant")
    return tuple(messages)
