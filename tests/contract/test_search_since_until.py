"""``since``, ``until`` and ``sort``: event time, before ranking, the same for messages, records and dated notes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, clock: FixedClock) -> Iterator[Memory]:
    """Three messages of three months, one imported years later than it was said, and notes of two days."""
    (workspace / "memory" / "2026-02-10.md").write_text("granite diary of February\n")
    (workspace / "memory" / "stones.md").write_text("granite without a date\n")
    transcript = tmp_path / "old.jsonl"
    transcript.write_text(
        json.dumps({"role": "user", "content": "granite of long ago", "timestamp": "2020-05-05T05:05:05Z"}) + "\n"
    )
    with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as opened:
        for month in (1, 2, 3):
            opened.remember(
                session=f"s{month}",
                messages=[{"role": "user", "content": f"granite talk {month}", "at": f"2026-0{month}-15T12:00:00Z"}],
            )
        opened.import_transcripts([transcript], session="old")
        yield opened


def times(memory: Memory, **more: Any) -> list[str | None]:
    hits = memory.search("granite", sources=("sessions",), max_results=50, **more).hits
    return [hit.time for hit in hits]


JANUARY, FEBRUARY, MARCH = (f"2026-0{month}-15T12:00:00.000Z" for month in (1, 2, 3))
LONG_AGO = "2020-05-05T05:05:05.000Z"


def test_hits_carry_event_time(memory: Memory) -> None:
    """When it was said, not when it was stored or its file was written."""
    assert set(times(memory)) == {JANUARY, FEBRUARY, MARCH, LONG_AGO}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"since": "2026-02-01"}, {FEBRUARY, MARCH}),
        ({"until": "2026-02-01"}, {JANUARY, LONG_AGO}),
        ({"since": "2026-01-20", "until": "2026-03-01T00:00:00+02:00"}, {FEBRUARY}),
        ({"since": "2026-02-15T12:00:00Z", "until": "2026-02-15T12:00:00.001Z"}, {FEBRUARY}),
        ({"since": "2026-01-16", "until": "2026-02-15T12:00:00Z"}, set()),
        ({"since": 1771156800}, {FEBRUARY, MARCH}),
        ({"since": 1771156800.001}, {MARCH}),
        ({"since": 1771156800000}, {FEBRUARY, MARCH}),
        ({"since": "2026-04-01"}, set()),
        ({"since": "2026-03-01", "until": "2026-01-01"}, set()),
    ],
)
def test_bounds_are_event_times(memory: Memory, bounds: dict[str, Any], expected: set[str]) -> None:
    """Dates, times with and without zone, epochs in seconds and milliseconds; ``since`` is included and ``until`` is
    not, so that months put side by side share no message; a range that is empty finds nothing."""
    assert set(times(memory, **bounds)) == expected


def test_the_bound_filters_before_ranking(memory: Memory) -> None:
    """One old message among a hundred better matches of today is still found when today is excluded."""
    for number in range(100):
        memory.remember(session="today", messages=[{"role": "user", "content": f"granite granite granite {number}"}])
    hits = memory.search("granite", sources=("sessions",), until="2020-12-31", max_results=3).hits
    assert [hit.time for hit in hits] == [LONG_AGO]


def test_records_and_dated_notes_are_bounded_too(memory: Memory) -> None:
    """An L1 record has its turn's time, a diary its name's day; a note without a day is in no range."""
    hits = memory.search("granite", sources=("memory",), since="2026-02-01", until="2026-02-28", max_results=50).hits
    assert {hit.path.rpartition("/")[2] for hit in hits if hit.layer is None} == {"2026-02-10.md"}
    assert {hit.time for hit in hits if hit.layer == "L1"} == {FEBRUARY}
    everything = memory.search("granite", sources=("memory",), max_results=50).hits
    assert "memory/stones.md" in {hit.path for hit in everything}


def test_sort_orders_by_event_time(memory: Memory) -> None:
    """``newest`` and ``oldest`` order what was found; the same hits as by score."""
    assert times(memory, sort="newest") == [MARCH, FEBRUARY, JANUARY, LONG_AGO]
    assert times(memory, sort="oldest") == [LONG_AGO, JANUARY, FEBRUARY, MARCH]
    assert set(times(memory, sort="score")) == set(times(memory, sort="newest"))


@pytest.mark.parametrize("value", ["yesterday", "", "2026-13-01", True, [], float("nan"), float("inf"), 1e30, b"2026"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_what_is_not_a_time_is_named(memory: Memory, name: str, value: object) -> None:
    """A typed error that names the argument; no bound is silently dropped."""
    with pytest.raises(errors.InvalidArgument, match=name):
        memory.search("granite", **{name: value})  # type: ignore[arg-type]


def test_a_session_may_ask_for_no_more_than_tools_may(memory: Memory) -> None:
    """Up to a hundred results are the operator's; a session's bound is ``max_search_results``."""
    memory.remember(session="s1", messages=[{"role": "user", "content": "granite"}])
    assert memory.search("granite", max_results=100).hits
    assert memory.search("granite", session="s1", max_results=10).hits
    with pytest.raises(errors.InvalidArgument, match="max_results must be an integer between 1 and 10"):
        memory.search("granite", session="s1", max_results=11)
