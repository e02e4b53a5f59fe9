"""The words that conformance kits of hosts and engines are written with, and what an engine's author implements.

Lives here: ``Broken``, findings and reports, ``EngineUnderTest``, numbered turns, a host's transcript that answers as
it is told. Used by ``conformance`` and by ``host.conformance``. Not here: checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from memory_sqlite.context.shapes import (
    DeltaEntry,
    DeltaMissing,
    DeltaPage,
    DeltaResult,
    TurnAdmission,
    TurnAnchor,
)

KEY, SESSION_ID = "agent:main:main", "10000000-0000-4000-8000-000000000001"
PATIENCE_S = 60.0
"""How long a check waits for an engine that hangs before it says so; one that does not hang is never waited for."""
READS_MAX: Final = 100
"""How often a transcript is read in one test of an engine before it is said to be read without end."""


class Broken(AssertionError):
    """A rule is broken; the message says which and how."""


@dataclass(frozen=True)
class Finding:
    """A check that is not passed, and why."""

    check: str
    why: str


@dataclass(frozen=True)
class Report:
    """What a run of a kit found. ``not_run``: checks of features that the subject does not have, by name."""

    findings: tuple[Finding, ...]
    ran: tuple[str, ...]
    not_run: tuple[str, ...] = ()


class EngineUnderTest(Protocol):
    """An engine's package over a store of its own, which is empty.

    ``features``: ``following`` when the engine reads a host's transcript on, ``delegation`` when its ``compact`` hands
    on to the host's compaction.
    """

    features: frozenset[str]

    def engine(self, *, read_delta: Any = None, compaction: Any = None) -> Any:
        """A new engine over the store. ``read_delta`` is the host's transcript for engines that follow it: async,
        called with ``session_key``, ``session_id``, ``cursor`` and bounds. ``compaction`` is the host's."""

    def remembered(self, session_key: str, session_id: str) -> Sequence[str]:
        """The texts that the store holds of a session, oldest first."""


MakeEngine = Callable[[], AbstractContextManager[EngineUnderTest]]
Check = Callable[[MakeEngine], None]


def must(held: bool, why: str) -> None:
    """Raise ``Broken`` unless it holds."""
    if not held:
        raise Broken(why)


def found_by(check: Callable[[Any], None], make: Any) -> Finding | None:
    """Run one check of any kit; what it found, ``None`` when it is passed."""
    try:
        check(make)
    except Broken as broken:
        return Finding(check.__name__, str(broken))
    except Exception as error:  # what the subject raises may hold anything; its kind is enough
        return Finding(check.__name__, f"unexpected {type(error).__name__}")
    return None


def in_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a check's body in a loop of its own."""
    asyncio.run(work())


def anchor(number: int, place: int) -> TurnAnchor:
    """Where the user's message (``place`` 0) or the answer (1) of a numbered turn stands."""
    seq = 2 * number - 1 + place
    return TurnAnchor("main", SESSION_ID, KEY, "conformance", "1", f"{'ua'[place]}{number}", seq, None, seq)


def texts(*numbers: int) -> list[str]:
    """What is said in numbered turns."""
    return [text for number in numbers for text in (f"The pebble {number} is grey.", f"Noted, pebble {number}.")]


def said(*numbers: int) -> list[dict[str, Any]]:
    """Numbered turns as messages."""
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts(*numbers))]


def turn(number: int = 1, **changes: Any) -> dict[str, Any]:
    """What ``commit_turn`` is given for one accepted turn."""
    key = f"turn-{number}"
    given = {
        "advancement_key": key,
        "admission": TurnAdmission(anchor(number, 0), key),
        "terminal": anchor(number, 1),
        "messages": said(number),
        "session_id": SESSION_ID,
        "session_key": KEY,
    }
    return {**given, **changes}


class HostTranscript:
    """A host's transcript of numbered turns, read three entries at a time, that answers as ``answers`` say first."""

    def __init__(self, *numbers: int) -> None:
        self.answers: list[DeltaResult | None] = []
        self.asked: list[str | None] = []
        self.entries: list[DeltaEntry] = []
        self.holds(*numbers)

    def holds(self, *numbers: int) -> None:
        """From now on it holds these turns."""
        self.entries = [
            DeltaEntry(f"{'ua'[place % 2]}{numbers[place // 2]}", None, place + 1, message, message["role"])
            for place, message in enumerate(said(*numbers))
        ]

    async def read(self, *, cursor: str | None = None, **bounds: Any) -> DeltaResult:
        """As section 4.6 has it. An engine that asks without end is told that there is nothing."""
        self.asked.append(cursor)
        if len(self.asked) > READS_MAX:
            return DeltaMissing()
        if self.answers and (answer := self.answers.pop(0)) is not None:
            return answer
        start = int(cursor or 0)
        taken = tuple(self.entries[start : start + 3])
        end = start + len(taken)
        return DeltaPage(str(end), taken, end < len(self.entries), 1)
