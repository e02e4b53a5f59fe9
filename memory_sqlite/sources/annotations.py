"""Annotations: what a note says about one of its entries in HTML comments.

``<!-- trigger: a, b -->``, ``<!-- importance: 1-10 -->``, ``<!-- project: key -->``; several may stand in one line. A
marker that was understood is taken out of the searchable text. One that was not is reported and never hides its entry:
if it is empty it is taken out, if it says something it stays as the ordinary comment it then is. Ordinary comments are
the user's words and stay searchable. Markers inside code (fences, code spans) are examples, not annotations.

Not here: which chunk an annotation belongs to (``markdown``). Called by ``markdown`` and, for the same values in front
matter, by ``front_matter``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from memory_sqlite.values import dataclass

IMPORTANCE: Final = (1, 10)
PHRASE_MAX: Final = 200
"""Code points of one trigger phrase or project key; a longer one is prose, not a key."""
PHRASES_MAX: Final = 64
"""Phrases or keys of one marker: a marker is looked at on every turn, so a file may not make it a dictionary."""

_NAME: Final = re.compile(r"<!--[ \t]{0,8}(triggers?|importance|projects?)[ \t]{0,8}[:：]", re.IGNORECASE)
_BACKTICKS: Final = re.compile("`+")
_TRIGGER_SEPARATOR: Final = re.compile(r"[,;|，；、\n]")
_KEY_SEPARATOR: Final = re.compile(r"[,;，；\n]")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Annotations:
    """What markers said. ``problems`` are reasons without any text of the note."""

    triggers: tuple[str, ...] = ()
    importance: int | None = None
    projects: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def take_annotations(line: str) -> tuple[str, Annotations | None]:
    """``line`` without its understood markers, and what they said; ``(line, None)`` when it has none.

    Searched with ``find`` and not with one expression, so that a long hostile line costs time in its length only.
    """
    if "<!--" not in line:
        return line, None
    found: list[Annotations] = []
    kept: list[str] = []
    spans = _code_spans(line) if "`" in line else []
    position = 0
    for match in _NAME.finditer(line):
        span = bisect_right(spans, (match.start(), len(line))) - 1
        if match.start() < position or (span >= 0 and match.start() < spans[span][1]):
            continue
        close = line.find("-->", match.end())
        if close < 0:
            found.append(Annotations(problems=("an annotation is not closed on its line",)))
            break
        value = line[match.end() : close]
        said = parse_value(match[1], value)
        found.append(said)
        if not (said.problems and value.strip()):
            kept.append(line[position : match.start()].rstrip())
            position = close + 3
    if not found:
        return line, None
    if kept:
        rest = line[position:].rstrip()
        # a marker before the first word leaves no indentation that would make the rest another block
        line = "".join(kept) + rest if kept[0] else "".join(kept) + rest.lstrip()
    return line, merge(found)


def _code_spans(line: str) -> list[tuple[int, int]]:
    """Where code spans lie: from a run of backticks to the next run of the same length (CommonMark, section 6.1)."""
    runs = [(match.start(), match.end()) for match in _BACKTICKS.finditer(line)]
    following: dict[int, int] = {}
    closing: list[int | None] = [None] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closing[index] = following.get(length)
        following[length] = index
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        close = closing[index]
        if close is not None:
            spans.append((runs[index][0], runs[close][1]))
            index = close
        index += 1
    return spans


def parse_value(name: str, value: str) -> Annotations:
    """What ``name: value`` says, with the same rules for a marker and for a field of front matter."""
    kind = name.casefold().rstrip("s")
    if kind == "importance":
        number = value.strip()
        if (
            number.isascii()
            and number.isdecimal()
            and len(number) < 4
            and IMPORTANCE[0] <= int(number) <= IMPORTANCE[1]
        ):
            return Annotations(importance=int(number))
        return Annotations(problems=("importance is not a whole number from 1 to 10",))
    separator = _TRIGGER_SEPARATOR if kind == "trigger" else _KEY_SEPARATOR
    phrases = [_SPACES.sub(" ", part).strip() for part in separator.split(value)]
    phrases = [phrase for phrase in phrases if phrase]
    if not phrases:
        return Annotations(problems=(f"{kind} is empty",))
    if any(len(phrase) > PHRASE_MAX for phrase in phrases):
        return Annotations(problems=(f"{kind} has a phrase of more than {PHRASE_MAX} characters",))
    if len(phrases) > PHRASES_MAX:
        return Annotations(problems=(f"{kind} has more than {PHRASES_MAX} phrases",))
    unique = tuple(dict.fromkeys(phrases))
    if kind == "trigger":
        return Annotations(triggers=unique)
    if any(" " in key for key in unique):
        return Annotations(problems=("project has a key with a space in it",))
    return Annotations(projects=unique)


def merge(many: Iterable[Annotations]) -> Annotations:
    """All of them as one: phrases and keys in order without repetition, the highest importance."""
    triggers: list[str] = []
    projects: list[str] = []
    problems: list[str] = []
    importance: int | None = None
    for one in many:
        triggers += one.triggers
        projects += one.projects
        problems += one.problems
        if one.importance is not None:
            importance = one.importance if importance is None else max(importance, one.importance)
    return Annotations(
        tuple(dict.fromkeys(triggers)), importance, tuple(dict.fromkeys(projects)), tuple(dict.fromkeys(problems))
    )
