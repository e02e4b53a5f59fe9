"""Hashing every note now and then: an edit that kept size, times and inode is seen by nothing else.

Lives here: when it is due, and which notes are not what the generation says although ``stat`` sees no difference. Not
here: taking them in (``notes``). Called by ``agent.freshness`` for ``index`` and by ``agent.upkeep`` while serving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite.clock import Clock
from memory_sqlite.generations import layout
from memory_sqlite.indexing import notes, rows
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.discovery import discover
from memory_sqlite.sources.places import ExtraPath
from memory_sqlite.storage.connection import writing

_KEY: Final = "full_hash_at"
"""Row of a generation's ``meta``: when its notes were last all hashed, in milliseconds since the epoch."""


def is_due(index: apsw.Connection, clock: Clock, interval_s: float) -> bool:
    """Whether the last full hash is longer ago than the interval (or in the future: the clock was set back)."""
    age_ms = clock.now_ms() - int(layout.read_meta(index).get(_KEY, 0))
    return not 0 <= age_ms < interval_s * 1000


def done(index: apsw.Connection, at_ms: int) -> None:
    """Every note has been hashed since ``at_ms``; inside the caller's transaction."""
    layout.write_meta(index, _KEY, at_ms)


def differing(
    index: apsw.Connection, workspace: Path, extra_paths: Iterable[ExtraPath], ended: Callable[[], bool]
) -> list[tuple[str, str]]:
    """``(key, hash as filed)`` of the notes that ``stat`` takes for unchanged and whose bytes are others.

    Only reads, so it needs no lock. Stops early when ``ended``. Raises ``WorkspaceUnavailable``.
    """
    from memory_sqlite.sources.safe_read import read_bytes  # a search loads this module and reads no note

    states = rows.document_states(index, "note")
    found = []
    for place in discover(workspace, tuple(extra_paths)).places:
        if ended():
            break
        state = states.get(place.path)
        if state is None or tuple(state[1:]) != (place.size, place.mtime_ns, place.inode, place.device):
            continue  # the next look reads it anyway
        read = read_bytes(place)
        if not isinstance(read, SourceProblem) and sha256(read[0]).hexdigest() != state[0]:
            found.append((place.path, state[0]))
    return found


def mark(index: apsw.Connection, found: Iterable[tuple[str, str]], at_ms: int) -> None:
    """Let the next look read these notes, unless they were replaced meanwhile; and note that all were hashed."""
    with writing(index):
        states = rows.document_states(index, "note")
        for key, digest in found:
            if key in states and states[key][0] == digest:
                notes.mark_dirty(index, key)
        done(index, at_ms)
