"""Every way text goes to the disk of an encrypted memory, each with a marker of its own, on a disk that looks at it as
it is written: run by ``test_key_spills.py`` as a process of its own, with a place and a cipher; prints JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import apsw

BASE = Path(sys.argv[1])
DATA, WORKSPACE, OUT = BASE / "data", BASE / "workspace", BASE / "out"
SEEN: list[str] = []
"""Names of files that SQLite wrote a marker into, as the bytes came to the disk."""
TEMPORARY: list[str] = []
ELSEWHERE: set[str] = set()
"""Files outside the data directory and what the user named that Python opened for writing."""
MARK = "marker-whiskey-"


class File(apsw.VFSFile):
    def __init__(self, name: Any, flags: Any) -> None:
        self.named = str(name.filename() if isinstance(name, apsw.URIFilename) else name)
        if flags[0] & (apsw.SQLITE_OPEN_TEMP_DB | apsw.SQLITE_OPEN_TEMP_JOURNAL | apsw.SQLITE_OPEN_DELETEONCLOSE):
            TEMPORARY.append(self.named)
        super().__init__("unix", name, flags)

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError:
            raise apsw.BusyError from None

    def xWrite(self, data: bytes, offset: int) -> None:
        if MARK.encode() in bytes(data).lower():
            SEEN.append(Path(self.named).name)
        super().xWrite(data, offset)


class Disk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("looking", "unix")

    def xOpen(self, name: Any, flags: Any) -> File:
        return File(name, flags)


DISK = Disk()
apsw.Connection(":memory:", vfs="multipleciphers-looking").close()
apsw.set_default_vfs("multipleciphers-looking")


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        path = Path(arguments[0])
        if not path.is_relative_to(BASE) and str(path) != os.devnull and "__pycache__" not in path.parts:
            ELSEWHERE.add(str(path))


from memory_sqlite import Memory, rekeying  # noqa: E402
from memory_sqlite.clock import Clock  # noqa: E402
from memory_sqlite.config import Settings  # noqa: E402
from memory_sqlite.crypto import secret  # noqa: E402
from memory_sqlite.doctor import examination  # noqa: E402
from memory_sqlite.doctor.salvage import salvage  # noqa: E402
from memory_sqlite.paths import agent_directory  # noqa: E402
from memory_sqlite.storage import unlocking  # noqa: E402

os.environ["THE_KEY"] = "a key of at least thirty-two bytes for tests"
cipher: Any = sys.argv[2]
settings = Settings(
    data_dir=DATA, workspace=WORKSPACE, encryption_key_env="THE_KEY", encryption_cipher=cipher, extraction_interval=2
)
sys.addaudithook(audit)
found: dict[str, int] = {}


def ask(memory: Memory, *ways: str) -> None:
    for way in ways:
        found[way] = len(memory.search(MARK + way).hits)


with Memory.open(settings=Settings(data_dir=BASE / "control")) as memory:
    memory.remember(session="s", messages=[{"role": "user", "content": f"{MARK}control"}])
control = len(SEEN)  # in clear it is seen: what is not seen below is not there
SEEN.clear()
shutil.rmtree(BASE / "control")

(WORKSPACE / "memory").mkdir(parents=True)
(WORKSPACE / "memory" / "n.md").write_text(f"# Note\n\nThe {MARK}note lies here.\n")
(BASE / "t.jsonl").write_text(json.dumps({"role": "user", "content": f"The {MARK}import lies here."}) + "\n")
owner: dict[str, Any] = {"chat_type": "direct", "sender_is_owner": True}
with Memory.open(settings=settings) as memory:
    memory.remember(session="s", messages=[{"role": "user", "content": f"The {MARK}direct lies here."}], **owner)
    text = f"I prefer {MARK}fact over tea. Remember that {MARK}run is my code."
    memory.remember(session="s", run_id="r1", messages=[{"role": "user", "content": text}], **owner)
    memory.import_transcripts([BASE / "t.jsonl"], session="t")
    memory.remember_facts([{"content": f"The {MARK}stated is blue.", "name": "colour"}], session="f", **owner)
    memory.remember_facts([{"content": f"The {MARK}updated is red.", "name": "colour"}], session="f", **owner)
    many = [{"role": "user", "content": f"{MARK}many {number} " + "x" * 400} for number in range(300)]
    memory.remember(session="many", messages=many, **owner)
    memory.index()
    connection = memory._opened.store.connection
    connection.pragma("cache_size", 10)
    connection.execute("SELECT text FROM messages ORDER BY text, id DESC").fetchall()
    connection.execute("CREATE TEMP TABLE spilled AS SELECT text FROM messages ORDER BY text").fetchall()
    connection.execute("DROP TABLE temp.spilled").fetchall()
    memory.index(full=True)
    ask(memory, "note", "direct", "run", "fact", "import", "updated", "many")
    memory.backup(BASE / "backup")
    memory.prune()
    memory.doctor(deep=True)
    memory.forget(sessions=["t"])
    busy = sorted(path.name for path in DATA.rglob("*-wal") if path.stat().st_size)
rekeying.rotate(settings)
directory = agent_directory(DATA, "main")
key = unlocking.look(DATA, directory, secret.from_settings(settings)).file_key(
    (DATA / "session.key").read_bytes(), Clock(), write=False
)
salvage(directory, BASE / "salvaged", key)
index = next(directory.glob("index-*.sqlite"))
with index.open("r+b") as file:
    file.seek(8192)
    file.write(b"\7" * 4096)
examination(settings, Clock(), fix=True, deep=True)
with Memory.open(settings=settings) as memory:
    memory.index(full=True)
    ask(memory, "direct")
from memory_sqlite.backup.restoring import restore  # noqa: E402

restored = Settings(data_dir=BASE / "restored", encryption_key_env="THE_KEY")
restore(BASE / "backup", restored, Clock())
with Memory.open(settings=restored) as memory:
    found["restored"] = len(memory.search(MARK + "direct").hits)
with Memory.open(settings=Settings(data_dir=BASE / "salvaged", encryption_key_env="THE_KEY")) as memory:
    found["salvaged"] = len(memory.search(MARK + "direct").hits)
print(
    json.dumps(
        {"control": control, "seen": SEEN,
         "temporary": TEMPORARY, "elsewhere": sorted(ELSEWHERE), "found": found, "busy": busy,
         "left": [path.name for path in Path(os.environ["TMPDIR"]).iterdir()]}
    )
)  # fmt: skip
