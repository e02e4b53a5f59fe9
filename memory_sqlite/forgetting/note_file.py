"""Replacing a note without what was forgotten: only the file that was looked at, whole or not at all.

A file that was edited meanwhile is left alone and reported: whoever edits it knows better. Called by ``run``.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.forgetting.notes import Edit, sample, split, without
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.notes import resolve_note
from memory_sqlite.sources.places import ExtraPath, NotePlace
from memory_sqlite.sources.safe_read import open_folder, read_bytes

Outcome = Literal["done", "changed", "gone", "failed"]

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def apply(
    workspace: Path | None, extra_paths: Sequence[ExtraPath], edit: Edit, clock: Clock, samples: Samples
) -> Outcome:
    """Carry out one edit. ``changed``: the file is not the one that was looked at, so it was not touched."""
    try:
        place = resolve_note(workspace, tuple(extra_paths), edit.path) if workspace is not None else None
    except errors.PathNotAllowed:
        return "changed"
    if place is None:
        return "gone"
    data = _expected(place, edit.digest)
    if data is None:
        return "changed"
    sample(split(data), edit, samples)
    try:
        return _replace(place, edit, data, clock)
    except OSError:
        return "failed"


def _expected(place: NotePlace, digest: str) -> bytes | None:
    """The bytes of the file if they are those of the digest."""
    read = read_bytes(place)
    if isinstance(read, SourceProblem) or hashlib.sha256(read[0]).hexdigest() != digest:
        return None
    return read[0]


def _replace(place: NotePlace, edit: Edit, data: bytes, clock: Clock) -> Outcome:
    name = place.relative.rpartition("/")[2]
    folder = open_folder(place)
    try:
        if edit.whole:
            os.unlink(name, dir_fd=folder)
        else:
            # hidden and ending in .tmp: no scan takes it for a note, whenever this process may die
            beside = f".forget-{clock.token_bytes(8).hex()}.tmp"
            try:
                _write(folder, beside, without(data, edit.lines), stat.S_IMODE(os.stat(name, dir_fd=folder).st_mode))
                # as late as can be: somebody may have saved the file while the new one was written
                if _expected(place, edit.digest) is None:
                    return "changed"
                os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                try:
                    os.unlink(beside, dir_fd=folder)
                except FileNotFoundError:
                    pass  # it has the note's name now
        os.fsync(folder)
    finally:
        os.close(folder)
    return "done"


def _write(folder: int, name: str, data: bytes, mode: int) -> None:
    descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
