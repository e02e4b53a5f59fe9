"""What a caller wants forgotten, checked: names as they were given, never patterns, never prefixes.

Not here: what the names stand for in the store (``choose``). Called by the door.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_sqlite import errors
from memory_sqlite.clock import parse_time
from memory_sqlite.values import dataclass

_NAMES: Final = ("sessions", "participants", "hook_sources", "records", "references")


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of one forgetting, valid. ``since`` (included) and ``until`` (not included) are ms; they narrow
    sessions, participants and hook sources, and alone they choose whatever was said between them."""

    sessions: tuple[str, ...]
    participants: tuple[str, ...]
    hook_sources: tuple[str, ...]
    records: tuple[str, ...]
    references: tuple[str, ...]
    since: int | None
    until: int | None
    notes: bool
    keep_turns: bool

    @property
    def is_bounded(self) -> bool:
        """Whether a stretch of time was given."""
        return self.since is not None or self.until is not None

    @property
    def names_anybody(self) -> bool:
        """Whether a session, a participant or a hook source was named, which a stretch of time then narrows."""
        return bool(self.sessions or self.participants or self.hook_sources)


def check(
    sessions: object,
    participants: object,
    hook_sources: object,
    records: object,
    references: object,
    since: object,
    until: object,
    notes: object,
    keep_turns: object,
) -> Asked:
    """Raise ``InvalidArgument`` naming the first argument that is wrong, or when nothing was chosen at all."""
    given = (sessions, participants, hook_sources, records, references)
    lists = [_strings(name, value) for name, value in zip(_NAMES, given, strict=True)]
    begin, end = _moment("since", since), _moment("until", until)
    if begin is not None and end is not None and begin >= end:
        raise errors.InvalidArgument("since must be before until")
    if not any(lists) and begin is None and end is None:
        raise errors.InvalidArgument(
            "name what to forget: sessions, participants, hook_sources, records, references, since or until"
        )
    return Asked(lists[0], lists[1], lists[2], lists[3], lists[4], begin, end, bool(notes), bool(keep_turns))


def _strings(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    wrong = errors.InvalidArgument(f"{name} must be a list of strings that are not blank")
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise wrong
    if not all(isinstance(one, str) and one.strip() for one in value):
        raise wrong
    return tuple(dict.fromkeys(one.strip() for one in value))


def _moment(name: str, value: object) -> int | None:
    if value is None:
        return None
    ms = parse_time(value)
    if ms is None:
        raise errors.InvalidArgument(f"{name} must be an ISO-8601 date or time, or seconds since the epoch")
    return ms
