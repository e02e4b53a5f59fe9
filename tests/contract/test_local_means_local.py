"""Local means local: the whole main job with every way to the network refused and recorded; none is tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHILD = """
import json, sys

attempts = []
WATCHED = {
    "socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname",
    "socket.gethostbyaddr", "urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect",
}

def refuse(event, arguments):
    if event in WATCHED:
        attempts.append(event)
        raise ConnectionRefusedError(event)

sys.addaudithook(refuse)

try:
    import socket
    socket.getaddrinfo("localhost", 80)
except ConnectionRefusedError:
    assert attempts == ["socket.getaddrinfo"]  # the hook works
    attempts.clear()

from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.cli import main

place = Path(sys.argv[1])

def command(*arguments):
    sys.argv = ["memory-sqlite", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)

command("quickstart", "--data-dir", str(place / "quick"))
workspace = place / "workspace"
workspace.mkdir()
(workspace / "MEMORY.md").write_text("# Network\\n\\nThe router VLAN is 42, see https://example.org/vlan.\\n")
shared = ["--data-dir", str(place / "data"), "--workspace", str(workspace)]
command("remember", *shared, "--session", "s1", "--user", "I love oolong tea.", "--assistant", "Noted.")
command("index", *shared)
command("search", *shared, "router VLAN")
command("recall", *shared, "do I like oolong?")
command("status", *shared)
with Memory.open(place / "data", workspace=workspace) as memory:
    memory.remember(session="s2", messages=[{"role": "user", "content": "Look at https://example.org please."}])
    memory.index(full=True)
    assert memory.search("router VLAN").hits
    assert memory.get("MEMORY.md").status == "ok"
    assert memory.recall("which VLAN has the router?").text
    memory.status()
print("ATTEMPTS", json.dumps(attempts))
"""


def test_no_connection_is_ever_tried(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SQLITE_")}
    environment["HOME"] = str(tmp_path / "home")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "ATTEMPTS []"
