"""Notes: which lines repeat what is forgotten, and taking them out of the files.

A reference names lines, or a whole file. Where the caller asks for it, blocks (paragraphs, list entries, headings)
that hold a forgotten text, or are held by one, go too; otherwise they are counted, so that nobody believes a copy gone
that is not. Not here: replacing files (``note_file``), the index of notes. Called by ``run``.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.forgetting.choose import NoteWish
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.notes import discover, resolve_note
from memory_sqlite.sources.places import ExtraPath, NotePlace
from memory_sqlite.sources.safe_read import read_bytes
from memory_sqlite.values import dataclass, field

_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s|#{1,6}\s")
_CJK: Final = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_LEAST: Final = 12
_LEAST_CJK: Final = 6
"""Characters that make a text telling: ``I like tea`` stands in many a note that is about something else."""
_MOST_TEXTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines to be taken out of one note, as it was when it had this SHA-256; ``whole`` removes the file."""

    path: str
    digest: str
    lines: tuple[tuple[int, int], ...]
    whole: bool = False


@dataclass
class NotePlan:
    """What is to be taken out, how many blocks match that nobody asked to take out, and what could not be read."""

    edits: list[Edit] = field(default_factory=list)
    left: int = 0
    unresolved: list[str] = field(default_factory=list)
    problems: list[SourceProblem] = field(default_factory=list)


def plan(
    workspace: Path | None,
    extra_paths: Sequence[ExtraPath],
    wishes: Iterable[NoteWish],
    texts: Iterable[str],
    *,
    remove: bool,
) -> NotePlan:
    """Look through the notes; writes nothing."""
    made = NotePlan()
    wanted: dict[str, tuple[NotePlace, list[NoteWish]]] = {}
    for wish in wishes:
        place = _place(workspace, extra_paths, wish.path)
        if place is None:
            made.unresolved.append(wish.named)
        else:
            wanted.setdefault(place.path, (place, []))[1].append(wish)
    matcher = _Matcher(texts)
    places = {path: place for path, (place, _) in wanted.items()}
    if matcher and workspace is not None and workspace.is_dir():
        for place in discover(workspace, tuple(extra_paths)).places:
            places.setdefault(place.path, place)
    for path, place in sorted(places.items()):
        _plan_file(place, wanted[path][1] if path in wanted else [], matcher, remove, made)
    return made


def _place(workspace: Path | None, extra_paths: Sequence[ExtraPath], path: str) -> NotePlace | None:
    if workspace is None:
        return None
    try:
        return resolve_note(workspace, tuple(extra_paths), path)
    except errors.PathNotAllowed:
        return None


def _plan_file(place: NotePlace, wishes: Sequence[NoteWish], matcher: _Matcher, remove: bool, made: NotePlan) -> None:
    read = read_bytes(place)
    if isinstance(read, SourceProblem):
        made.problems.append(read)
        return
    data = read[0]
    lines = split(data)
    named = set()
    for wish in wishes:
        if wish.first is None or wish.last is None:
            digest = hashlib.sha256(data).hexdigest()
            made.edits.append(Edit(place.path, digest, (), whole=True))
            return
        if wish.first > len(lines):
            made.unresolved.append(wish.named)
        named |= set(range(wish.first, min(wish.last, len(lines)) + 1))
    for first, last, text in blocks(lines):
        if not named.isdisjoint(range(first, last + 1)) or not matcher.matches(text):
            continue
        if remove:
            named |= set(range(first, last + 1))
        else:
            made.left += 1
    if named:
        made.edits.append(Edit(place.path, hashlib.sha256(data).hexdigest(), _ranges(named)))


def split(data: bytes) -> list[bytes]:
    """The lines of a file with their ends, as an editor counts them: LF, CRLF and a lone CR end one."""
    return _LINE.findall(data)


def blocks(lines: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
    """``(first line, last line, text)`` of each paragraph, heading and list entry (with its indented lines)."""
    first, held = 0, list[str]()
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "replace").strip("\r\n\ufeff")
        begins = _ITEM.match(text) is not None
        if held and (not text.strip() or begins):
            yield first, number - 1, "\n".join(held)
            held = []
        if text.strip():
            first = first if held else number
            held.append(text)
    if held:
        yield first, len(lines), "\n".join(held)


def without(data: bytes, ranges: Iterable[tuple[int, int]]) -> bytes:
    """The file without these lines; of the blank lines around a gap, those behind it go too."""
    lines = split(data)
    gone = {number for first, last in ranges for number in range(first, last + 1)}
    kept: list[bytes] = []
    after_gap = False
    for number, line in enumerate(lines, 1):
        if number in gone:
            after_gap = True
            continue
        blank = not line.strip()
        if after_gap and blank and (not kept or not kept[-1].strip()):
            continue
        after_gap = after_gap and blank
        kept.append(line)
    return b"".join(kept)


def sample(lines: Sequence[bytes], edit: Edit, samples: Samples) -> None:
    """Remember pieces of what an edit takes out, for the proof."""
    ranges = ((1, len(lines)),) if edit.whole else edit.lines
    for first, last in ranges:
        for line in lines[first - 1 : last]:
            samples.add(line.decode("utf-8", "replace"))


def to_json(edits: Iterable[Edit]) -> str:
    """Edits as they are kept in the store until they are done: no text."""
    return json.dumps([[edit.path, edit.digest, edit.lines, edit.whole] for edit in edits])


def from_json(text: str) -> list[Edit]:
    """The reverse of ``to_json``."""
    kept: list[Any] = json.loads(text)
    return [
        Edit(path, digest, tuple((int(first), int(last)) for first, last in lines), bool(whole))
        for path, digest, lines, whole in kept
    ]


def _ranges(numbers: set[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


class _Matcher:
    """Whether a block repeats one of the texts: the one holds the other, whatever the case and the white space."""

    def __init__(self, texts: Iterable[str]) -> None:
        telling = dict.fromkeys(normal for text in texts if _is_telling(normal := _normal(text)))
        self._texts = list(telling)[:_MOST_TEXTS]
        self._together = "\n".join(self._texts)

    def matches(self, block: str) -> bool:
        normal = _normal(block.lstrip("-*+# \t>"))
        if _is_telling(normal) and normal in self._together:
            return True
        return any(text in normal for text in self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _is_telling(text: str) -> bool:
    return len(text) >= (_LEAST_CJK if _CJK.search(text) else _LEAST)
