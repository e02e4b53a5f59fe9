"""``kill -9`` while a transcript is imported: what is there is whole, and importing again adds exactly the rest."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw

from memory_sqlite import Memory
from memory_sqlite.clock import iso
from memory_sqlite.config import Settings

TURNS = 600
CHILD = """
import sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
import memory_sqlite.interop.transcripts

with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:
    print("started", flush=True)
    memory.import_transcripts([sys.argv[2]], session="s", chat_type="direct", sender_is_owner=True)
print("done", flush=True)
"""

HALF_TURNS = """
SELECT count(*) FROM turns t
WHERE (SELECT count(*) FROM messages m WHERE m.turn_id = t.id) <> 2
   OR (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L1') <> 1
   OR (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L2') <> (t.ordinal % 5 = 0)
"""


def transcript(path: Path) -> Path:
    """Turns without ids, many with the same words: only place and time tell them apart."""
    lines = []
    for number in range(TURNS):
        at = 1_784_104_200_000 + number * 60_000
        said = "go on" if number % 3 else f"The granite stone {number} lies there."
        lines.append({"role": "user", "content": said, "timestamp": iso(at)})
        lines.append({"role": "assistant", "content": f"Answer {number}", "timestamp": iso(at + 1000)})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_killed_import_is_completed_by_the_next(tmp_path: Path) -> None:
    """After each of six kills no turn is partly there; the import that is let through ends with each turn once, in
    order, searchable; one more adds nothing."""
    rng = random.Random(7)
    path = transcript(tmp_path / "s.jsonl")
    data = tmp_path / "data"
    seen = []
    for _ in range(6):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(data), str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        time.sleep(rng.uniform(0.02, 0.3))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with Memory.open(settings=Settings(data_dir=data)) as memory:
            store = memory.status()["store"]
            connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
            assert connection.execute(HALF_TURNS).get == 0
            seen.append(connection.execute("SELECT count(*) FROM turns").get)
            connection.close()
    assert seen == sorted(seen)
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        known = memory.status()["turns"]
        report = memory.import_transcripts([path], session="s", chat_type="direct", sender_is_owner=True)
        if not report.unchanged:  # else the last child was killed after its last commit
            assert (report.turns_known, report.turns_stored) == (known, TURNS - known)
        path.touch()
        again = memory.import_transcripts([path], session="s")
        assert (again.turns_stored, again.messages, again.turns_known) == (0, 0, TURNS)
        status = memory.status()
        assert (status["turns"], status["messages"], status["index"]["lag"]) == (TURNS, 2 * TURNS, 0)
        last = TURNS - TURNS % 3 - 3
        assert (
            f"stone {last} "
            in memory.search(f"granite stone {last}", sources=("sessions",), max_results=1).hits[0].excerpt
        )
        connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
        answers = connection.execute("SELECT text FROM messages WHERE role = 'assistant' ORDER BY position").fetchall()
        connection.close()
        assert answers == [(f"Answer {number}",) for number in range(TURNS)]
