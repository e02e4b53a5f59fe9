"""A clock that is ahead: what it stamps is kept, and does not stand above everything said afterwards."""

from __future__ import annotations

from pathlib import Path

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock, iso, parse_time, utc_day


def test_a_fact_out_of_the_future_can_be_corrected(tmp_path: Path, clock: FixedClock) -> None:
    with Memory.open(tmp_path / "data", clock=clock) as memory:
        said = {"role": "user", "content": "My name is Ada.", "at": "9999-12-31T00:00:00Z"}
        first = memory.remember(session="s", chat_type="direct", sender_is_owner=True, messages=[said])
        clock.advance(60_000)
        second = memory.remember(session="s", messages=[{"role": "user", "content": "My name is Bea."}])
        assert second.superseded == first.facts
        text = memory.recall("what is my name?", session="s").text
        assert "(L3, owner, 2026-07-15) My name is Bea" in text
        assert "L3, owner, 9999" not in text
        # the message keeps what the host said of it
        times = {hit.time for hit in memory.search("name", sources=["sessions"]).hits}
        assert "9999-12-31T00:00:00.000Z" in times


def test_a_fact_of_an_older_transcript_still_gives_way(tmp_path: Path, clock: FixedClock) -> None:
    with Memory.open(tmp_path / "data", clock=clock) as memory:
        memory.remember(
            session="s",
            chat_type="direct",
            sender_is_owner=True,
            messages=[{"role": "user", "content": "My name is Bea."}],
        )
        old = {"role": "user", "content": "My name is Ada.", "at": "2001-01-01T00:00:00Z"}
        receipt = memory.remember(session="s", messages=[old])
        assert receipt.superseded == receipt.facts


def test_early_years_are_written_with_four_digits() -> None:
    """What ``parse_time`` takes, ``iso`` and ``utc_day`` give back as ISO-8601."""
    at = parse_time("0042-01-02T03:04:05Z")
    assert at is not None
    assert (iso(at), utc_day(at)) == ("0042-01-02T03:04:05.000Z", "0042-01-02")
