"""Notes of the workspace into a generation: only what came, went or changed, each note replaced whole.

A scan error deletes nothing. A file whose time is too fresh to be trusted is hashed again at the next look. What has
changed between being read and being filed is not filed in its old form: it stays dirty, and its siblings are filed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite.indexing import rows
from memory_sqlite.model import Document, SourceProblem
from memory_sqlite.sources.discovery import discover
from memory_sqlite.sources.places import Discovery, ExtraPath, NotePlace, shown
from memory_sqlite.storage.connection import writing
from memory_sqlite.values import dataclass, field

Progress = Callable[[str, int, int | None], None]
Forgotten = Callable[[str, str], bool]
_State = tuple[str, int | None, int | None, int | None, int | None]

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
    report = NotesReport(unchanged=work.unchanged, problems=list(work.discovery.problems))
    known = rows.document_states(index, "note")
    batch: list[tuple[NotePlace, Document]] = []
    for done, place in enumerate(work.to_read, 1):
        if deadline is not None and deadline():
            report.finished = False
            break
        document = _read(place, report, redact)
        if document is not None:
            batch.append((place, document))
        if len(batch) >= _BATCH:
            _file(index, batch, known, report, forgotten)
            batch = []
        if progress is not None:
            progress("notes", done, len(work.to_read))
    _file(index, batch, known, report, forgotten)
    if work.to_remove:
        with writing(index):
            states = rows.document_states(index, "note")
            for path, state in work.to_remove.items():
                if states.get(path) == state:  # else it came back, and another process has filed it
                    report.removed += int(rows.delete_document(index, "note", path))
    return report


def _read(place: NotePlace, report: NotesReport, redact: bool) -> Document | None:
    from memory_sqlite.sources import notes  # looking whether anything changed needs none of the chunker

    note = notes.read_note(place)
    if isinstance(note, SourceProblem):
        if note.reason != notes.VANISHED:  # gone between listing and reading: the next look removes it
            report.problems.append(note)
            report.unread += 1
        return None
    if redact:
        from memory_sqlite.text.secrets import mask  # its patterns are compiled only where a note is read

        note = replace(note, text=mask(note.text, keep_lines=True)[0])
    document, problems = notes.note_document(place, note)
    report.problems += problems
    return document


def _file(
    index: apsw.Connection,
    batch: list[tuple[NotePlace, Document]],
    known: dict[str, _State],
    report: NotesReport,
    forgotten: Forgotten | None,
) -> None:
    if not batch:
        return
    now = time.time_ns()
    same = [_is_still(place, document.hash) for place, document in batch]
    with writing(index):
        for (place, document), unchanged in zip(batch, same, strict=True):
            if not unchanged:
                mark_dirty(index, document.key)
                report.changing += 1
                report.problems.append(SourceProblem(shown(place.path), _CHANGING))
                continue
            if forgotten is not None and forgotten(document.key, document.hash):
                report.removed += int(rows.delete_document(index, "note", document.key))
                report.problems.append(SourceProblem(document.path, _FORGOTTEN))
                continue
            state = known.get(document.key)
            fresh = document.mtime_ns is not None and now - document.mtime_ns < _UNTRUSTED_NS
            if state is not None and state[0] == document.hash:
                _stamp(index, document, None if fresh else document.mtime_ns)
                report.unchanged += 1
                continue
            report.chunks += rows.put_document(index, document)
            if fresh:
                _stamp(index, document, None)
            if state is None:
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
