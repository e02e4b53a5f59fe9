"""Run by ``test_commit_faults``: each write, sync or truncate of a commit fails in turn; prints what came of it.

    child_commit_faults.py DATA KIND OPERATION POINTS

``commit`` commits a turn, ``checkpoint`` commits one and closes. After each fault it says whether key and turn are
there, and what the same call answers when the disk works again.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.context.shapes import TurnAdmission, TurnAnchor
from memory_sqlite.doctor import verify
from memory_sqlite.model import SessionInfo
from memory_sqlite.paths import agent_directory

DISK = runpy.run_path(str(Path(__file__).with_name("faulty_vfs.py")))
KEY, ID = "agent:main:main", "10000000-0000-4000-8000-000000000001"
THERE = """
SELECT (SELECT count(*) FROM accepted_advancements), (SELECT count(turn_id) FROM accepted_advancements),
  (SELECT count(*) FROM turns), (SELECT count(*) FROM messages),
  (SELECT count(*) FROM records WHERE layer = 'L1'), (SELECT count(*) FROM records WHERE layer = 'L3')
"""


def turn(number: int) -> dict[str, Any]:
    key = f"turn-{number}"
    first, last = (
        TurnAnchor("main", ID, KEY, "host", "g", f"{side}{number}", 2 * number + place, None, 2 * number + place)
        for place, side in enumerate("ua")
    )
    return {
        "advancement_key": key,
        "admission": TurnAdmission(first, key),
        "terminal": last,
        "messages": [
            {"role": "user", "content": f"I love pebble{number} very much."},
            {"role": "assistant", "content": f"Noted, pebble{number}."},
        ],
        "session_id": ID,
    }


class Scene:
    """One memory that turns are committed to while its disk fails."""

    def __init__(self, data_dir: str, operation: str, faults: Any) -> None:
        self.settings = Settings(data_dir=Path(data_dir))
        self.operation = operation
        self.faults = faults
        self.number = 0
        self.memory = Memory.open(settings=self.settings)

    def reopen(self) -> None:
        self.memory.close()
        self.memory = Memory.open(settings=self.settings)

    def commit(self) -> str:
        engine = self.memory.context_engine(describe=lambda key, id: SessionInfo("", "direct", "interactive", True))
        return asyncio.run(engine.commit_turn(**turn(self.number))).status

    def attempt(self) -> str:
        try:
            status = self.commit()
            if self.operation == "checkpoint":
                self.memory.close()
            return status
        except errors.MemorySqliteError as error:
            return error.code
        except apsw.Error as error:
            return f"raw {type(error).__name__}"

    def there(self) -> list[int]:
        rooms = self.memory.rooms()
        assert rooms is not None
        with rooms.opened.store.readers.borrow() as connection:
            return list(connection.execute(THERE).fetchall()[0])  # type: ignore[arg-type]

    def one(self, at: int) -> tuple[list[object], int]:
        """The operation with its call ``at`` failing, and what is there afterwards; how many calls it made."""
        self.number += 1
        self.reopen()
        self.faults.arm(at)
        outcome = self.attempt()
        calls, reached = self.faults.disarm()
        self.reopen()
        before = self.there()
        again = self.commit()
        word = f"pebble{self.number}"
        hits = self.memory.search(word, sources=("sessions",), max_results=2).hits
        return [reached, outcome, before, again, self.there(), sum(word in hit.excerpt for hit in hits)], calls


def main(data_dir: str, kind: str, operation: str, points: str) -> None:
    faults = DISK["Faults"](kind)
    disk = DISK["FaultyDisk"](faults)
    scene = Scene(data_dir, operation, faults)
    first, _ = scene.one(0)  # makes calls that no later one does
    unharmed, calls = scene.one(0)
    outcomes = [first, unharmed, *(scene.one(at)[0] for at in DISK["spread"](calls, int(points)))]
    scene.memory.close()
    del disk
    findings = [finding.code for finding in verify(agent_directory(Path(data_dir), "main"))]
    print(json.dumps({"calls": calls, "outcomes": outcomes, "findings": findings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
