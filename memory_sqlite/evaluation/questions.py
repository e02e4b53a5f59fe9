"""Labelled questions: the lines of a file, checked, and when a hit is what a label names.

Lives here: reading ``{"query", "expected", …}`` lines, and labels. Not here: asking (``measuring``). A wrong line is an
error with its number and never with its text. Called by ``memory-sqlite eval`` and the quality harness.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from memory_sqlite import errors, limits
from memory_sqlite.model import SOURCES, Hit, Source
from memory_sqlite.sources.reading import LINE_RANGE

_FIELDS: Final = frozenset({"query", "expected", "session", "sources", "category"})


@dataclass(frozen=True)
class Question:
    """One query and the labels of what answers it; without any, the right answer is empty.

    A label is a path, a citation, a reference or the host's id of a message; a citation with lines means any passage
    that shares a line with it.
    """

    query: str
    expected: frozenset[str]
    session: str | None = None
    sources: tuple[Source, ...] = SOURCES
    category: str = ""
    line: int = 0


def read_questions(path: Path) -> list[Question]:
    """The questions of a JSON-lines file, in order; blank lines are skipped.

    Raises ``LabelsInvalid`` naming the first line that is wrong, and for a file that cannot be read, is too large or
    holds no question.
    """
    try:
        with path.open("rb") as file:  # a pipe or a device does not say its size
            data = file.read(limits.EVAL_FILE_MAX_BYTES + 1)
    except OSError as error:
        raise errors.LabelsInvalid(f"the file of labelled queries cannot be read ({type(error).__name__})") from None
    if len(data) > limits.EVAL_FILE_MAX_BYTES:
        raise errors.LabelsInvalid(f"the file is larger than {limits.EVAL_FILE_MAX_BYTES} bytes")
    questions = list(_questions(data.removeprefix(b"\xef\xbb\xbf")))
    if not questions:
        raise errors.LabelsInvalid("the file holds no labelled query")
    return questions


def _questions(data: bytes) -> Iterator[Question]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            raise _wrong(number, "is not a JSON object in UTF-8") from None
        yield _question(number, value)


def _question(number: int, value: Any) -> Question:
    if not isinstance(value, dict):
        raise _wrong(number, "is not a JSON object")
    unknown = value.keys() - _FIELDS
    if unknown:
        raise _wrong(number, f"may have the fields {', '.join(sorted(_FIELDS))} and no others")
    query, session, category = value.get("query"), value.get("session"), value.get("category", "")
    if not isinstance(query, str):
        raise _wrong(number, "query must be a string")
    if session is not None and (not isinstance(session, str) or not session):
        raise _wrong(number, "session must be a string that is not empty")
    if not isinstance(category, str):
        raise _wrong(number, "category must be a string")
    expected = _texts(number, "expected", value.get("expected"))
    sources = _texts(number, "sources", value.get("sources", list(SOURCES)))
    if not sources or not set(sources) <= set(SOURCES):
        raise _wrong(number, f"sources must name {' or '.join(SOURCES)}")
    return Question(query, frozenset(expected), session, cast("tuple[Source, ...]", sources), category, number)


def _texts(number: int, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise _wrong(number, f"{name} must be a list of strings that are not empty")
    return tuple(dict.fromkeys(value))


def _wrong(number: int, what: str) -> errors.LabelsInvalid:
    return errors.LabelsInvalid(f"line {number}: {what}")


def labels_of(hit: Hit, expected: frozenset[str]) -> list[str]:
    """The labels that a hit answers, else a name of its own; then those that what is listed under it (``duplicates``)
    answers. A note's passages share a name, as one document."""
    names = (hit.reference, hit.citation, hit.message_id, hit.path)
    found = [name for name in names if name is not None and name in expected]
    found += _by_lines(hit.path, hit.start_line, hit.end_line, expected)
    if not found:
        found.append(hit.path if hit.provenance.get("kind") == "note" else hit.reference)
    for copy in hit.duplicates:
        path, first, last = _split(copy)
        found += [name for name in (copy, path) if name in expected]
        found += _by_lines(path, first, last, expected)
    return list(dict.fromkeys(found))


def _by_lines(path: str, first: int, last: int, expected: frozenset[str]) -> Iterator[str]:
    """The labels that name lines of this path that the passage shares."""
    for label in sorted(expected):
        where, start, end = _split(label)
        if where != label and where == path and first <= end and start <= last:
            yield label


def _split(citation: str) -> tuple[str, int, int]:
    """Path and lines of a citation or a note's reference; a text without lines is its own path."""
    lines = LINE_RANGE.search(citation)
    if lines is None:
        return citation, 1, 1
    first = int(lines[1])
    return citation[: lines.start()].removeprefix("note:"), first, int(lines[2]) if lines[2] else first
