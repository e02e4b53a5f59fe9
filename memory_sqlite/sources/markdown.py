"""Chunking: a Markdown note as spans of about 400 tokens that can be found, shown and cited by line.

Pure and deterministic. Lives here: the whole way from text to chunks, and which annotations are whose. Not here:
recognising lines and blocks (``lines``, ``blocks``), packing them (``packing``), files and documents (``safe_read``,
``notes``). Called by ``notes``.

Rules:

* A chunk never crosses from one section to the next. A heading is never a chunk of its own as long as anything stands
  below it; the path of headings travels with every chunk.
* A block (paragraph, list, table, fence) is kept whole where it fits into a chunk; else it is cut at the next smaller
  unit: entries, nested entries, lines, sentences, words.
* Of curated files (``MEMORY.md``, ``USER.md``) each top-level list entry is one chunk and its headings are only in its
  path, so that a citation names the entry alone. In other notes an entry that carries an annotation of its own is one
  too: what it says (a project, an importance) is then not said of its neighbours.
* Where one section needs several chunks, a chunk begins with the last whole lines of the one before, up to the overlap.
  Rows of tables and lines of code are not repeated, nor is a whole chunk.
* ``text`` is exactly what stands in lines ``start_line`` to ``end_line`` without understood annotations; only an
  over-long line may be there in part, and then several chunks have the same line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument
from memory_sqlite.model import Chunk
from memory_sqlite.sources.annotations import Annotations, merge, parse_value
from memory_sqlite.sources.blocks import Section, sections
from memory_sqlite.sources.front_matter import FrontMatter
from memory_sqlite.sources.lines import NoteLines, read_lines_of_note
from memory_sqlite.sources.packing import Packer, Span
from memory_sqlite.sources.weights import QUARTERS
from memory_sqlite.values import dataclass

MIN_TOKENS: Final = 32
"""Half of it, the least room a line has below its headings, still holds the longest emoji sequence (nine tokens)."""


@dataclass(frozen=True, slots=True)
class MarkdownNote:
    """A chunked note: its chunks, its front matter, first heading, and what could not be read: ``(line, reason)``."""

    chunks: tuple[Chunk, ...]
    front: FrontMatter
    first_heading: str
    problems: tuple[tuple[int, str], ...]


def chunk_markdown(
    text: str,
    *,
    max_tokens: int = limits.CHUNK_TOKENS,
    overlap_tokens: int = limits.CHUNK_OVERLAP_TOKENS,
    curated: bool = False,
) -> list[Chunk]:
    """The chunks of a note, in order; ``[]`` when it has no text.

    ``max_tokens`` bounds each chunk's text, overlap included (estimate: see ``weights``). ``overlap_tokens`` is
    clamped to half of it. Raises ``InvalidArgument`` when ``max_tokens`` is below ``MIN_TOKENS`` or the overlap is
    negative.
    """
    return list(read_markdown(text, max_tokens=max_tokens, overlap_tokens=overlap_tokens, curated=curated).chunks)


def read_markdown(
    text: str,
    *,
    max_tokens: int = limits.CHUNK_TOKENS,
    overlap_tokens: int = limits.CHUNK_OVERLAP_TOKENS,
    curated: bool = False,
) -> MarkdownNote:
    """``chunk_markdown`` with everything else that is known after one pass over the note."""
    if max_tokens < MIN_TOKENS:
        raise InvalidArgument(f"max_tokens is {max_tokens}; it must be at least {MIN_TOKENS}")
    if overlap_tokens < 0:
        raise InvalidArgument(f"overlap_tokens is {overlap_tokens}; it must not be negative")
    note = read_lines_of_note(text)
    parts = sections(note)
    limit = max_tokens * QUARTERS
    packer = Packer(note, limit, min(overlap_tokens * QUARTERS, limit // 2))
    if note.front.lines:
        packer.front_matter(note.front.lines)
    for number, section in enumerate(parts):
        packer.section(section, number, curated)
    packer.flush()
    common, problems = _common(note.front)
    for line, marked in note.said.items():
        problems += [(line + 1, reason) for reason in marked.problems]
    said = _assign(note, packer.spans, parts)
    chunks = tuple(_chunk(note.text, span, merge(said[n]), common) for n, span in enumerate(packer.spans))
    heading = next((section.path[0] for section in parts if section.path), "")
    return MarkdownNote(chunks, note.front, heading, tuple(sorted(problems)))


def _common(front: FrontMatter) -> tuple[Annotations, list[tuple[int, str]]]:
    """What front matter says of every chunk, and all problems of the block."""
    said: list[Annotations] = []
    for name in ("trigger", "triggers", "importance", "project", "projects"):
        value = front.values.get(name, "")
        if value:
            said.append(parse_value(name, value if isinstance(value, str) else "\n".join(value)))
    common = merge(said)
    return common, [*front.problems, *((1, f"front matter: {reason}") for reason in common.problems)]


def _assign(note: NoteLines, spans: Sequence[Span], parts: Sequence[Section]) -> list[list[Annotations]]:
    """For each span what the annotations in it say.

    An annotation belongs to the chunks whose new lines hold it (to all of a cut entry or line). One on a line of its
    own belongs to the chunk above it in the same section, else to the next one.
    """
    said: list[list[Annotations]] = [[] for _ in spans]
    if not spans:
        return said
    begins = [span.first_fresh for span in spans]
    section_begins = [(section.headings or section.blocks)[0].first for section in parts]
    for line, marked in note.said.items():
        above = bisect_right(begins, line) - 1
        holders = []
        at = above
        while at >= 0 and spans[at].holds(line):
            holders.append(at)
            at -= 1
        if not holders:
            section = bisect_right(section_begins, line) - 1
            if above >= 0 and (spans[above].section == section or above + 1 == len(spans)):
                holders.append(above)
            else:
                holders.append(above + 1)
        for holder in holders:
            said[holder].append(marked)
    return said


def _chunk(lines: Sequence[str], span: Span, own: Annotations, common: Annotations) -> Chunk:
    """The chunk of ``span``. What an entry says of itself goes before what front matter says of the whole note."""
    first, last = span.leaves[0], span.leaves[-1]
    if first.line == last.line:
        text = lines[first.line][first.start : last.end]
    else:
        between = lines[first.line + 1 : last.line]
        text = "\n".join([lines[first.line][first.start :], *between, lines[last.line][: last.end]])
    return Chunk(
        text=text,
        start_line=first.line + 1,
        end_line=last.line + 1,
        heading=span.heading,
        triggers=tuple(dict.fromkeys((*own.triggers, *common.triggers))),
        importance=common.importance if own.importance is None else own.importance,
        projects=own.projects or common.projects,
    )
