"""The day that "yesterday" means is the caller's: the clock's moment in the clock's zone, here and in a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import Clock, FixedClock

NOW_MS = 1_796_040_000_000
"""Monday, 2026-11-30T12:00:00Z."""


def _said(data: Path) -> None:
    """One message of 23:30 in London, which is half past midnight of the next day in Berlin."""
    with Memory.open(data, clock=FixedClock(NOW_MS)) as memory:
        memory.remember(
            session="s1",
            messages=[{"role": "user", "content": "The harbour crane was greased.", "at": "2026-11-29T23:30:00Z"}],
        )


def _agrees(memory: Memory, query: str) -> bool:
    (hit,) = memory.search(query, sources=("sessions",), explain=True).hits
    explanation: Any = hit.explanation
    return bool(explanation.get("date", 1.0) > 1.0)


@pytest.mark.parametrize("serving", [False, True], ids=["here", "in a worker"])
def test_words_about_days_go_by_the_zone_of_the_clock(tmp_path: Path, serving: bool) -> None:
    """The same message is of yesterday in London and of today in Berlin."""
    _said(tmp_path)
    for zone, day in (("Europe/London", "yesterday"), ("UTC", "昨天"), ("Europe/Berlin", "today"), ("+01:00", "오늘")):
        with Memory.open(tmp_path, clock=FixedClock(NOW_MS, zone), serving=serving) as memory:
            assert _agrees(memory, f"harbour {day}"), zone
            other = "today" if day in ("yesterday", "昨天") else "yesterday"
            assert not _agrees(memory, f"harbour {other}"), zone


@pytest.mark.parametrize("serving", [False, True], ids=["here", "in a worker"])
def test_a_zone_that_is_none_is_an_error_and_stops_nothing_else(tmp_path: Path, serving: bool) -> None:
    """It is named as the argument it is, and only a query is read by it."""
    _said(tmp_path)
    with Memory.open(tmp_path, clock=FixedClock(NOW_MS, "Mars/Olympus"), serving=serving) as memory:
        with pytest.raises(errors.InvalidArgument, match="time zone"):
            memory.search("harbour yesterday")
        assert memory.remember(session="s1", messages=[{"role": "user", "content": "Still here."}]).status == "stored"


def test_the_clock_of_the_machine_is_in_its_zone() -> None:
    """A person at a machine means its days; a host that serves others says whose."""
    assert Clock().zone == "local"
    assert Clock("Asia/Tokyo").zone == "Asia/Tokyo"
    assert FixedClock(0).zone == "UTC"


def test_an_active_project_is_favoured_and_leaves_nothing_out(tmp_path: Path, workspace: Path) -> None:
    """Of two entries that say as much the one of the active project comes first, whichever that is."""
    entries = "".join(
        f"- The {name} crane is painted blue. <!-- project: {name} -->\n" for name in ("harbor", "quarry")
    )
    (workspace / "MEMORY.md").write_text(f"# Cranes\n\n{entries}", encoding="utf-8")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.index()
        for name in ("harbor", "quarry"):
            hits = memory.search("crane painted blue", active_projects=(name,)).hits
            assert hits[0].projects == (name,)
            assert len(hits) == 2
