"""Several processes deliver from one turn outbox: nothing twice but a ``duplicate``, nothing lost, order kept."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings

PARTS_PATH = Path(__file__).parents[1] / "faults" / "ledger_engine.py"
PARTS: Any = SimpleNamespace(**runpy.run_path(str(PARTS_PATH)))
TURNS = 5
SESSIONS = ("ann", "bob")

DRAIN = """
import asyncio, runpy
from memory_sqlite.host.engines import drain
from memory_sqlite.host.engines.outbox import TurnOutbox

parts = runpy.run_path(sys.argv[3])
Ledger, stop, times = parts["Ledger"], sys.argv[4], int(sys.argv[5])
place = {"row": (TurnOutbox, "row"), "read": (drain, "read_turn"), "make_ready": (TurnOutbox, "make_ready"),
         "commit": (Ledger, "commit"), "acknowledge": (TurnOutbox, "acknowledge")}.get(stop)

with Memory.open(settings=settings()) as memory:
    ledger = Ledger(Path(sys.argv[2]))
    scene = parts["Scene"](memory, ledger)
    for session in ("ann", "bob"):
        scene.tell(session, 1, 5)
    if place is not None:
        stop_before(*place, times)
    else:
        barrier()
    total = {"committed": [], "duplicate": [], "failed": [], "blocked": [], "gone": []}

    async def main():
        while True:
            report = await scene.host.drain()
            for name in total:
                total[name] += getattr(report, name)
            if not report.advanced:
                return

    asyncio.run(main())
    print(json.dumps(total), flush=True)
"""


def prepare(data: Path, ledger: Path) -> None:
    """Five accepted turns in each of two sessions, in turn."""
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        scene = PARTS.Scene(memory, PARTS.Ledger(ledger))
        for session in SESSIONS:
            scene.tell(session, 1, TURNS)
        for number in range(1, TURNS + 1):
            for session in SESSIONS:
                scene.enqueue(f"{session}/{number}")


def check(data: Path, ledger: Path) -> None:
    """Everything is in the ledger once, whole and in its session's order, and nothing waits any more."""
    rows = PARTS.Ledger(ledger).rows()
    for session in SESSIONS:
        mine = [(key, said) for name, key, said in rows if name == session]
        assert mine == [(f"{session}/{number}", PARTS.texts(session, number)) for number in range(1, TURNS + 1)]
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        outbox = memory.turn_outbox()
        assert not any(outbox.is_pending(session) for session in SESSIONS) and outbox.due() == []


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("stop", ["row", "read", "make_ready", "commit", "acknowledge"])
@pytest.mark.parametrize("end", ["goes on", "is killed"])
def test_one_drains_while_another_stands_still(
    tmp_path: Path, start: Callable[..., Any], stop: str, times: int, end: str
) -> None:
    """Wherever the first one stands, the second delivers everything; the first finds its own done, or is gone."""
    data, ledger = tmp_path / "data", tmp_path / "ledger.sqlite"
    prepare(data, ledger)
    first = start(DRAIN, data, ledger, PARTS_PATH, stop, times)
    first.wait_ready()
    second = start(DRAIN, data, ledger, PARTS_PATH, "nowhere", 1)
    second.wait_ready()
    second.go()
    told = second.result()
    assert told["failed"] == told["blocked"] == []
    if stop == "acknowledge":
        assert len(told["duplicate"]) == 1, "what the first had committed and not acknowledged"
    check(data, ledger)
    if end == "is killed":
        first.process.kill()
        first.process.communicate()
    else:
        first.go()
        told = first.result()
        assert told["failed"] == told["blocked"] == []
        assert len(told["duplicate"]) <= 1
    check(data, ledger)


def test_two_drain_at_once(tmp_path: Path, start: Callable[..., Any]) -> None:
    """Both begin together and nobody stands still: together they have committed each turn once."""
    data, ledger = tmp_path / "data", tmp_path / "ledger.sqlite"
    prepare(data, ledger)
    both = [start(DRAIN, data, ledger, PARTS_PATH, "nowhere", 1) for _ in range(2)]
    for child in both:
        child.wait_ready()
    for child in both:
        child.go()
    told = [child.result() for child in both]
    done = sorted(key for one in told for key in one["committed"])
    assert done == sorted(f"{session}/{number}" for session in SESSIONS for number in range(1, TURNS + 1)), json.dumps(
        told
    )
    assert all(one["failed"] == one["blocked"] == [] for one in told)
    check(data, ledger)
