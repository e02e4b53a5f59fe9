"""Front matter: the ``---`` block at the top of a note, read tolerantly.

The small part of YAML that notes use: scalars plain and quoted, inline lists, block lists, block text; anything deeper
is kept as text. Nothing here can lose a line: the block stays part of the searchable text whatever it says, and what
could not be read is a problem with its line. No YAML library: those refuse the whole block for one odd value.

Called by ``blocks`` (how many lines the block has) and ``markdown`` (what it says). Not here: what the values mean for
a document (``notes``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from memory_sqlite.values import dataclass, field

LINES_MAX: Final = 400
"""A block that is not closed within so many lines is a horizontal rule above a text, not front matter."""

_KEY: Final = re.compile(r"([^\s:#\-\[\]{},\"'&*!|>%@`][^:]*):(?:[ \t]+(.*))?$")
_ITEM: Final = re.compile(r"[ \t]*-(?:[ \t]+(.*))?$")
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#.*$")
_BLOCK_TEXT: Final = re.compile(r"[|>][+\-0-9]*[ \t]*(?:#.*)?$")
_LIST_PART: Final = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]*)[ \t]*(?:,|$)""")
_ESCAPE: Final = re.compile(r"\\(.)")
_RESERVED: Final = "`@*&!%"
"""A plain YAML value may not begin with these (YAML 1.2, section 5.3); it is read as text and reported."""

Value = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the block says. ``lines`` is how many lines it takes, fences included; 0 when there is none."""

    lines: int = 0
    values: Mapping[str, Value] = field(default_factory=dict)
    """By casefolded key; of a repeated key the first counts."""
    problems: tuple[tuple[int, str], ...] = ()
    """``(1-based line, reason)``; no text of the note."""

    def text(self, key: str) -> str | None:
        """The value of ``key`` as one text, lists joined with commas; ``None`` when absent or empty."""
        value = self.values.get(key, "")
        joined = value if isinstance(value, str) else ", ".join(value)
        return joined.strip() or None


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Read the block at the top of ``lines``; never fails.

    It is front matter when line 1 is ``---``, the first thing below looks like ``key:``, and ``---`` or ``...``
    closes it.
    """
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter()
    body = lines[1 : LINES_MAX + 1]
    first = next((line for line in body if line.strip() and not line.startswith("#")), "")
    if first.rstrip() in ("---", "..."):
        return FrontMatter(lines=1 + next(n for n, line in enumerate(body, 1) if line.rstrip() in ("---", "...")))
    if not _KEY.match(first):
        return FrontMatter()
    for number, line in enumerate(body, 1):
        if line.rstrip() in ("---", "..."):
            values, problems = _read_fields(body[: number - 1])
            return FrontMatter(number + 1, values, tuple(problems))
    return FrontMatter(problems=((1, "front matter is not closed; read as ordinary text"),))


def _read_fields(lines: Sequence[str]) -> tuple[dict[str, Value], list[tuple[int, str]]]:
    values: dict[str, Value] = {}
    problems: list[tuple[int, str]] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        number = index + 2
        index += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.match(line)
        if match is None:
            problems.append((number, "front matter line is not `key: value`"))
            continue
        start = index
        while index < len(lines) and _belongs_to_field(lines[index]):
            index += 1
        key = match[1].strip().casefold()
        raw = (match[2] or "").strip()
        if raw[:1] and raw[0] in _RESERVED:
            problems.append((number, "front matter value begins with a character that YAML reserves; read as text"))
        value, complete = _read_value(raw, lines[start:index])
        if not complete:
            problems.append((number, "front matter value is not closed; read as text"))
        if key in values:
            problems.append((number, "front matter repeats a key; the first one counts"))
        else:
            values[key] = value
    return values, problems


def _belongs_to_field(line: str) -> bool:
    return not line.strip() or line[0] in " \t" or _ITEM.match(line) is not None


def _read_value(raw: str, below: Sequence[str]) -> tuple[Value, bool]:
    """The value of one field and whether its quotes and brackets were closed."""
    deeper = [line for line in below if line.strip()]
    if not raw or raw.startswith("#"):
        items = [match for match in map(_ITEM.match, deeper) if match is not None]
        if items and len(items) == len(deeper):
            read = [_scalar((match[1] or "").strip()) for match in items]
            return tuple(value for value, _ in read if value), all(complete for _, complete in read)
        return "\n".join(line.strip() for line in deeper), True
    if _BLOCK_TEXT.match(raw):
        return ("\n" if raw[0] == "|" else " ").join(line.strip() for line in deeper), True
    whole = " ".join([raw, *(line.strip() for line in deeper)])
    if whole.startswith("["):
        plain = whole if whole.endswith("]") else _COMMENT.sub("", whole).rstrip()
        if not plain.endswith("]"):
            return whole, False
        return _inline_list(plain[1:-1]), True
    return _scalar(whole)


def _inline_list(inside: str) -> tuple[str, ...]:
    values = (_scalar(match[1].strip())[0] for match in _LIST_PART.finditer(inside) if match[1].strip())
    return tuple(value for value in values if value)


def _scalar(raw: str) -> tuple[str, bool]:
    quote = raw[:1]
    if quote and quote in "\"'":
        pattern = r'"((?:[^"\\]|\\.)*)"' if quote == '"' else r"'((?:[^']|'')*)'"
        match = re.match(pattern + r"[ \t]*(?:#.*)?$", raw)
        if match is None:
            return raw, False
        if quote == "'":
            return match[1].replace("''", "'"), True
        return _ESCAPE.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), match[1]), True
    return _COMMENT.sub("", raw).strip(), True
