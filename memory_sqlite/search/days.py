"""Days: which day a moment is where the caller is.

Lives here: zones by name and the day that holds a time. Not here: what words mean which days (``dates``). A zone is
``UTC``, ``local`` (the zone of this machine, with its summer time), an offset (``+02:00``) or a name of the IANA
database (``Europe/Berlin``); only the last needs ``zoneinfo``, which is loaded then (5 to 8 ms). Called by ``dates``,
``rank`` and the door.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final

from memory_sqlite.errors import InvalidArgument

_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.I)
_EARLIEST_S: Final = -62_135_596_800 + 86_400
_LATEST_S: Final = 253_402_300_799 - 86_400
"""A day inside what a date can hold (the years 1 to 9999), so that no zone leads out of it."""


@cache
def zone_of(name: str) -> tzinfo | None:
    """The zone of that name; ``None`` for the machine's own. Raises ``InvalidArgument``, without the name."""
    if name == "local":
        return None
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    match = _OFFSET.fullmatch(name)
    if match is not None:
        ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if ahead <= timedelta(hours=14):
            return timezone(-ahead if match[1] == "-" else ahead)
    else:
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise InvalidArgument("the time zone is not UTC, local, an offset like +02:00 or an IANA name this machine knows")


def day_of(at_ms: int, zone: str = "UTC") -> date:
    """The day that holds a time in milliseconds, in that zone."""
    seconds = min(max(at_ms // 1000, _EARLIEST_S), _LATEST_S)
    return datetime.fromtimestamp(seconds, zone_of(zone)).date()
