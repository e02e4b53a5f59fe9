"""Notes of the workspace into a generation: only what came, went or changed, each note replaced whole.

A scan error deletes nothing. A file whose time is too fresh to be trusted is hashed again at the next look. What has
changed between being read and being filed is not filed in its old form: it stays dirty, and its siblings are filed.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from memory_sqlite.indexing import preparing, rows
from memory_sqlite.model import Document, SourceProblem
from memory_sqlite.processes.prepare import ChunkWords
from memory_sqlite.sources.discovery import discover
from memory_sqlite.sources.places import Discovery, ExtraPath, NotePlace, shown
from memory_sqlite.storage.connection import writing
from memory_sqlite.values import dataclass, field

if TYPE_CHECKING:
    from memory_sqlite.processes.prepared import Note

Progress = Callable[[str, int, int | None], None]
Forgotten = Callable[[str, str], bool]
_State = tuple[str, int | None, int | None, int | None, int | None]
_Ready = tuple[NotePlace, Document, tuple[ChunkWords, ...]]

_CHANGING: Final = "changed while it was being indexed; the next search or `memory-sqlite index` takes it in"
_FORGOTTEN: Final = "is a version of the note that was forgotten; it is not searched"
_BATCH: Final = 200
"""Notes a transaction; larger batches hold the index's write lock for most of a second."""
_UNTRUSTED_NS: Final = 50_000_000
"""A file written this shortly before it was read may change again without its time changing (timestamps move in
steps of up to 10 ms on Linux): its time is then not kept, so that the next look hashes it again."""


@dataclass
class NotesReport:
    """What one pass over the notes did; ``finished`` is false when the deadline came first."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    unread: int = 0
    changing: int = 0
    """Notes that changed between being read and being filed; the next look takes them in."""
    finished: bool = True
    problems: list[SourceProblem] = field(default_factory=list)
    looks: int = 0
    """How many passes it tells of."""
    read: set[str] = field(default_factory=set)
    """Paths, as they are shown, of the notes that were looked into."""

    def include(self, later: NotesReport) -> None:
        """Tell of a later pass, too: what was wrong with notes that it read again is as it says now."""
        if not self.looks:
            self.unchanged = later.unchanged
        for name in ("added", "changed", "removed", "chunks", "looks"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.unread, self.changing, self.finished = later.unread, later.changing, later.finished
        known = [problem for problem in self.problems if problem.path not in later.read]
        self.problems = known + [problem for problem in later.problems if problem not in known]
        self.read |= later.read


@dataclass(frozen=True, slots=True)
class Plan:
    """What differs between the workspace and the generation, by ``stat`` alone."""

    to_read: tuple[NotePlace, ...]
    to_remove: dict[str, _State]
    """What is gone, with what the generation said of it: what is filed anew meanwhile stays."""
    unchanged: int
    discovery: Discovery

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to do."""
        return not self.to_read and not self.to_remove


def plan(index: apsw.Connection, workspace: Path, extra_paths: Iterable[ExtraPath], *, every: bool = False) -> Plan:
    """Compare names, sizes, times and inodes; ``every`` reads all files whatever their times say."""
    discovery = discover(workspace, tuple(extra_paths))
    states = rows.document_states(index, "note")
    to_read = []
    unchanged = 0
    for place in discovery.places:
        state = states.pop(place.path, None)
        stamp = (place.size, place.mtime_ns, place.inode, place.device)
        if not every and state is not None and tuple(state[1:]) == stamp:
            unchanged += 1
        else:
            to_read.append(place)
    to_remove = {path: states[path] for path in sorted(states) if not discovery.may_exist(path)}
    return Plan(tuple(to_read), to_remove, unchanged, discovery)


def carry_out(
    index: apsw.Connection,
    work: Plan,
    *,
    deadline: Callable[[], bool] | None = None,
    progress: Progress | None = None,
    forgotten: Forgotten | None = None,
    redact: bool = True,
) -> NotesReport:
    """Read, chunk and file what the plan names; ``deadline`` is asked between notes and ends the pass early.

    With ``redact`` a secret in a note is masked before it is chunked: the index never holds it; ``get`` reads the file.

    ``forgotten`` says of a path and hash whether that version of the note was forgotten; it is asked within the
    transaction that would file it, so that what is forgotten while notes are read does not come back.
    """
    report = NotesReport(unchanged=work.unchanged, problems=list(work.discovery.problems), looks=1)
    reading = _Reading(work.to_read, report, deadline)
    batch: list[_Ready] = []
    told = 0
    # a pass with a deadline is a search's or a watch's: it takes in what it can, one note at a time
    with preparing.notes(reading.notes(), redact=redact, workers=deadline is None) as made:
        for note in made:
            place = reading.taken()
            report.problems += note.problems
            if note.document is not None:
                batch.append((place, note.document, note.words))
            else:
                report.unread += 1
            if len(batch) >= _BATCH:
                _file(index, batch, report, forgotten)
                batch = []
            if progress is not None:
                told = reading.done
                progress("notes", told, len(work.to_read))
    _file(index, batch, report, forgotten)
    if progress is not None and told < reading.done:  # the last ones could not be read
        progress("notes", reading.done, len(work.to_read))
    if work.to_remove:
        with writing(index):
            states = rows.document_states(index, "note")
            for path, state in work.to_remove.items():
                if states.get(path) == state:  # else it came back, and another process has filed it
                    report.removed += int(rows.delete_document(index, "note", path))
    return report


class _Reading:
    """The notes of a plan as they are read, a little ahead of being prepared and filed."""

    def __init__(self, places: Iterable[NotePlace], report: NotesReport, deadline: Callable[[], bool] | None) -> None:
        self._places = places
        self._report = report
        self._deadline = deadline
        self._given: deque[NotePlace] = deque()
        self.done = 0
        """Notes that were prepared or could not be read."""

    def notes(self) -> Iterator[Note]:
        """Each note that can be read, with its bytes; what cannot is told in the report."""
        for place in self._places:
            if self._deadline is not None and self._deadline():
                self._report.finished = False
                return
            self._report.read.add(shown(place.path))
            read = _read(place)
            if isinstance(read, tuple):
                self._given.append(place)
                yield read
                continue
            self.done += 1
            if read is not None:
                self._report.problems.append(read)
                self._report.unread += 1

    def taken(self) -> NotePlace:
        """Where the note lies whose preparation was taken last."""
        self.done += 1
        return self._given.popleft()


def _read(place: NotePlace) -> Note | SourceProblem | None:
    """A note's bytes and the file they were read from, which may be another by now than was listed.

    ``None`` when it is gone since it was listed: the next look removes it.
    """
    # looking whether anything changed needs none of it
    from memory_sqlite.sources.discovery import changed_ns
    from memory_sqlite.sources.safe_read import VANISHED, read_bytes

    read = read_bytes(place)
    if isinstance(read, SourceProblem):
        return None if read.reason == VANISHED else read
    data, seen = read
    where = (place.path, place.root, place.relative)
    return NotePlace(*where, len(data), changed_ns(seen), seen.st_ino, seen.st_dev), data


def _file(
    index: apsw.Connection,
    batch: list[_Ready],
    report: NotesReport,
    forgotten: Forgotten | None,
) -> None:
    if not batch:
        return
    now = time.time_ns()
    same = [_is_still(place, document.hash) for place, document, _ in batch]
    with writing(index):
        for (place, document, words), unchanged in zip(batch, same, strict=True):
            if not unchanged:
                mark_dirty(index, document.key)
                report.changing += 1
                report.problems.append(SourceProblem(shown(place.path), _CHANGING))
                continue
            if forgotten is not None and forgotten(document.key, document.hash):
                report.removed += int(rows.delete_document(index, "note", document.key))
                report.problems.append(SourceProblem(document.path, _FORGOTTEN))
                continue
            # asked here: another process may have filed the note anew since this pass began
            filed = rows.document_hash(index, "note", document.key)
            fresh = document.mtime_ns is not None and now - document.mtime_ns < _UNTRUSTED_NS
            if filed == document.hash:
                _stamp(index, document, None if fresh else document.mtime_ns)
                report.unchanged += 1
                continue
            report.chunks += rows.put_document(index, document, words)
            if fresh:
                _stamp(index, document, None)
            if filed is None:
                report.added += 1
            else:
                report.changed += 1


def _is_still(place: NotePlace, digest: str) -> bool:
    """Whether a note's bytes are those that were read; asked before the transaction, which holds no file open."""
    from memory_sqlite.sources.safe_read import read_bytes

    read = read_bytes(place)
    return not isinstance(read, SourceProblem) and hashlib.sha256(read[0]).hexdigest() == digest


def mark_dirty(index: apsw.Connection, key: str) -> None:
    """Let the next look read a note whatever its times say; inside the caller's transaction."""
    index.execute("UPDATE documents SET mtime_ns = NULL WHERE kind = 'note' AND key = ?", (key,))


def _stamp(index: apsw.Connection, document: Document, mtime_ns: int | None) -> None:
    """Note what the file looked like when its text was last compared; no time means: hash it again next time."""
    index.execute(
        "UPDATE documents SET size = ?, mtime_ns = ?, inode = ?, device = ? WHERE kind = 'note' AND key = ?",
        (document.size, mtime_ns, document.inode, document.device, document.key),
    )
