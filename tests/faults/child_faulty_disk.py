"""Run by ``test_faulty_disk``: each write, sync or truncate of an operation fails in turn; prints what came of it.

    child_faulty_disk.py DATA KIND OPERATION POINTS

One kind of fault is tried at up to POINTS places, from the first to the last of the calls that the operation makes when
nothing fails.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

DISK = runpy.run_path(str(Path(__file__).with_name("faulty_vfs.py")))


def turn(number: int) -> dict[str, object]:
    return {
        "session": "s",
        "run_id": f"r{number}",
        "messages": [
            {"role": "user", "content": f"I love pebble{number} very much."},
            {"role": "assistant", "content": f"Noted, pebble{number}."},
        ],
        "chat_type": "direct",
        "sender_is_owner": True,
    }


class Scene:
    """One memory that remembers one turn after the other while its disk fails."""

    def __init__(self, data_dir: str, operation: str, faults: Any) -> None:
        self.settings = Settings(data_dir=Path(data_dir))
        self.operation = operation
        self.faults = faults
        self.number = 0
        self.memory = Memory.open(settings=self.settings)

    def reopen(self) -> None:
        self.memory.close()
        self.memory = Memory.open(settings=self.settings)

    def attempt(self) -> str:
        """The operation; what came of it, in a word."""
        try:
            if self.operation == "rebuild":
                self.memory.index(full=True)
                return "ok"
            receipt = self.memory.remember(**turn(self.number))  # type: ignore[arg-type]
            if self.operation == "checkpoint":
                self.memory.close()
                return "ok"
            return receipt.status if receipt.searchable else "stored, not searchable"
        except errors.MemorySqliteError as error:
            return error.code
        except apsw.Error as error:
            return f"raw {type(error).__name__}"

    def one(self, at: int) -> tuple[list[object], int]:
        """The operation with its call ``at`` failing, and what is there afterwards; how many calls it made."""
        self.number += 1
        if self.operation == "checkpoint":
            self.reopen()
        self.faults.arm(at)
        outcome = self.attempt()
        calls, reached = self.faults.disarm()
        if self.operation == "checkpoint":
            self.reopen()
        again = self.memory.remember(**turn(self.number))  # type: ignore[arg-type]
        word = f"pebble{self.number}"
        found = self.memory.search(word, sources=("sessions",), max_results=2).hits
        counts = self.memory.status()
        told = sum(word in hit.excerpt for hit in found)
        return [reached, outcome, again.status, again.searchable, told, counts["turns"], counts["messages"]], calls


def main(data_dir: str, kind: str, operation: str, points: str) -> None:
    faults = DISK["Faults"](kind)
    disk = DISK["FaultyDisk"](faults)
    scene = Scene(data_dir, operation, faults)
    first, _ = scene.one(0)  # makes calls that no later one does
    unharmed, calls = scene.one(0)
    outcomes = [first, unharmed, *(scene.one(at)[0] for at in DISK["spread"](calls, int(points)))]
    scene.reopen()  # takes away what whoever closes last leaves to others
    lag = scene.memory.status()["index"]["lag"]
    scene.memory.close()
    del disk
    findings = [finding.code for finding in verify(agent_directory(Path(data_dir), "main"))]
    print(json.dumps({"calls": calls, "outcomes": outcomes, "lag": lag, "findings": findings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
