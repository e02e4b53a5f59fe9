"""Notes as documents: the face of this room for whoever indexes notes or reads them back.

Lives here: what a note file becomes as a document, which requested paths may be read, and ranges of lines. The parts
are elsewhere: finding (``discovery``), opening (``safe_read``), chunking (``markdown``). Called by indexing and get.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from memory_sqlite.clock import parse_time
from memory_sqlite.errors import PathNotAllowed
from memory_sqlite.model import Document, SourceProblem
from memory_sqlite.sources.discovery import changed_ns, discover, glob_pattern, locate_extra, not_a_file
from memory_sqlite.sources.front_matter import FrontMatter
from memory_sqlite.sources.lines import split_lines
from memory_sqlite.sources.markdown import read_markdown
from memory_sqlite.sources.places import (
    CURATED,
    DEFAULT_GLOB,
    FOLDER,
    SUFFIX,
    Discovery,
    ExtraPath,
    NotePlace,
    is_ignored_file,
    is_ignored_folder,
    shown,
    unusable_name,
)
from memory_sqlite.sources.safe_read import VANISHED, NoteText, read_note
from memory_sqlite.text.units import cut_code_points, cut_utf16, utf16_length

__all__ = [
    "VANISHED",
    "Discovery",
    "ExtraPath",
    "LineRange",
    "NotePlace",
    "NoteText",
    "discover",
    "note_document",
    "read_lines",
    "read_note",
    "resolve_note",
]

TITLE_MAX: Final = 300
"""Code points of a document's title."""
_DATE: Final = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")


def note_document(place: NotePlace, note: NoteText) -> tuple[Document, list[SourceProblem]]:
    """The document of a note and what could not be read in it.

    Its origin is always ``owner`` and its audience the owner's, whatever front matter or annotations say: the text of a
    memory never decides where it came from (design, rule 7). ``details["tags"]`` are front matter's ``tags``.
    """
    path = shown(place.path)
    problems: list[SourceProblem] = []
    if note.encoding_problem is not None:
        problems.append(SourceProblem(path, note.encoding_problem))
    read = read_markdown(note.text, curated=place.curated)
    problems += [SourceProblem(path, reason, line) for line, reason in read.problems]
    stem = PurePosixPath(place.path).stem
    title = " ".join((read.front.text("title") or read.first_heading or stem).split())
    tags = _tags(read.front)
    document = Document(
        kind="note",
        key=place.path,
        source="memory",
        path=place.path,
        chunks=read.chunks,
        hash=note.hash,
        at=_date(stem, read.front),
        title=cut_code_points(title, TITLE_MAX),
        owner_private=True,
        details={"tags": tags} if tags else {},
        size=note.size,
        mtime_ns=note.mtime_ns,
        inode=note.inode,
        device=note.device,
    )
    return document, problems


def _date(stem: str, front: FrontMatter) -> int | None:
    """Midnight UTC of the first real date in the file name, else front matter's ``date``."""
    for match in _DATE.finditer(stem):
        at = parse_time(match[1])
        if at is not None:
            return at
    return parse_time(front.text("date"))


def _tags(front: FrontMatter) -> tuple[str, ...]:
    value = front.values.get("tags", ())
    parts = re.split(r"[,\s]+", value) if isinstance(value, str) else value
    return tuple(dict.fromkeys(tag for part in parts if (tag := part.strip().lstrip("#"))))


def resolve_note(workspace: Path, extra_paths: Sequence[ExtraPath], requested: str) -> NotePlace | None:
    """The note that ``requested`` names, by the key that a hit's path carries; ``None`` when there is none.

    Raises ``PathNotAllowed`` for anything that is not the name of a note: a path with ``..``, a backslash or NUL, an
    absolute path outside the extra paths, another suffix, a hidden name, a folder, a pipe, or a way through a link.
    Case must match, also where the file system does not care.
    """
    parts = requested.removeprefix("/").split("/")
    if "\\" in requested or any(part in ("", ".", "..") or unusable_name(part) for part in parts):
        raise PathNotAllowed("the path is not the plain name of a note")
    root = os.path.abspath(workspace)  # noqa: PTH100 - `resolve` would follow links
    if _is_of_workspace(requested, parts):
        return _look(root, requested, requested)
    for extra in extra_paths:
        base, top, prefix = locate_extra(root, extra.path)
        if not requested.startswith(prefix) or (not prefix and requested.startswith("/")):
            continue
        relative = requested[len(prefix) :]
        if relative == top:
            return _look(base, relative, requested)
        below = f"{top}/" if top else ""
        names = relative[len(below) :].split("/")
        if relative.startswith(below) and _is_named(names, extra.glob or DEFAULT_GLOB):
            return _look(base, relative, requested)
    raise PathNotAllowed("the path is not below memory/ or a configured extra path")


def _is_of_workspace(requested: str, parts: list[str]) -> bool:
    return requested in CURATED or (len(parts) > 1 and parts[0] == FOLDER and _is_named(parts[1:], DEFAULT_GLOB))


def _is_named(parts: list[str], glob: str) -> bool:
    """Whether discovery would take a file of this name below its folder."""
    *folders, name = parts
    if is_ignored_file(name) or any(is_ignored_folder(part) or part.casefold().endswith(SUFFIX) for part in folders):
        return False
    if glob == DEFAULT_GLOB:
        return name.casefold().endswith(SUFFIX)
    return glob_pattern(glob).fullmatch("/".join(parts)) is not None


def _look(root: str, relative: str, path: str) -> NotePlace | None:
    """``lstat`` each name on the way; the last must be a regular file."""
    at = root
    seen = None
    parts = relative.split("/")
    try:
        for number, name in enumerate(parts, 1):
            seen = os.lstat(f"{at}/{name}")
            if number < len(parts) and not stat.S_ISDIR(seen.st_mode):
                if stat.S_ISLNK(seen.st_mode):
                    raise PathNotAllowed("the path goes through a link")
                return None
            if not _is_spelled(at, name, seen):
                return None
            at = f"{at}/{name}"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if isinstance(error, PermissionError):
            raise PathNotAllowed("the system does not let this user look at the path") from None
        return None
    assert seen is not None, "a path has at least one name"
    reason = not_a_file(seen)
    if reason is not None:
        raise PathNotAllowed(f"the path {reason}")
    return NotePlace(path, root, relative, seen.st_size, changed_ns(seen), seen.st_ino, seen.st_dev)


def _is_spelled(folder: str, name: str, seen: os.stat_result) -> bool:
    """Whether the file is really called ``name``; only a file system that ignores case needs its folder listed."""
    other = name.swapcase()
    if other == name:
        return True
    try:
        twin = os.lstat(f"{folder}/{other}")
    except OSError:
        return True
    return not os.path.samestat(seen, twin) or any(entry.name == name for entry in os.scandir(folder))


class LineRange(NamedTuple):
    """Lines read back. Each whole line ends with LF; ``lines`` counts those that are in ``text``, wholly or in part.

    ``next_from`` is where to read on, ``None`` at the end of the note. When it is the line that was read from, that
    line was cut: read on with the same line and ``offset`` raised by ``len(text)``. Texts so read, joined, are the
    note.
    """

    text: str
    lines: int
    truncated: bool
    next_from: int | None


def read_lines(place: NotePlace, from_line: int, lines: int, max_chars: int, offset: int = 0) -> LineRange | None:
    """Lines ``from_line`` (1-based) to at most ``from_line + lines - 1`` of a note, annotations included.

    At most ``max_chars`` UTF-16 units, cut between lines. A first line that is longer alone is cut between graphemes;
    ``offset`` is how many of its code points were already given. ``None`` when the note is gone.
    Raises ``PathNotAllowed`` when it has become something that is not read.
    """
    note = read_note(place)
    if isinstance(note, SourceProblem):
        if note.reason == VANISHED:
            return None
        raise PathNotAllowed(f"the path {note.reason}")
    every = split_lines(note.text)
    taken: list[str] = []
    used = 0
    for number in range(from_line, min(len(every), from_line + lines - 1) + 1):
        line = every[number - 1][offset if number == from_line else 0 :] + "\n"
        used += utf16_length(line)
        if used > max_chars:
            if taken:
                break
            part = cut_utf16(line, max_chars) or line[: max(1, max_chars // 2)]
            return LineRange(part, 1, True, number)
        taken.append(line)
    following = from_line + len(taken)
    more = following <= len(every)
    return LineRange("".join(taken), len(taken), more, following if more else None)
