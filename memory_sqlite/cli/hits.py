"""Hits, spans of time and warnings as lines for people. Called by search, recall and quickstart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_sqlite.cli.output import Output, one_line, plain
from memory_sqlite.model import Hit, Span

_BOLD: Final = ("\x1b[1m", "\x1b[0m")


def emphasise(text: str, matches: Sequence[Span], styled: bool) -> str:
    """The excerpt, cleaned of control characters, with its matches in bold on a terminal."""
    if not styled:
        return plain(text)
    parts, position = [], 0
    for span in sorted(matches, key=lambda span: span.start):
        start, end = max(span.start, position), min(span.end, len(text))
        if start < end:
            parts += [plain(text[position:start]), _BOLD[0], plain(text[start:end]), _BOLD[1]]
            position = end
    return "".join([*parts, plain(text[position:])])


def heading(number: int, hit: Hit) -> str:
    """``1. 0.83  memory/people.md#L3-L9  2026-07-15 08:30Z  L3``: rank, score, citation, event time, where from."""
    fields = [f"{number}. {hit.score:.2f}", one_line(hit.citation)]
    if hit.time is not None:
        fields.append(f"{one_line(hit.time)[:16].replace('T', ' ')}Z")
    if hit.layer is not None and hit.source == "memory":
        fields.append(hit.layer)
    if hit.speaker is not None:
        fields.append(f"{one_line(hit.speaker, 40)} in {one_line(hit.session or '?', 60)}")
    return "  ".join(fields)


def show(output: Output, hits: Sequence[Hit], *, indent: str = "   ") -> None:
    """Numbered hits with their excerpts; explanations and collapsed copies where the search gave them."""
    for number, hit in enumerate(hits, 1):
        output.line(heading(number, hit))
        for line in emphasise(hit.excerpt, hit.matches, output.styled).splitlines():
            if line.strip():
                output.line(indent + line.rstrip())
        if hit.duplicates:
            output.line(f"{indent}also: {', '.join(one_line(citation) for citation in hit.duplicates)}")
        if hit.explanation:
            parts = (f"{one_line(str(name), 40)} {value:.3f}" for name, value in hit.explanation.items())
            output.line(f"{indent}why: {', '.join(parts)}")


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 hit``, ``2 hits``."""
    return f"{number} {one if number == 1 else many or one + 's'}"
