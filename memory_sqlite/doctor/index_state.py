"""Findings about the search index while others may be at work on it: its generations, and the current one's content.

Store and generation are looked at through one pair of snapshots at the same change, so that what another process does
meanwhile is never taken for a fault. Called by ``examine``. Not here: the checks of a generation (``index_checks``).
"""

from __future__ import annotations

from pathlib import Path

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.doctor import holders, index_checks
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.doctor.verify import leftover
from memory_sqlite.generations import files, registry


def generations(place: Place) -> list[Finding]:
    """The rows of generations, and every file that is not the current one's."""
    with place.store() as store:
        current = registry.current(store)
        found = [] if current is not None else [Finding("index_missing")]
        if current is not None and not paths.generation_file(place.directory, current.number).is_file():
            found.append(Finding("index_file_missing", {"file": _name(current.number)}))
        for number in files.numbers(place.directory):
            if current is None or number != current.number:
                one = _other(place, store, number)
                found += [] if one is None else [one]
    return found


def _other(place: Place, store: apsw.Connection, number: int) -> Finding | None:
    """A generation's file that is not the current one's. One that others have or may be at work on is not opened:
    whoever probes a file has it alone for a moment."""
    path = paths.generation_file(place.directory, number)
    who = holders.of([path])
    if who:
        return Finding("index_held", {"file": path.name, "processes": who.shown()})
    if _may_be_at_work(place, store, path.name):
        return None
    one = leftover(store, place.directory, number, place.file_key())
    if one.evidence["state"] == "current":  # of several, which is a finding of its own
        return None
    if one.code == "index_held":
        return Finding(one.code, {**one.evidence, "processes": who.shown()})
    return one


def _may_be_at_work(place: Place, store: apsw.Connection, name: str) -> bool:
    """Retired or given up a moment ago, or being begun: who did so takes it away or goes on."""
    path = place.directory / name
    number = paths.generation_number(name)
    row = store.execute("SELECT coalesce(retired_at, created_at) FROM generations WHERE number = ?", (number,)).get
    times = [row] if isinstance(row, int) else []
    for one in (path, path.with_name(path.name + "-wal")):
        try:
            times.append(int(one.stat().st_mtime * 1000))
        except OSError:
            pass
    return not times or place.is_recent(max(times))


def content(place: Place) -> list[Finding]:
    """Everything about the current generation: pages, identity, lag, words, vectors, what was forgotten, what lacks."""
    try:
        with place.pair() as pair:
            if not pair.level and place.busy():
                raise Skipped("others are at work on it")
            return index_checks.contents(pair.store, pair.index, pair.path.name, pair.current, place.session_key())
    except errors.IndexUnavailable as error:
        cause = type(error.__cause__ or error).__name__
        return [Finding("index_damaged", {"file": _current_name(place), "reason": cause})]


def in_use(place: Place) -> list[Finding]:
    """Who else has the current generation open."""
    path = _current(place)
    who = holders.of([path])
    return [Finding("index_in_use", {"file": path.name, "processes": who.shown()})] if who else []


def _current(place: Place) -> Path:
    with place.store() as store:
        current = registry.current(store)
    if current is None:
        raise Skipped("there is no search index")
    return paths.generation_file(place.directory, current.number)


def _current_name(place: Place) -> str:
    return _current(place).name


def _name(number: int) -> str:
    return paths.generation_file(Path(), number).name
