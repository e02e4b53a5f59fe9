"""An encrypted memory writes no readable text to the disk, whichever way the text came and whatever is done with it.

Cases C082 (every path of writing), C088 (sorting, rebuilding, pruning, doctor), C090 (a key that fails at times)."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.paths import agent_directory
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import headers

CHILD = Path(__file__).with_name("child_key_spills.py")
SCAN = """
import sys
from pathlib import Path
for path in Path(sys.argv[1]).rglob("*"):
    if path.is_file() and b"marker-whiskey-" in path.read_bytes().lower():
        print(path.relative_to(sys.argv[1]).parts[0])
"""
WRITERS = {
    "open_store", "create_copy", "open_index", "create_index", "reopen_index", "open_index_probe", "open_salvaged",
    "open_blank", "open_alone", "open_copied",
}  # fmt: skip
"""Every way a database file is opened for writing; the paths of the child go through all of them."""
OWN = {"workspace", "t.jsonl"}


@pytest.mark.parametrize("cipher", ["aegis", "sqlcipher"])
def test_case_C082_case_C088_no_write_holds_a_word(tmp_path: Path, cipher: str) -> None:
    """Each way its own marker: none is in any write as it comes to the disk, nor in any file afterwards, nor in the
    directory of temporary files; and each is found by searching."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path / "place"), cipher],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary), "SQLITE_TMPDIR": str(temporary)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert answer["control"] > 0
    assert answer["seen"] == []
    assert answer["temporary"] == []
    assert answer["elsewhere"] == []
    assert answer["left"] == []
    assert all(answer["found"].values()), answer["found"]
    assert "memory.sqlite-wal" in answer["busy"]
    assert "marker-whiskey" not in done.stderr
    scan = subprocess.run(
        [sys.executable, "-c", SCAN, str(tmp_path / "place")], capture_output=True, text=True, check=True
    )
    assert set(scan.stdout.split()) == OWN


def test_case_C082_every_way_of_writing_takes_a_key() -> None:
    """A new opener makes this fail until it is added above, and to what the child does."""
    found = {}
    for name, function in inspect.getmembers(connections, inspect.isfunction):
        source = inspect.getsource(function)
        if not name.startswith("_") and re.search(
            "SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|open_index_probe\\(", source
        ):
            found[name] = inspect.signature(function).parameters
    assert set(found) == WRITERS
    for name, parameters in found.items():
        assert "key" in parameters, name
    body = inspect.getsource(connections)
    assert body.count("apsw.Connection(") == 3, "one that is handed a key, and two in memory"


def test_case_C090_a_key_that_fails_stores_nothing(tmp_path: Path) -> None:
    """The third of five calls of the key's command fails: that turn is not stored, in clear or otherwise; the others
    are intact."""
    counter = tmp_path / "count"
    script = tmp_path / "key.py"
    script.write_text(
        f"import pathlib, sys\np = pathlib.Path({str(counter)!r})\nn = len(p.read_text()) if p.exists() else 0\n"
        "p.write_text('x' * (n + 1))\nsys.exit(1) if n == 2 else print('k' * 40)\n"
    )
    settings = Settings(data_dir=tmp_path / "data", encryption_key_command=f"{sys.executable} -I -S {script}")
    outcomes, words = [], ["granite", "basalt", "slate", "marble", "gneiss"]
    for word in words:
        try:
            with Memory.open(settings=settings) as memory:
                turn = [{"role": "user", "content": f"{word} is here"}]
                outcomes.append(memory.remember(session="s", messages=turn).status)
        except errors.InvalidConfiguration as error:
            outcomes.append(error.code)
    assert outcomes == ["stored", "stored", "invalid_configuration", "stored", "stored"]
    with Memory.open(settings=settings, read_only=True) as memory:
        assert [word in str(memory.search(word).hits) for word in words] == [True, True, False, True, True]
        assert memory.status()["messages"] == 4
    assert headers.kind(agent_directory(tmp_path / "data", "main") / "memory.sqlite") == "encrypted"


def test_opener_of_a_wrong_kind_is_refused(tmp_path: Path) -> None:
    """What is no file of that key is never written to: an empty key is no key."""
    path = tmp_path / "memory.sqlite"
    connections.create_copy(path, FileKey("aegis", b"1" * 32, "a")).close()
    connection = connections.open_copied(path, FileKey("aegis", b"1" * 32, "a"))
    connection.execute("CREATE TABLE t (x)").fetchall()
    connection.close()
    before = path.stat().st_mtime_ns
    with pytest.raises(errors.StoreDamaged):
        connections.open_copied(path, FileKey("aegis", b"2" * 32, "a"))
    with pytest.raises(errors.StoreDamaged):
        connections.open_alone(path, None)
    assert path.stat().st_mtime_ns == before
