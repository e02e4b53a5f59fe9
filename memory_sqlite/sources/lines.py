"""The lines of a note: split as an editor does, with code told apart and annotations taken out.

Lives here: everything that is decided line by line before blocks are recognised. Not here: blocks (``blocks``), chunks
(``markdown``). Called by ``markdown``, and ``split_lines`` by ``safe_read`` and ``notes``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from memory_sqlite.sources.annotations import Annotations, take_annotations
from memory_sqlite.sources.front_matter import FrontMatter, read_front_matter
from memory_sqlite.values import dataclass

LIST_MARKER: Final = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_OPENING: Final = re.compile(r"([ \t]*)((?:(?:[-*+>]|\d{1,9}[.)])[ \t]+)*)(`{3,}|~{3,})(.*)$", re.DOTALL)
_CLOSING: Final = re.compile(r"[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})[ \t]*$")


class Kind(IntEnum):
    """What a line is part of, as far as one can tell without knowing blocks."""

    TEXT = 0
    FENCE = 1
    """A line of a fenced code block, its fences included."""
    COMMENT = 2
    """A line of an HTML comment of several lines: never a heading, never a list."""


@dataclass(frozen=True, slots=True)
class NoteLines:
    """The lines of one note. ``text[i]`` is line ``i + 1`` without its annotations, ``said[i]`` what those said."""

    text: list[str]
    kinds: list[Kind]
    said: dict[int, Annotations]
    front: FrontMatter


def split_lines(text: str) -> list[str]:
    """Lines as an editor counts them: LF, CRLF and a lone CR end a line, nothing else does; a BOM is not text.

    ``str.splitlines`` would also split at form feed, NEL and U+2028, and every later line number would be wrong. A
    final line end starts no further line.
    """
    if text.startswith("\ufeff"):
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def read_lines_of_note(text: str) -> NoteLines:
    """Split ``text``, mark code and comments, read front matter, take annotations out of what is neither."""
    lines = split_lines(text)
    front = read_front_matter(lines)
    kinds = [Kind.TEXT] * len(lines)
    if "```" in text or "~~~" in text:
        _mark_fences(lines, kinds, front.lines)
    said: dict[int, Annotations] = {}
    if "<!--" in text:
        _mark_comments(lines, kinds, front.lines)
        for index in range(front.lines, len(lines)):
            if kinds[index] is not Kind.FENCE and "<!--" in lines[index]:
                lines[index], annotations = take_annotations(lines[index])
                if annotations is not None:
                    said[index] = annotations
    return NoteLines(lines, kinds, said, front)


def _mark_fences(lines: Sequence[str], kinds: list[Kind], first: int) -> None:
    """Mark fenced code. A fence runs to its closing fence; without one, to the end of the note or of its entry."""
    unclosed: dict[str, int] = {}
    in_list = False
    index = first
    while index < len(lines):
        line = lines[index]
        if "```" not in line and "~~~" not in line:
            if LIST_MARKER.match(line):
                in_list = True
            elif line and line[0] not in " \t" and index > 0 and not lines[index - 1].strip():
                in_list = False
            index += 1
            continue
        opening = _OPENING.match(line)
        if opening is None or (opening[3][0] == "`" and "`" in opening[4]):
            index += 1
            continue
        nested = in_list or bool(opening[2])
        if indent_of(opening[1]) > 3 and not nested:  # indented code that shows a fence
            index += 1
            continue
        fence = opening[3]
        end = None
        if len(fence) < unclosed.get(fence[0], len(fence) + 1):
            end = _closing(lines, index + 1, fence)
            if end is None:
                unclosed[fence[0]] = len(fence)
        if end is None:
            end = _end_of_entry(lines, index + 1, indent_of(opening[1])) if nested else len(lines)
        if LIST_MARKER.match(opening[2]):  # the entry's first line opens the fence: it stays the beginning of an entry
            index += 1
        kinds[index:end] = [Kind.FENCE] * (end - index)
        index = max(index, end)


def _closing(lines: Sequence[str], start: int, fence: str) -> int | None:
    """The index after the line that closes ``fence``."""
    for index in range(start, len(lines)):
        line = lines[index]
        if fence in line:
            match = _CLOSING.match(line)
            if match is not None and match[1][0] == fence[0] and len(match[1]) >= len(fence):
                return index + 1
    return None


def _end_of_entry(lines: Sequence[str], start: int, indent: int) -> int:
    for index in range(start, len(lines)):
        line = lines[index]
        if line.strip() and (columns := indent_of(line)) <= indent and (columns < indent or LIST_MARKER.match(line)):
            return index
    return len(lines)


def _mark_comments(lines: Sequence[str], kinds: list[Kind], first: int) -> None:
    """Mark comments of several lines. One that is never closed is ordinary text, so that it hides no headings."""
    index = first
    last_close = next((n for n in range(len(lines) - 1, first - 1, -1) if "-->" in lines[n]), -1)
    while index < last_close:
        line = lines[index]
        if kinds[index] is Kind.TEXT and line.lstrip().startswith("<!--") and "-->" not in line:
            end = next(n for n in range(index + 1, len(lines)) if "-->" in lines[n]) + 1
            kinds[index:end] = [Kind.COMMENT] * (end - index)
            index = end
        else:
            index += 1


def indent_of(line: str) -> int:
    """Width of the white space at the front, a tab going to the next multiple of four."""
    columns = 0
    for character in line:
        if character == " ":
            columns += 1
        elif character == "\t":
            columns += 4 - columns % 4
        else:
            break
    return columns
