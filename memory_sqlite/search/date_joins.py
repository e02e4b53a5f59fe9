"""Two dates that are one range, and one that reaches up to today: "from A to B", "between A and B", "since A".

Lives here: the words between and around dates that have been read. Not here: reading one date (the tables), calendar
arithmetic (``date_spans``). Called by ``dates`` when a query names a date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from memory_sqlite.search import date_spans as spans
from memory_sqlite.search.date_rules import Found
from memory_sqlite.search.date_spans import NamedDate

_AND: Final = re.compile(r"\s*(?:and|和|与|と|와|과|그리고)\s*", re.I)
_TO: Final = re.compile(r"\s*(?:-|–|—|~|〜|to|through|thru|until|till|到|至|から|부터|에서)\s*", re.I)
_BETWEEN: Final = re.compile(r"\bbetween\s+(?:the\s+)?$", re.I)
_SINCE: Final = re.compile(r"\bsince\s+(?:the\s+)?$", re.I)
_SPAN_OF_TWO: Final = re.compile(r"\s*(?:之?间|の间|사이)")
_EVER_SINCE: Final = re.compile(r"份?(?:以来|以后|以降|之后|至今|起)|\s*(?:이후|이래|부터)")


def joined(text: str, found: list[Found], today: date) -> Iterator[NamedDate]:
    """Two dates with "to" between them are one span, and "since" makes a span of one."""
    waiting = list(reversed(found))
    while waiting:
        one = waiting.pop()
        try:
            if waiting and _is_range(text, one, waiting[-1]):
                yield spans.between(one.named[0], waiting[-1].named[0], today)
                waiting.pop()
            elif _is_since(text, one):
                yield from [spans.since(named, today) for named in one.named]
            else:
                yield from one.named
        except (ValueError, OverflowError):  # it ends before it begins, or before the first year
            yield from one.named


def _is_range(text: str, one: Found, other: Found) -> bool:
    if any(len(each.named) > 1 or each.named[0].trust is not None for each in (one, other)):
        return False
    gap = text[one.end : other.start]
    if _TO.fullmatch(gap):
        return True
    is_between = _BETWEEN.search(text, 0, one.start) or _SPAN_OF_TWO.match(text, other.end)
    return is_between is not None and _AND.fullmatch(gap) is not None


def _is_since(text: str, one: Found) -> bool:
    return _SINCE.search(text, 0, one.start) is not None or _EVER_SINCE.match(text, one.end) is not None
