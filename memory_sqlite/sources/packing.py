"""Putting blocks together: the greedy packer behind ``chunk_markdown``; the rules are those of ``markdown``.

Not here: what a block is (``blocks``), annotations, text: a span is a list of lines and parts of lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from memory_sqlite.sources.blocks import Node, Section, Weights
from memory_sqlite.sources.lines import NoteLines
from memory_sqlite.sources.weights import cut_line, weight

PIECES_PER_CHUNK: Final = 16
"""An over-long line is cut into pieces of a sixteenth of a chunk (100 characters), of which chunks are put together."""
PATH_SEPARATOR: Final = " > "


class Leaf(NamedTuple):
    """A line, or ``start``..``end`` of an over-long one."""

    line: int
    start: int
    end: int
    weight: int
    repeats: bool
    heading: bool = False


@dataclass(slots=True)
class Span:
    """A chunk in the making. ``fresh`` is the index of its first leaf that is not overlap."""

    leaves: list[Leaf]
    weight: int
    fresh: int
    section: int = -1
    heading: str = ""
    entry: tuple[int, int] | None = None
    """First and last line of the list entry that this is all of, or a part of."""

    @property
    def first_fresh(self) -> int:
        """The first line, 0-based, that is not overlap."""
        return self.leaves[self.fresh].line

    def holds(self, line: int) -> bool:
        """Whether ``line`` is in this span otherwise than as overlap, or in the entry it is a part of."""
        if self.entry is not None and self.entry[0] <= line <= self.entry[1]:
            return True
        return self.first_fresh <= line <= self.leaves[-1].line


@dataclass(slots=True)
class Packer:
    """Takes sections in order and fills ``spans``. ``limit`` and ``overlap`` are in quarter tokens."""

    note: NoteLines
    limit: int
    overlap: int
    spans: list[Span] = field(default_factory=list)
    weights: Weights = field(init=False)
    number: int = -1
    heading: str = ""
    entry: tuple[int, int] | None = None
    current: Span = field(init=False)

    def __post_init__(self) -> None:
        self.weights = Weights(self.note.text)
        self.current = Span([], 0, 0)

    def front_matter(self, lines: int) -> None:
        """The block is text like any other; it goes with the first section when both fit."""
        rows = tuple(Node(n, n) for n in range(lines) if self.note.text[n].strip())
        self._place(Node(0, rows[-1].last, rows), [])

    def section(self, section: Section, number: int, curated: bool) -> None:
        """Place one section. Only front matter may stand before its first block in the same chunk."""
        if self.number >= 0 or curated:
            self.flush()
        self.number = number
        self.heading = PATH_SEPARATOR.join(section.path)
        lead = section.headings
        if not section.blocks:
            self._place_each(lead)
        for block in section.blocks:
            if not any(child.entry for child in block.children):
                self._place(block, lead)
                lead = []
                continue
            for node in self._runs(block, curated):
                if node.entry:
                    self.flush()
                    self.entry = (node.first, node.last)
                    self._place(node, [] if curated else lead)
                    self.flush()
                    self.entry = None
                else:
                    self._place(node, lead)
                lead = []

    def _runs(self, block: Node, curated: bool) -> Iterator[Node]:
        """The parts of a list: entries that are chunks of their own, and runs of entries that are not."""
        run: list[Node] = []
        for entry in block.children:
            own = curated or any(line in self.note.said for line in range(entry.first, entry.last + 1))
            if not own:
                run.append(entry)
                continue
            if run:
                yield Node(run[0].first, run[-1].last, tuple(run))
                run = []
            yield entry
        if run:
            yield Node(run[0].first, run[-1].last, tuple(run))

    def _place_each(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._place(node, [])

    def _place(self, node: Node, lead: list[Node]) -> None:
        """Put ``node``, with the headings ``lead`` above it, into the current chunk, a new one, or piece by piece."""
        first = lead[0].first if lead else node.first
        needed = self.weights.span(first, node.last)
        if self.current.leaves and self.current.weight + self._gap(first) + needed <= self.limit:
            self._append(node, lead)
        elif needed <= self.limit:
            self._start(first, needed)
            self._append(node, lead)
        elif node.children:
            self._place(node.children[0], lead)
            for child in node.children[1:]:
                if not self._add_line(child):
                    self._place(child, [])
        else:
            self._place_line(node, lead)

    def _add_line(self, node: Node) -> bool:
        """What ``_place`` does with most lines of a large note, without asking what they are not: whether it did."""
        current, before, line = self.current, self.weights.before, node.first
        if node.children or node.last != line or not current.leaves:
            return False
        own = before[line + 1] - before[line] - 1
        grown = current.weight + self._gap(line) + own
        if grown > self.limit:
            return False
        current.leaves.append(Leaf(line, 0, len(self.note.text[line]), own, node.repeats))
        current.weight = grown
        self._name()
        return True

    def _place_line(self, node: Node, lead: list[Node]) -> None:
        """Put a line into chunks that, with its headings, is too long for one."""
        room = self.limit
        if lead:
            above = self.weights.span(lead[0].first, lead[-1].last) + self._between(lead[-1].last, node.first)
            if above > self.limit // 2:  # headings as long as a chunk are text themselves
                self._place_each(lead)
                self._place(node, [])
                return
            if self.current.leaves:
                self._start(lead[0].first, above)
            for heading in lead:
                self._append_node(heading, heading=True)
            room = self.limit - above
        text = self.note.text[node.first]
        size = self.limit // PIECES_PER_CHUNK
        for start, end in cut_line(text, 0, len(text), size, room):
            piece = Leaf(node.first, start, end, weight(text[start:end]), node.repeats)
            if self.current.leaves and self.current.weight + self._gap(node.first) + piece.weight > self.limit:
                self._start(node.first, piece.weight)
            self._append_leaf(piece)

    def _gap(self, line: int) -> int:
        return self._between(self.current.leaves[-1].line, line)

    def _between(self, above: int, line: int) -> int:
        """Weight of what stands between two consecutive leaves: nothing, or line ends and blank lines."""
        return 0 if above == line else self.weights.before[line] - self.weights.before[above + 1] + 1

    def _append(self, node: Node, lead: list[Node]) -> None:
        for heading in lead:
            self._append_node(heading, heading=True)
        self._append_node(node)

    def _append_node(self, node: Node, *, heading: bool = False) -> None:
        if node.children:
            for child in node.children:
                self._append_node(child, heading=heading)
            return
        length = len(self.note.text[node.first])
        own = self.weights.span(node.first, node.first)
        self._append_leaf(Leaf(node.first, 0, length, own, node.repeats, heading))

    def _append_leaf(self, leaf: Leaf) -> None:
        if self.current.leaves:
            self.current.weight += self._gap(leaf.line)
        self.current.leaves.append(leaf)
        self.current.weight += leaf.weight
        self._name()

    def _name(self) -> None:
        # what follows front matter in the same chunk names its section
        if self.current.section < 0:
            self.current.section, self.current.heading, self.current.entry = self.number, self.heading, self.entry

    def _start(self, line: int, needed: int) -> None:
        """End the current chunk and begin the next with as much of its end as fits beside ``needed`` at ``line``."""
        before = self.current
        same = before.section == self.number
        self.flush()
        if not same or not before.leaves:
            return
        room = min(self.overlap, self.limit - needed - self._between(before.leaves[-1].line, line))
        taken: list[Leaf] = []
        used = 0
        # one leaf of what was new in the last chunk stays behind, so that no chunk is contained in the next
        keep = before.fresh
        while keep < len(before.leaves) - 1 and before.leaves[keep].heading:
            keep += 1
        for leaf in reversed(before.leaves[keep + 1 :]):
            grown = used + leaf.weight + (self._between(leaf.line, taken[-1].line) if taken else 0)
            if not leaf.repeats or leaf.heading or grown > room:
                break
            taken.append(leaf)
            used = grown
        taken.reverse()
        self.current = Span(taken, used, len(taken))

    def flush(self) -> None:
        """End the current chunk."""
        if len(self.current.leaves) > self.current.fresh:
            self.spans.append(self.current)
        self.current = Span([], 0, 0)
