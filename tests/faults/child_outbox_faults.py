"""Run by ``test_outbox_faults``: each write, sync or truncate from a turn's admission to its acknowledgement and the
closing of both files fails in turn; prints what came of it.

    child_outbox_faults.py DATA LEDGER KIND POINTS

With ``own`` for LEDGER the engine is ours.
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

HERE = Path(__file__)
DISK = runpy.run_path(str(HERE.with_name("faulty_vfs.py")))
PARTS = runpy.run_path(str(HERE.with_name("ledger_engine.py")))


class Scene:
    """One turn after the other, each with an opening of its own, while the disk fails."""

    def __init__(self, data: Path, ledger: str, faults: Any) -> None:
        self.data, self.path, self.faults = data, ledger, faults
        self.number = 0

    def open(self) -> tuple[Memory, Any, Any]:
        memory = Memory.open(settings=Settings(data_dir=self.data))
        ledger = PARTS["open_ledger"](memory, self.path)
        scene = PARTS["Scene"](memory, ledger)
        scene.tell("s", 1, self.number)
        return memory, ledger, scene

    def one(self, at: int) -> tuple[list[object], int]:
        """A turn with call ``at`` failing; what its host was told, and what is there after a recovery."""
        self.number += 1
        key, accepted = f"s/{self.number}", []
        memory, ledger, scene = self.open()
        self.faults.arm(at)
        raised: list[str] = []
        try:
            asyncio.run(scene.turn(key, lambda: accepted.append(True)))
        except Exception as error:  # the user's turn never fails for this
            raised.append(type(error).__name__)
        state = (row := scene.outbox.row(key)) and row.state
        for closing in (memory.close, ledger.close):
            try:
                closing()
            except (errors.MemorySqliteError, apsw.Error):
                pass  # what a checkpoint at the end did not do, the next opening does
        calls, reached = self.faults.disarm()
        memory, ledger, scene = self.open()
        asyncio.run(scene.host.recover_all())
        left = scene.outbox.due() or scene.outbox.row(key)
        rows = [key for _, key, said in ledger.rows() if said == PARTS["texts"]("s", int(key[2:]))]
        memory.close()
        ledger.close()
        return [reached, raised, bool(accepted), state, bool(left), rows], calls


def main(data: str, ledger: str, kind: str, points: str) -> None:
    faults = DISK["Faults"](kind)
    disk = DISK["FaultyDisk"](faults)
    scene = Scene(Path(data), ledger, faults)
    scene.one(0)  # makes calls that no later one does
    unharmed, calls = scene.one(0)
    outcomes = [unharmed, *(scene.one(at)[0] for at in DISK["spread"](calls, int(points)))]
    print(json.dumps({"calls": calls, "outcomes": outcomes}))
    del disk


if __name__ == "__main__":
    main(*sys.argv[1:])
