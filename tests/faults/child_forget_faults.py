"""Run by ``test_forget_faults``: each write, sync or truncate of a forgetting fails in turn; prints what came of it.

    child_forget_faults.py DATA KIND POINTS

One kind of fault is tried at up to POINTS places, from the first to the last of the calls that a forgetting makes when
nothing fails. After each the memory is opened again, which goes on with what was begun, and the same forgetting is
asked for once more.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

DISK = runpy.run_path(str(Path(__file__).with_name("faulty_vfs.py")))
_TURNS = 4


def fill(memory: Memory, number: int) -> None:
    for turn in range(_TURNS):
        text = f"I love pebble{number}stone number {turn}."
        memory.remember(
            session=f"s{number}",
            chat_type="direct",
            sender_is_owner=True,
            messages=[{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted: {text}"}],
        )


def attempt(memory: Memory, number: int) -> str:
    try:
        return memory.forget(sessions=[f"s{number}"]).status
    except errors.MemorySqliteError as error:
        return error.code
    except apsw.Error as error:
        return f"raw {type(error).__name__}"


def told(memory: Memory, number: int) -> int:
    """How many messages of that session can be found and read."""
    hits = memory.search(f"pebble{number}stone", max_results=50, sources=("sessions",)).hits
    return sum(f"pebble{number}stone" in hit.excerpt for hit in hits)


def main(data_dir: str, kind: str, points: str) -> None:
    faults = DISK["Faults"](kind)
    disk = DISK["FaultyDisk"](faults)
    settings = Settings(data_dir=Path(data_dir))
    memory = Memory.open(settings=settings)
    fill(memory, 0)  # stays

    def one(number: int, at: int) -> tuple[list[object], int]:
        """One forgetting whose call ``at`` fails: what came of it, and how many calls it made."""
        nonlocal memory
        fill(memory, number)
        faults.arm(at)
        outcome = attempt(memory, number)
        calls, reached = faults.disarm()
        try:
            memory.close()
        except apsw.Error as error:
            outcome += f" (close: {type(error).__name__})"
        memory = Memory.open(settings=settings)
        after = told(memory, number)
        again = attempt(memory, number)
        return [reached, outcome, after, again, told(memory, number), told(memory, 0)], calls

    unharmed, calls = one(1, 0)
    places = DISK["spread"](calls, int(points))
    outcomes = [one(number, at)[0] for number, at in enumerate(places, 2)]
    memory.close()
    findings = [finding.code for finding in verify(agent_directory(Path(data_dir), "main"))]
    del disk
    print(json.dumps({"unharmed": unharmed, "calls": calls, "outcomes": outcomes, "findings": findings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
