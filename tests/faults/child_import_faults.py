"""Run by ``test_import_export_faults``: one import of an export while the disk fails, or the process is killed, at one
call; prints what came of it.

    child_import_faults.py DATA EXPORT AGENT KIND AT WHAT

``WHAT`` is ``fail`` or ``kill``; with ``AT`` 0 nothing happens and the number of calls is told.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

DISK = runpy.run_path(str(Path(__file__).with_name("faulty_vfs.py")))


class Deadly(DISK["Faults"]):  # type: ignore[misc]
    """Kills the process instead of failing the call."""

    def check(self, kind: str) -> None:
        if kind == self.kind:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def main(data: str, export: str, agent: str, kind: str, at: str, what: str) -> None:
    faults: Any = Deadly(kind) if what == "kill" else DISK["Faults"](kind)
    disk = DISK["FaultyDisk"](faults)
    memory = Memory.open(settings=Settings(data_dir=Path(data), agent=agent))
    faults.arm(int(at))
    try:
        outcome = memory.import_jsonl(export).status
    except errors.MemorySqliteError as error:
        outcome = error.code
    except apsw.Error as error:
        outcome = f"raw {type(error).__name__}"
    calls, reached = faults.disarm()
    memory.close()
    del disk
    print(json.dumps({"outcome": outcome, "calls": calls, "reached": reached}))


if __name__ == "__main__":
    main(*sys.argv[1:])
