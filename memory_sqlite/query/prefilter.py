"""What a line must contain as bytes if a condition of the query can hold for it: looked for before anything is parsed.

A needle may let lines through for which the condition does not hold, since SQLite looks at each again; it must never
hold one back. JSON can write a character in more ways than one (``\\u0041``, ``\\/``), so those are alternatives, and
what has no certain spelling (numbers, spaces between tokens) yields no needle. Pure. Called by ``jsonl_table``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, Literal

from memory_sqlite.values import dataclass

Operator = Literal["=", "LIKE", "GLOB"]

_ESCAPE: Final = b"\\u"
_LETTERS: Final = re.compile(r"[A-Za-z_ \u00a0-\ud7ff\ue000-\ufffc]{2,}")
"""Runs that stand in a line's JSON as they do in its values, also where an object is written anew: that puts no spaces
between tokens, so that a space is one of a text."""
_NUMBER: Final = re.compile(r"[-+.0-9eE]*")


@dataclass(frozen=True, slots=True)
class Needle:
    """A line fits if it contains one of ``alternatives``; with ``fold`` in lower case (A to Z only, as LIKE does)."""

    alternatives: tuple[bytes, ...]
    fold: bool = False

    def describe(self) -> str:
        """For ``--explain``: that there is one, and what it looks at; never what is looked for."""
        case = ", letters of either case" if self.fold else ""
        return f"{len(self.alternatives)} byte string{'' if len(self.alternatives) == 1 else 's'}{case}"


def of_text(operator: Operator, pattern: object, *, of_json: bool = False) -> Needle | None:
    """For a condition on a line's own text, or with ``of_json`` on its JSON, of which some escapes are written anew."""
    if not isinstance(pattern, str) or operator == "=":
        return None
    run = max(_literals(operator, pattern), key=len, default="")
    if len(run) < 2 or any(odd in run for odd in "\n\r\0\ufffd\ufeff"):
        return None
    folds = operator == "LIKE"
    found = _bytes(_lower(run) if folds else run)
    return Needle((found, _ESCAPE) if of_json else (found,), folds)


def of_value(operator: Operator, wanted: object) -> Needle | None:
    """For a condition on a key's value; ``wanted`` is a text or, for ``=``, several (``IN``)."""
    if operator == "=":
        texts = list(wanted) if isinstance(wanted, set | frozenset | list | tuple) else [wanted]
        found: list[bytes] = []
        for text in texts:
            if not isinstance(text, str) or not _has_one_spelling(text):
                return None
            found.append(_bytes(json.dumps(text, ensure_ascii=False)))
            if "/" in text:
                found.append(b"\\/")
        return Needle((*dict.fromkeys(found), _ESCAPE)) if found else None
    if not isinstance(wanted, str):
        return None
    runs = [run for piece in _literals(operator, wanted) for run in _LETTERS.findall(piece)]
    run = max(runs, key=len, default="")
    # three letters at least: what JSON spells otherwise, numbers, has at most one
    if len(run) < 3 or run.lower() in "infinity":
        return None
    folds = operator == "LIKE"
    return Needle((_bytes(_lower(run) if folds else run), _ESCAPE), folds)


def best(needles: Iterable[Needle | None]) -> Needle | None:
    """The one that lets least through: the fewest alternatives, then the longest."""
    known = [needle for needle in needles if needle is not None]
    return min(known, key=lambda one: (len(one.alternatives), -len(one.alternatives[0])), default=None)


def _has_one_spelling(text: str) -> bool:
    """Not empty, no object or list (whose spaces may differ), no number, nothing that stands for damaged bytes."""
    return bool(text) and text[0] not in "{[" and not _NUMBER.fullmatch(text) and "\ufffd" not in text


def _literals(operator: Operator, pattern: str) -> list[str]:
    """What a pattern says literally, piece by piece."""
    if operator == "LIKE":
        return re.split("[%_]", pattern)
    return re.split(r"[*?]", pattern.split("[", 1)[0])  # a bracket may hold anything, also another bracket


def _lower(text: str) -> str:
    return "".join(one.lower() if one.isascii() else one for one in text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
