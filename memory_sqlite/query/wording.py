"""SQLite's complaints about a statement in words that quote no value: names and keywords stay, literals do not.

Pure. Called by ``running``.
"""

from __future__ import annotations

import re
from typing import Final

_QUOTING: Final = re.compile(
    r"(no such (?:table|column|function|collation sequence|index): )(\S+)"
    r"|(near )\"(.*)\"(: syntax error)"
    r"|(ambiguous column name: )(\S+)"
    r"|(wrong number of arguments to function )(\S+)"
    r"|(table )(\S+)( has .*)",
    re.DOTALL,
)
_NAME: Final = re.compile(r"[^\W\d][\w$.]*(?:\(\))?")
_OWN_NAMES: Final = re.compile(r"\bjsonl\$\d+")
_PLAIN: Final = (
    "incomplete input",
    "malformed JSON",
    "integer overflow",
    "no query solution",
    "parser stack overflow",
    "misuse of aggregate",
    "misuse of window function",
    "row value misused",
    "Expression tree is too large",
    "too many ",
    "no tables specified",
    "sub-select returns ",
    "SELECTs to the left and right",
    "a GROUP BY clause is required",
    "HAVING clause on a non-aggregate query",
    "LIMIT clause should come after",
    "ORDER BY clause should come after",
    "circular reference",
    "a JOIN clause is required",
    "LIKE or GLOB pattern too complex",
    "hex literal too big",
)
"""Beginnings of messages that hold no value of the statement."""
_GROUPS: Final = re.compile(r"\d+\w\w (?:ORDER|GROUP) BY term .*")


def complaint(message: str) -> str:
    """The message, or a general one where it might quote a value."""
    message = _OWN_NAMES.sub("jsonl", message)
    found = _QUOTING.fullmatch(message)
    if found is not None:
        said = [group for group in found.groups() if group is not None]
        name = said[1]
        shown = name if _NAME.fullmatch(name) else "…"
        return f"{said[0]}{shown}{said[2] if len(said) > 2 else ''}"
    if message.startswith("no query solution"):
        return "jsonl and transcript need a pattern, as in jsonl('FOLDER/**/*.jsonl')"
    is_plain = message.startswith(_PLAIN) or _GROUPS.fullmatch(message) is not None
    return message if is_plain else "SQLite does not accept the SQL"
