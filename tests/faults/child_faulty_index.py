"""Run by ``test_faulty_index``: each write, sync or truncate of an operation fails in turn; prints what came of it.

    child_faulty_index.py DATA WORKSPACE OPERATION POINTS

Each kind of fault is tried at up to POINTS places, from the first to the last of the calls that the operation makes
when nothing fails. After each the memory is closed and opened again, and only then looked at.
"""

from __future__ import annotations

import hashlib
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.generations import files
from memory_sqlite.paths import agent_directory

DISK = runpy.run_path(str(Path(__file__).with_name("faulty_vfs.py")))
NOTES = 5


def turn(number: int) -> dict[str, Any]:
    return {
        "session": "s",
        "run_id": f"r{number}",
        "messages": [{"role": "user", "content": f"Please keep pebble{number} in mind."}],
    }


class Scene:
    """One memory over a workspace, and what it acknowledged."""

    def __init__(self, data: Path, workspace: Path, faults: Any) -> None:
        self.settings = Settings(data_dir=data, workspace=workspace)
        self.directory = agent_directory(data, "main")
        self.note = workspace / "memory" / "changing.md"
        self.faults = faults
        self.at = 0
        self.turns = 0
        self.notes = 0
        self.write_note()
        for number in range(NOTES):
            (workspace / "memory" / f"n{number}.md").write_text(f"# Note {number}\n\nmarble{number} in the hall\n")
        self.memory = self.open()
        self.memory.index()

    def open(self) -> Memory:
        return Memory.open(settings=self.settings)

    def close(self) -> None:
        try:
            self.memory.close()
        except apsw.Error:
            pass  # the fault came in the checkpoint at the end, where only a VFS in Python makes an error of it

    def write_note(self) -> None:
        self.notes += 1
        words = "\n".join(f"line {line} of granite{self.notes}" for line in range(60))
        self.note.write_text(f"# Changing\n\n{words}\n")

    def remember(self, memory: Memory) -> None:
        receipt = memory.remember(**turn(self.turns + 1))
        assert receipt.status == "stored"
        self.turns += 1

    def arm(self) -> None:
        self.faults.arm(self.at)

    def number(self) -> int:
        assert self.memory._opened is not None
        return self.memory._opened.keeper.number() or 0

    def filed(self) -> list[str]:
        assert self.memory._opened is not None
        with self.memory._opened.keeper.reader() as index:
            rows = index.execute("SELECT hash FROM documents WHERE kind = 'note' AND key = 'memory/changing.md'")
            return [str(row[0]) for row in rows]

    # --- operations: prepare, arm, do ------------------------------------------------------------------------------

    def replace(self) -> None:
        """A note has changed and is filed anew; closing then brings it into the main file."""
        self.write_note()
        self.remember(self.memory)
        self.arm()
        self.memory.index()
        self.close()

    def publish(self) -> None:
        """A rebuild's last steps: finish, verify, seal, apply what came meanwhile, flip, let the old one go."""

        def progress(stage: str, done: int, total: int | None) -> None:
            if stage == "finishing":
                with self.open() as other:
                    self.remember(other)
                self.arm()

        self.memory.index(full=True, progress=progress)

    def retire(self) -> None:
        """A generation that a reader held is taken away by the next open."""
        with self.open() as reader:
            reader.search("marble1")
            self.memory.index(full=True)
        self.memory.close()
        assert len(files.numbers(self.directory)) == 2
        self.arm()
        self.memory = self.open()


def attempt(operation: Callable[[], None]) -> str:
    try:
        operation()
    except errors.MemorySqliteError as error:
        return error.code
    except apsw.Error as error:
        return f"raw {type(error).__name__}"
    return "ok"


def one(scene: Scene, operation: str) -> dict[str, Any]:
    """One fault and what is there after the next open."""
    before, known = scene.number(), scene.filed()
    outcome = attempt(getattr(scene, operation))
    calls, reached = scene.faults.disarm()
    scene.close()
    scene.memory = scene.open()
    findings = [found.code for found in verify(scene.directory) if found.severity != "info"]
    wanted = hashlib.sha256(scene.note.read_bytes()).hexdigest()
    filed, after = scene.filed(), scene.number()
    memory = scene.memory
    found = [
        bool(memory.search(f"pebble{number}", sources=("sessions",), max_results=1).hits)
        for number in range(1, scene.turns + 1)
    ]
    # the search looked at the notes: what was not filed before is now
    noted = memory.search(f"granite{scene.notes}", sources=("memory",), max_results=1).hits
    memory.index()
    scene.close()
    scene.memory = scene.open()
    return {
        "outcome": outcome,
        "reached": reached,
        "calls": calls,
        "findings": findings,
        "end": [found.code for found in verify(scene.directory)],
        "filed": "new" if filed == [wanted] else "old" if filed == known else "wrong",
        "steps": after - before,
        "lost": found.count(False) + scene.turns - int(memory_turns(scene.memory)),
        "noted": any(f"granite{scene.notes}" in hit.excerpt for hit in noted),
        "generations": len(files.numbers(scene.directory)),
    }


def memory_turns(memory: Memory) -> int:
    return int(memory.status()["turns"])


def main(data: str, workspace: str, operation: str, points: str) -> None:
    faults = DISK["Faults"]("none")
    disk = DISK["FaultyDisk"](faults)
    scene = Scene(Path(data), Path(workspace), faults)
    outcomes = []
    for kind in DISK["KINDS"]:
        faults.kind = kind
        scene.at = 0
        unharmed = one(scene, operation)
        outcomes.append({"kind": kind, "at": 0, **unharmed})
        for scene.at in DISK["spread"](unharmed["calls"], int(points)):
            outcomes.append({"kind": kind, "at": scene.at, **one(scene, operation)})
    scene.close()
    del disk
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
