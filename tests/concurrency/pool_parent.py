"""A host with a worker that works on something, which then dies in the way that the test chooses.

    pool_parent.py KIND BEGUN GATE [fork]

Prints the worker's process id once it works. With ``fork`` a child of the host keeps every pipe open.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from memory_sqlite.processes.command import Command, environment
from memory_sqlite.processes.pool import Pool


def main() -> None:
    kind, begun, gate, *rest = sys.argv[1:]
    script = str(Path(__file__).with_name("pool_worker.py"))
    pool = Pool("test", command=Command((sys.executable, "-P", script), environment(os.environ, sys.path)))
    pool.submit(kind, {"begun": begun, "gate": gate}, lambda body, blob: body)
    Path(begun).read_bytes()
    if rest:
        if (fork := os.fork()) == 0:
            signal.pause()
        print(f"fork {fork}", flush=True)
    print(f"worker {pool.describe()['pids'][0]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
