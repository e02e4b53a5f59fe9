"""The day that "yesterday" means is the caller's: the clock's moment in the clock's zone, here and in a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import AsyncMemory, Memory, errors
from memory_sqlite.cli.app import root
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


def _agrees(memory: Memory, query: str, **options: Any) -> bool:
    (hit,) = memory.search(query, sources=("sessions",), explain=True, **options).hits
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


@pytest.mark.parametrize("serving", [False, True], ids=["here", "in a worker"])
def test_a_call_may_be_in_another_zone(tmp_path: Path, serving: bool) -> None:
    """One memory answers people in London and in Berlin, each in their day; the clock's is meant where none is said."""
    _said(tmp_path)
    with Memory.open(tmp_path, clock=FixedClock(NOW_MS, "Asia/Tokyo"), serving=serving) as memory:
        for zone, day, other in (
            ("Europe/London", "yesterday", "today"),
            ("UTC", "昨天", "今天"),
            ("Europe/Berlin", "today", "yesterday"),
            ("+01:00", "오늘", "어제"),
            (None, "today", "yesterday"),
        ):
            assert _agrees(memory, f"harbour {day}", zone=zone), zone
            assert not _agrees(memory, f"harbour {other}", zone=zone), zone


def test_explain_reads_a_query_in_the_same_zone(tmp_path: Path) -> None:
    """And says in which; days are named as they are there."""
    _said(tmp_path)
    with Memory.open(tmp_path, clock=FixedClock(NOW_MS + 11 * 3_600_000)) as memory:
        days = {}
        for zone in ("Asia/Tokyo", "UTC", None):
            explanation = memory.explain("harbour yesterday", zone=zone)
            assert explanation.zone == (zone or "UTC")
            days[zone] = explanation.dates
        assert days["UTC"] == days[None] != days["Asia/Tokyo"]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "+25:00", "Europe", "../../etc/passwd", "x" * 5_000, "a\0b", 3])
def test_a_zone_of_a_call_that_is_none_is_an_error(tmp_path: Path, zone: Any) -> None:
    """Whatever the query is, named as the argument it is and not repeated; recall, which never raises, says so."""
    _said(tmp_path)
    with Memory.open(tmp_path, clock=FixedClock(NOW_MS)) as memory:
        for call in (memory.search, memory.explain):
            with pytest.raises(errors.InvalidArgument, match="zone") as caught:
                call("harbour", zone=zone)
            assert not zone or str(zone) not in str(caught.value)
        assert memory.recall("was the harbour crane greased?", zone=zone).reason == "error"


def test_recall_and_the_async_door_take_a_zone(tmp_path: Path) -> None:
    """As the search behind them; the same coroutines."""
    import asyncio

    _said(tmp_path)

    async def ask() -> list[bool]:
        async with await AsyncMemory.open(tmp_path, clock=FixedClock(NOW_MS, "Asia/Tokyo")) as memory:
            page = await memory.search("harbour yesterday", zone="Europe/London", explain=True, sources=("sessions",))
            block = await memory.recall("which crane was greased yesterday?", zone="Europe/London")
            return [bool((page.hits[0].explanation or {}).get("date", 1.0) > 1.0), block.reason in ("ok", "nothing")]

    assert asyncio.run(ask()) == [True, True]


def test_commands_take_a_zone(tmp_path: Path) -> None:
    """``search``, ``explain`` and ``recall``; a wrong one ends with the code of a wrong argument."""
    _said(tmp_path)
    for command in ("search", "explain", "recall"):
        words = ["--data-dir", str(tmp_path), command, "harbour crane yesterday", "--json", "--zone"]
        right = CliRunner().invoke(root, [*words, "Asia/Tokyo"])
        assert right.exit_code == 0
        if command == "explain":
            assert json.loads(right.stdout)["zone"] == "Asia/Tokyo"
        wrong = CliRunner().invoke(root, [*words, "Mars/Olympus"])
        if command == "recall":
            assert json.loads(wrong.stdout)["reason"] == "error"
        else:
            assert wrong.exit_code == errors.InvalidArgument.exit_code
            assert "Mars" not in wrong.stdout


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
