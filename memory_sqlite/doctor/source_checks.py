"""Findings about what the memory is made of: notes of the workspace, transcripts that were imported.

Called by ``examine``. Names of notes and transcripts are in ``names`` alone. Not here: the index (``index_state``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from memory_sqlite import errors
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.doctor.machine_checks import known_workspace
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.discovery import discover
from memory_sqlite.sources.places import Discovery, NotePlace, shown
from memory_sqlite.sources.safe_read import VANISHED, read_note
from memory_sqlite.sources.transcript_formats.items import Refused
from memory_sqlite.sources.transcript_formats.transcript import open_transcript
from memory_sqlite.storage.fetch import all_rows

_TRIED: Final = 200
"""Notes that are opened to see whether they can be read, unless --deep: those that the index does not hold first."""


def notes(place: Place) -> list[Finding]:
    """What is there, what cannot be read, what is passed over, and what the index has not taken in yet."""
    workspace = known_workspace(place)
    if workspace is None:
        raise Skipped("no workspace is set", "off")
    if not workspace.is_dir():
        return [Finding("workspace_missing", {}, [shown(str(workspace))])]
    seen = discover(workspace, place.settings.extra_paths)
    waiting, to_read = _waiting(place, workspace, seen)
    tried = seen.places if place.deep else to_read[:_TRIED]
    problems = [problem for note in tried if (problem := _unreadable(note)) is not None]
    unseen = [problem for problem in seen.problems if problem.reason.startswith("cannot be looked at")]
    skipped = [problem for problem in seen.problems if problem not in unseen]
    found = []
    for code, listed in (("notes_unreadable", [*unseen, *problems]), ("notes_skipped", skipped)):
        if listed:
            names = [f"{problem.path}: {problem.reason}" for problem in listed]
            found.append(Finding(code, {"notes": len(listed)}, names))
    if waiting > len(problems):
        found.append(Finding("notes_waiting", {"notes": waiting - len(problems)}))
    return found


def _waiting(place: Place, workspace: Path, seen: Discovery) -> tuple[int, list[NotePlace]]:
    """How many notes the index is to take in or let go, and those that it would read."""
    try:
        with place.pair() as pair:
            work = notes_index.plan(pair.index, workspace, place.settings.extra_paths)
    except (errors.MemorySqliteError, Skipped):
        return 0, seen.places
    return len(work.to_read) + len(work.to_remove), list(work.to_read)


def _unreadable(note: NotePlace) -> SourceProblem | None:
    read = read_note(note)
    return read if isinstance(read, SourceProblem) and read.reason != VANISHED else None


def transcripts(place: Place) -> list[Finding]:
    """Lines of the files that were imported which no import can read; with --deep, since each is read again."""
    if not place.deep:
        raise Skipped("imported transcripts are read again with --deep")
    with place.store() as store:
        known = all_rows(store, "SELECT path, format FROM import_cursors ORDER BY path")
    refused: dict[str, int] = {}
    for name, kind in known:
        path = Path(str(name).partition("\n")[0].partition("\t")[0])  # as ``interop.transcripts`` keeps it
        try:
            number = sum(isinstance(item, Refused) for item in open_transcript(path, format=str(kind), redact=False))
        except (OSError, EOFError, errors.MemorySqliteError):
            continue  # a transcript that is gone, or is another file now, is no fault of this memory
        if number:
            refused[shown(str(path))] = number
    if not refused:
        return []
    evidence: Evidence = {"files": len(refused), "lines": sum(refused.values())}
    return [Finding("transcript_lines_refused", evidence, [f"{path}: {number}" for path, number in refused.items()])]
