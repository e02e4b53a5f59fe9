"""Time, ids and randomness: the only places where they come from, so that tests can hold them still."""

from __future__ import annotations

import os
import re
import threading
import time
from datetime import UTC, datetime

from memory_sqlite.values import dataclass


class Clock:
    """The system's clock. Tests pass their own subclass."""

    zone: str = "local"
    """Where "yesterday" is meant: ``local`` (this machine's zone), ``UTC``, an offset (``+02:00``) or an IANA name."""

    def __init__(self, zone: str | None = None) -> None:
        """A clock in another zone than this machine's. An unknown one is refused by the first search."""
        if zone is not None:
            self.zone = zone

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; only differences mean anything."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set, at most so long; whether it is set."""
        return event.wait(seconds)

    def token_bytes(self, count: int) -> bytes:
        """``count`` random bytes from the system."""
        return os.urandom(count)

    def record_id(self) -> str:
        """``<ms>_<12 lower hex>``: the record id of the layered-memory product (6 random bytes)."""
        return f"{self.now_ms()}_{self.token_bytes(6).hex()}"


@dataclass
class FixedClock(Clock):
    """A clock for tests: stands still until told to move; randomness stays random."""

    ms: int = 1_784_104_200_120
    zone: str = "UTC"

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000.0

    def advance(self, ms: int) -> None:
        """Move forward by ``ms`` milliseconds."""
        self.ms += ms


def iso(ms: int) -> str:
    """ISO-8601 UTC with milliseconds and ``Z``, e.g. ``2026-07-15T08:30:00.120Z``."""
    seconds, rest = divmod(ms, 1000)
    # not strftime: its %Y has no leading zeros on Linux
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat(timespec='seconds')[:19]}.{rest:03d}Z"


def utc_day(ms: int) -> str:
    """``YYYY-MM-DD`` of the UTC day that holds ``ms``."""
    return datetime.fromtimestamp(ms // 1000, UTC).date().isoformat()


_MIN_MS = -62_135_596_800_000
_MAX_MS = 253_402_300_799_999
_BASIC = re.compile(r"^\d{4}-\d{2}-\d{2}")


def parse_time(value: object) -> int | None:
    """Milliseconds from ISO-8601 text (naive means UTC) or an epoch number in seconds, milliseconds or microseconds.

    Numbers below 10**11 are seconds (until the year 5138), below 10**14 milliseconds, else microseconds. Returns
    ``None`` for anything that is not a time between the years 1 and 9999.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            number = float(value)
            magnitude = abs(number)
            if magnitude < 1e11:
                number *= 1000
            elif magnitude >= 1e14:
                number /= 1000
            ms = int(number)
        except (OverflowError, ValueError):
            return None
        return ms if _MIN_MS <= ms <= _MAX_MS else None
    if isinstance(value, str):
        text = value.strip()
        if not _BASIC.match(text):
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        try:
            return round(moment.timestamp() * 1000) if moment.year > 1 else None
        except (OverflowError, ValueError):
            return None
    return None
