"""A store to be damaged, what is on each of its pages by SQLite's own account, and what a salvaged one holds."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import apsw

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.storage import connection as connections

PAGE = 4096
Row = tuple[object, ...]
Rows = dict[str, set[Row]]

DERIVED = {"generations"}


def make(data_dir: Path, turns: int = 90) -> Path:
    """An agent's directory with long and short rows; several pages of everything that grows. Its store is closed."""
    chosen = random.Random(7)
    with Memory.open(settings=Settings(data_dir=data_dir)) as memory:
        for number in range(turns):
            words = f"long text {number} " * (chosen.randrange(300, 900) if number % 17 == 0 else chosen.randrange(60))
            memory.remember(
                session=f"session {number % 12}",
                run_id=f"run {number}",
                messages=[
                    {"role": "user", "content": f"I like tea number {number}. {words}", "id": f"m{number}"},
                    {"role": "assistant", "content": f"Noted {number}."},
                ],
            )
        memory.forget(sessions=["session 11"])
    return next((data_dir / "agents").iterdir())


def encrypt(store: Path, key: FileKey) -> None:
    """Put an encrypted copy in the store's place."""
    beside = store.with_name("encrypted")
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    legacy = "&legacy=4" if key.cipher == "sqlcipher" else ""  # as the package writes it
    uri = f"{beside.absolute().as_uri()}?cipher={key.cipher}{legacy}&key=raw:{key.raw.hex()}"
    connection.execute("VACUUM INTO ?", (uri,)).fetchall()
    connection.close()
    for end in ("", "-wal", "-shm"):
        store.with_name(store.name + end).unlink(missing_ok=True)
    beside.rename(store)


def tables(connection: apsw.Connection) -> list[tuple[str, bool]]:
    sql = "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'"
    return [(str(name), bool(wr)) for name, wr in connection.execute(sql) if name not in DERIVED]


def rows(store: Path, key: FileKey | None = None) -> Rows:
    """Everything in the store but what is derived. It must be whole."""
    connection = connections.open_store_reader(store, key)
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return {name: set(connection.execute(f"SELECT * FROM {name}").fetchall()) for name, _ in tables(connection)}
    finally:
        connection.close()


def pages_of_rows(store: Path, key: FileKey | None = None) -> dict[tuple[str, Row], set[int]]:
    """The pages that each row of a table with row numbers lies on, its overflow pages too: by SQLite's ``dbstat``,
    which says how many rows each leaf holds, in the tree's order. Nothing of the salvage is used for it."""
    connection = connections.open_store_reader(store, key)
    found: dict[tuple[str, Row], set[int]] = {}
    leaves_of = "SELECT path, pageno, ncell FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
    overflows_of = "SELECT path, pageno FROM dbstat WHERE name = ? AND pagetype = 'overflow'"
    try:
        for name, without_rowid in tables(connection):
            if without_rowid:
                continue
            ordered = connection.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall()
            overflows = connection.execute(overflows_of, (name,)).fetchall()
            at = 0
            for path, page, cells in connection.execute(leaves_of, (name,)).fetchall():
                further: dict[int, set[int]] = {}
                for place, number in overflows:
                    rest = str(place)[len(str(path)) :]
                    if str(place).startswith(str(path)) and "/" not in rest:
                        further.setdefault(int(rest.split("+")[0], 16), set()).add(number)
                for cell in range(cells):
                    found[name, ordered[at + cell]] = {page} | further.get(cell, set())
                at += cells
            assert at == len(ordered)
        return found
    finally:
        connection.close()


def place(agent: Path, content: bytes, into: Path) -> Path:
    """A data directory with this content as its store; the agent's directory in it."""
    shutil.rmtree(into, ignore_errors=True)
    directory = into / "agents" / agent.name
    directory.mkdir(parents=True)
    shutil.copy(agent.parents[1] / "session.key", into / "session.key")
    (directory / "memory.sqlite").write_bytes(content)
    return directory


def flipped(content: bytes, chosen: random.Random) -> tuple[bytes, int]:
    """One bit of one byte, and the page it is on."""
    changed = bytearray(content)
    at = chosen.randrange(len(changed))
    changed[at] ^= 1 << chosen.randrange(8)
    return bytes(changed), at // PAGE + 1
