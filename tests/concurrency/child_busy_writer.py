"""A host that writes, rebuilds and forgets without a pause until its standard input ends: for the doctor's tests.

Says ``ready`` after the first round, so that whoever waits knows that it is in the middle of it.
"""

from __future__ import annotations

import sys
import threading
from itertools import count
from pathlib import Path

from memory_sqlite import Memory


def main(data: str, workspace: str) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with Memory.open(data, workspace=workspace) as memory:
        for number in count():
            session = f"s{number % 4}"
            said = [{"role": "user", "content": f"I love granite tea, cup {number}."}]
            memory.remember(session=session, chat_type="direct", sender_is_owner=True, messages=said)
            if number % 5 == 1:
                (Path(workspace) / "memory" / f"n{number % 7}.md").write_text(f"Note {number}.\n")
                memory.index(full=True)
            if number % 7 == 6:
                memory.forget(sessions=[session])
            if number == 8:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
            if number >= 8 and ended.is_set():
                return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
