"""What a caller asked, checked: each wrong argument is named, nothing is coerced."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeGuard

from memory_sqlite import errors, limits
from memory_sqlite.agent.deadline import FAR_S, Deadline
from memory_sqlite.clock import Clock, parse_time
from memory_sqlite.model import LAYERS, SOURCES
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.values import dataclass

_SQL_MAX: Final = 2**63 - 1
SORTS = ("score", "diverse", "newest", "oldest")


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of one search, valid."""

    query: str
    max_results: int
    min_score: float
    sources: tuple[str, ...]
    layers: tuple[str, ...] | None
    projects: tuple[str, ...] | None
    since: int | None
    until: int | None
    sort: str
    explain: bool
    active_projects: tuple[str, ...] = ()
    zone: str | None = None
    """Where "yesterday" is meant, when it is not the clock's zone."""
    only_active: bool = False
    """Whether what belongs to other projects than the active ones is left out, instead of only standing behind."""
    except_session: int | None = None
    """A session of which nothing that was said is wanted, by the store's id."""


def check(
    query: object,
    max_results: object,
    min_score: object,
    sources: object,
    layers: object,
    projects: object,
    since: object,
    until: object,
    sort: object,
    explain: object,
    most: int = limits.OPERATOR_MAX_RESULTS,
    active_projects: object = (),
    zone: object = None,
) -> Asked:
    """The arguments, valid; ``most`` results may be asked for. Raises ``InvalidArgument`` naming the first wrong."""
    if not isinstance(query, str):
        raise errors.InvalidArgument("query must be a string")
    if max_results is None:
        max_results = min(limits.DEFAULT_RESULTS, most)
    if not _is_int(max_results) or not 1 <= max_results <= most:
        raise errors.InvalidArgument(f"max_results must be an integer between 1 and {most}")
    if isinstance(min_score, bool) or not isinstance(min_score, int | float) or not math.isfinite(min_score):
        raise errors.InvalidArgument("min_score must be a number between 0 and 1")
    if not 0 <= min_score <= 1:
        raise errors.InvalidArgument("min_score must be a number between 0 and 1")
    chosen = _names("sources", sources, SOURCES)
    if not chosen:
        raise errors.InvalidArgument(f"sources must name at least one of {', '.join(SOURCES)}")
    if sort not in SORTS:
        raise errors.InvalidArgument(f"sort must be one of {', '.join(SORTS)}")
    return Asked(
        query,
        int(max_results),
        float(min_score),
        chosen,
        None if layers is None else _names("layers", layers, LAYERS),
        None if projects is None else _strings("projects", projects),
        _moment("since", since),
        _moment("until", until),
        str(sort),
        bool(explain),
        _strings("active_projects", active_projects),
        None if zone is None else _zone(zone),
    )


def check_range(
    reference: object, from_line: object, lines: object, offset: object, max_read_lines: int
) -> tuple[str, int, int, int]:
    """The arguments of one get; more lines than ``max_read_lines`` are bounded to it. Raises ``InvalidArgument``."""
    if not isinstance(reference, str) or not reference.strip():
        raise errors.InvalidArgument("reference must be a reference or a path that is not blank")
    reference = valid_unicode(reference)  # half a character names nothing
    if not _is_int(from_line) or from_line < 1:
        raise errors.InvalidArgument("from_line must be an integer of at least 1")
    if not _is_int(offset) or offset < 0:
        raise errors.InvalidArgument("offset must be an integer of at least 0")
    if lines is None:
        return reference, int(from_line), max_read_lines, int(offset)
    if not _is_int(lines) or lines < 1:
        raise errors.InvalidArgument("lines must be an integer of at least 1")
    return reference, int(from_line), min(int(lines), max_read_lines), int(offset)


def check_window(limit: object, offset: object) -> tuple[int, int]:
    """The arguments of a listing. Raises ``InvalidArgument``."""
    if not _is_int(limit) or limit < 1:
        raise errors.InvalidArgument("limit must be an integer of at least 1")
    if not _is_int(offset) or offset < 0:
        raise errors.InvalidArgument("offset must be an integer of at least 0")
    return min(limit, _SQL_MAX), min(offset, _SQL_MAX)


def check_paths(paths: object) -> list[Path]:
    """The files and directories of an import. One path is not a list of paths. Raises ``InvalidArgument``."""
    wrong = errors.InvalidArgument("paths must be a list of paths")
    if isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable):
        raise wrong
    listed = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise wrong
        listed.append(Path(path))
    return listed


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _strings(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
        raise errors.InvalidArgument(f"{name} must be a list of strings")
    return tuple(value)


def _names(name: str, value: object, known: Sequence[str]) -> tuple[str, ...]:
    given = _strings(name, value)
    for one in given:
        if one not in known:
            raise errors.InvalidArgument(f"{name} may name {', '.join(known)}")
    return tuple(dict.fromkeys(given))


def _zone(value: object) -> str:
    if not isinstance(value, str):
        raise errors.InvalidArgument("zone must be the name of a time zone, or None for the clock's")
    from memory_sqlite.search.days import zone_of

    zone_of(value)
    return value


def _moment(name: str, value: object) -> int | None:
    if value is None:
        return None
    ms = parse_time(value)
    if ms is None:
        raise errors.InvalidArgument(f"{name} must be an ISO-8601 date or time, or seconds since the epoch")
    return ms


def deadline(milliseconds: object, cancelled: threading.Event | None, clock: Clock) -> Deadline | None:
    """The deadline a caller gave, or ``None`` when neither time nor cancellation ends the call early."""
    if milliseconds is None:
        return Deadline(FAR_S, clock, cancelled) if cancelled is not None else None
    if not _is_int(milliseconds) or not 1 <= milliseconds <= limits.DEADLINE_MAX_MS:
        raise errors.InvalidArgument(f"deadline_ms must be an integer between 1 and {limits.DEADLINE_MAX_MS}")
    return Deadline(milliseconds / 1000, clock, cancelled)
