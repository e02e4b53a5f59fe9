"""Blocks of Markdown: sections under headings, and in them paragraphs, lists, tables and fences as trees of lines.

Lives here: just enough of CommonMark and GFM to know where a note may be cut well. Not here: cutting it (``markdown``,
the only caller). Nothing is rendered and nothing is rejected: a line that fits no rule is part of a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Final, NamedTuple

from memory_sqlite.sources.lines import LIST_MARKER, Kind, NoteLines, indent_of
from memory_sqlite.sources.weights import weight
from memory_sqlite.text.units import cut_code_points
from memory_sqlite.values import dataclass, field

HEADING_MAX: Final = 200
"""Code points of one heading in a heading path: the path is repeated in every chunk below it."""

_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$", re.DOTALL)
_ATX_END: Final = re.compile(r"(?:^|(?<=[ \t]))#+$")
_SETEXT: Final = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_TABLE_RULE: Final = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$")


class Node(NamedTuple):
    """A run of lines ``first``..``last`` (0-based, inclusive) that belongs together; cut, if need be, at its children.

    ``repeats`` says whether lines of it may be repeated as overlap; rows of a table and lines of code are not.
    """

    first: int
    last: int
    children: tuple[Node, ...] = ()
    repeats: bool = True
    entry: bool = False
    """A top-level list entry."""


@dataclass(slots=True)
class Section:
    """What stands between one heading and the next."""

    path: tuple[str, ...] = ()
    headings: list[Node] = field(default_factory=list)
    """The heading of this section, and before it those that had only this section below them."""
    blocks: list[Node] = field(default_factory=list)
    level: int = 0


class Weights:
    """Weights of lines and of runs of lines, in quarter tokens; a line end weighs one."""

    def __init__(self, lines: list[str]) -> None:
        self.before: list[int] = list(accumulate((weight(line) + 1 for line in lines), initial=0))

    def span(self, first: int, last: int) -> int:
        """Lines ``first`` to ``last`` joined by line ends."""
        return self.before[last + 1] - self.before[first] - 1


def sections(note: NoteLines) -> list[Section]:
    """The sections of a note in order. A heading with deeper headings below it goes to the first of them."""
    return _Reader(note).read()


class _Reader:
    def __init__(self, note: NoteLines) -> None:
        self.lines = note.text
        self.kinds = note.kinds
        self.count = len(note.text)
        self.start = note.front.lines
        self.done: list[Section] = []
        self.section = Section()
        self.stack: list[tuple[int, str]] = []

    def read(self) -> list[Section]:
        index = self.start
        while index < self.count:
            if not self.lines[index].strip():
                index += 1
                continue
            index = self._block(index)
        self._close(0)
        return self.done

    def _close(self, level: int) -> list[Node]:
        """End the current section; what is returned are headings that have nothing of their own above ``level``."""
        section = self.section
        if not section.blocks and section.headings and level > section.level:
            return section.headings
        if section.blocks or section.headings:
            self.done.append(section)
        return []

    def _heading(self, first: int, last: int, level: int, title: str) -> None:
        carried = self._close(level)
        while self.stack and self.stack[-1][0] >= level:
            self.stack.pop()
        self.stack.append((level, cut_code_points(" ".join(title.split()), HEADING_MAX)))
        path = tuple(title for _, title in self.stack if title)
        self.section = Section(path, [*carried, self._leaves(first, last)], [], level)

    def _block(self, index: int) -> int:
        """Read the block that begins at ``index``; the index after it."""
        line = self.lines[index]
        if self.kinds[index] is not Kind.TEXT:
            end = self._run(index, lambda n: self.kinds[n] is self.kinds[index])
            self._add(self._leaves(index, end - 1, repeats=self.kinds[index] is Kind.COMMENT))
            return end
        heading = atx_heading(line)
        if heading is not None:
            self._heading(index, index, *heading)
            return index + 1
        if _RULE.match(line):
            self._add(self._leaves(index, index))
            return index + 1
        if self._is_table(index):
            return self._table(index)
        marker = LIST_MARKER.match(line)
        if marker is not None and indent_of(line) < 4:
            return self._list(index)
        return self._paragraph(index)

    def _run(self, index: int, belongs: Callable[[int], bool]) -> int:
        end = index + 1
        while end < self.count and belongs(end):
            end += 1
        return end

    def _add(self, node: Node) -> None:
        self.section.blocks.append(node)

    def _leaves(self, first: int, last: int, *, repeats: bool = True) -> Node:
        if first == last:
            return Node(first, last, (), repeats)
        rows = tuple(Node(n, n, (), repeats) for n in range(first, last + 1) if self.lines[n].strip())
        return Node(first, last, rows, repeats)

    def _is_table(self, index: int) -> bool:
        below = index + 1
        return (
            "|" in self.lines[index]
            and below < self.count
            and self.kinds[below] is Kind.TEXT
            and "-" in self.lines[below]
            and "|" in self.lines[below]
            and _TABLE_RULE.match(self.lines[below].strip()) is not None
        )

    def _table(self, index: int) -> int:
        end = self._run(index, lambda n: bool(self.lines[n].strip()) and not self._starts_block(n))
        head = self._leaves(index, min(index + 1, end - 1), repeats=False)
        rows = (Node(n, n, (), False) for n in range(head.last + 1, end))
        self._add(Node(index, end - 1, (head, *rows), False))
        return end

    def _starts_block(self, index: int) -> bool:
        """Whether line ``index`` begins a block that ends a paragraph, a table or a list entry without a blank line."""
        line = self.lines[index]
        if self.kinds[index] is not Kind.TEXT:
            return True
        first = line.lstrip()[:1]
        if first.isalpha():
            return False
        if first == "#":
            return atx_heading(line) is not None
        if first in "*-_" and _RULE.match(line):
            return True
        return bool(LIST_MARKER.match(line)) and indent_of(line) < 4 and not first.isdigit()

    def _paragraph(self, index: int) -> int:
        end = index + 1
        while end < self.count and self.lines[end].strip():
            underlines = self.lines[end].lstrip()[0] in "=-" and self.kinds[end] is Kind.TEXT
            setext = _SETEXT.match(self.lines[end]) if underlines else None
            if setext is not None and self._may_be_setext(index, end, setext[1][0]):
                title = " ".join(line.strip() for line in self.lines[index:end])
                self._heading(index, end, 1 if setext[1][0] == "=" else 2, title)
                return end + 1
            if self._starts_block(end) or self._is_table(end):
                break
            end += 1
        self._add(self._leaves(index, end - 1))
        return end

    def _may_be_setext(self, first: int, underline: int, sign: str) -> bool:
        """One line of plain text above makes a heading.

        CommonMark also takes several lines. In notes a ``---`` below several lines is meant as a rule, and a paragraph
        taken for a heading would be repeated in the path of everything below it.
        """
        line = self.lines[first]
        several = underline - first > 1
        return indent_of(line) < 4 and not line.lstrip().startswith(">") and (sign == "=" or not several)

    def _list(self, index: int) -> int:
        base = indent_of(self.lines[index])
        entries: list[Node] = []
        at = index
        while True:
            end = self._entry_end(at)
            entries.append(self._entry(at, end))
            following = self._run(end - 1, lambda n: not self.lines[n].strip())
            if following >= self.count or self.kinds[following] is not Kind.TEXT:
                break
            line = self.lines[following]
            if _RULE.match(line) or not LIST_MARKER.match(line) or indent_of(line) > base + 3:
                break
            at = following
        self._add(Node(index, end - 1, tuple(entries)))
        return end

    def _entry_end(self, index: int) -> int:
        """The index after the last line of the list entry that begins at ``index``."""
        indent = indent_of(self.lines[index])
        end = at = index + 1
        fenced = False
        while at < self.count:
            line = self.lines[at]
            if not line.strip():
                at += 1
                continue
            deeper = indent_of(line) > indent
            if self.kinds[at] is not Kind.TEXT:
                if not (deeper or (fenced and at == end)):
                    break
            elif not deeper and (at > end or LIST_MARKER.match(line) or self._starts_block(at)):
                break
            fenced = self.kinds[at] is Kind.FENCE
            at += 1
            end = at
        return end

    def _entry(self, first: int, end: int) -> Node:
        """A list entry as a tree: its own lines, then each nested entry and each fence as a child."""
        if end - first == 1:
            return Node(first, first, entry=True)
        children: list[Node] = []
        at = first
        while at < end:
            if not self.lines[at].strip():
                at += 1
                continue
            kind = self.kinds[at]
            stop = at + 1
            while stop < end and self.kinds[stop] is kind and (kind or not LIST_MARKER.match(self.lines[stop])):
                stop += 1
            last = stop - 1
            while not self.lines[last].strip():
                last -= 1
            children.append(self._leaves(at, last, repeats=kind is not Kind.FENCE))
            at = stop
        return Node(first, end - 1, tuple(children), entry=True)


def atx_heading(line: str) -> tuple[int, str] | None:
    """Level and title when ``line`` is an ATX heading (``#tag`` is none: a space must follow)."""
    match = _ATX.match(line)
    if match is None:
        return None
    title = (match[2] or "").strip()
    return len(match[1]), _ATX_END.sub("", title).rstrip()
