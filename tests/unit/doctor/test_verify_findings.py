"""Each finding of ``verify`` is made by the fault it stands for, tells no text, and is gone when the fault is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.doctor import Finding, verify
from memory_sqlite.generations import files
from memory_sqlite.paths import agent_directory
from memory_sqlite.storage import tombstones


@pytest.fixture
def directory(tmp_path: Path, workspace: Path) -> Path:
    """The directory of an agent that remembers two sessions and a note, and has forgotten a third."""
    (workspace / "memory" / "a.md").write_text("The granite key is under the mat.\n")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as memory:
        for session in ("a", "b", "c"):
            said = [{"role": "user", "content": f"I love granite tea in {session}."}]
            memory.remember(session=session, chat_type="direct", sender_is_owner=True, messages=said)
        memory.index()
        memory.forget(sessions=["c"])
    return agent_directory(tmp_path / "data", "main")


@pytest.fixture
def store(directory: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(directory / "memory.sqlite"))
    yield connection
    connection.close()


@pytest.fixture
def index(directory: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(directory / "index-000001.sqlite"))
    yield connection
    connection.close()


def codes(directory: Path) -> list[str]:
    found = verify(directory)
    assert all(isinstance(one, Finding) and one.run for one in found)
    assert not any("granite" in str(one) or "tea" in str(one) for one in found)
    return [one.code for one in found]


def test_a_sound_directory_has_no_finding(directory: Path) -> None:
    """Also one with tombstones, and looking at it twice changes nothing."""
    assert codes(directory) == codes(directory) == []


STORE_FAULTS: dict[str, tuple[str, ...]] = {
    "store_foreign_keys": (
        "PRAGMA foreign_keys = 0",
        "INSERT INTO message_entries VALUES (1, 'x', 999, 'import')",
    ),
    "forgetting_unfinished": ("INSERT INTO forgettings (stage, notes, at) VALUES ('index', '[]', 1)",),
    "forgotten_in_store": (
        "INSERT INTO tombstones (kind, subject, since_at, until_at, reason, at)"
        " SELECT 'record', record_id, 0, 1, 'forget', 1 FROM records LIMIT 1",
    ),
    "index_behind": ("INSERT INTO change_log (kind, target, op) VALUES ('message', 1, 'put')",),
    "index_several_current": (
        "DROP INDEX generations_current",
        "INSERT INTO generations (identity, state, created_at) VALUES ('{}', 'current', 1)",
    ),
    "index_missing": ("UPDATE generations SET state = 'retired'",),
    "index_outdated": ("UPDATE generations SET identity = '{}'",),
}


@pytest.mark.parametrize("code", STORE_FAULTS)
def test_faults_of_the_store(directory: Path, store: apsw.Connection, code: str) -> None:
    """One statement each makes the finding, the first if there are several."""
    for statement in STORE_FAULTS[code]:
        store.execute(statement)
    assert code in codes(directory)


def test_a_forgotten_session_that_is_still_there(directory: Path, store: apsw.Connection) -> None:
    """Turns recorded before the tombstone count; what was said in that session since does not."""
    token, at = store.execute("SELECT s.token, max(m.at) FROM sessions s JOIN messages m LIMIT 1").fetchone() or ("", 0)
    assert isinstance(token, str)
    assert isinstance(at, int)
    tombstones.add(store, "session", token, reason="forget", at=at - 1_000, until=at + 1_000)
    assert codes(directory) == []
    tombstones.add(store, "session", token, reason="forget", at=at + 60_000, until=at + 2_000)
    assert codes(directory) == ["forgotten_in_store"]


def test_a_forgotten_entry_that_is_still_there(directory: Path, store: apsw.Connection) -> None:
    """Entries are compared by their keyed digests."""
    key = (directory.parent.parent / "session.key").read_bytes()
    token, entry = store.execute(
        "SELECT s.token, e.entry_id FROM message_entries e JOIN sessions s ON s.id = e.session_id"
    ).fetchone() or ("", "")
    store.execute("UPDATE message_entries SET way = 'import'")
    tombstones.add(store, "entry", tombstones.entry(key, str(token), str(entry)), reason="forget", at=1)
    assert codes(directory) == ["forgotten_in_store"]


INDEX_FAULTS: dict[str, str] = {
    "index_inconsistent": "DELETE FROM lexical WHERE rowid = (SELECT min(id) FROM chunks)",
    "index_does_not_answer": "DELETE FROM lexical WHERE rowid IN (SELECT c.id FROM chunks c JOIN documents d"
    " ON d.id = c.document_id WHERE d.kind = 'note')",
    "forgotten_in_index": "UPDATE documents SET key = '999' WHERE kind = 'message' AND key = '1'",
    "index_incomplete": "UPDATE documents SET key = '999' WHERE kind = 'message' AND key = '1'",
    "index_of_another_store": "UPDATE meta SET value = '99999' WHERE key = 'applied_seq'",
    "index_outdated": "UPDATE meta SET value = '{}' WHERE key = 'identity'",
}


@pytest.mark.parametrize("code", INDEX_FAULTS)
def test_faults_of_the_index(directory: Path, index: apsw.Connection, code: str) -> None:
    """One statement each makes the finding."""
    index.execute(INDEX_FAULTS[code])
    assert code in codes(directory)


def test_a_forgotten_version_of_a_note_in_the_index(
    directory: Path, store: apsw.Connection, index: apsw.Connection
) -> None:
    """Notes are compared by path and hash."""
    key = (directory.parent.parent / "session.key").read_bytes()
    path, digest = index.execute("SELECT key, hash FROM documents WHERE kind = 'note'").fetchone() or ("", "")
    subject = tombstones.subject(key, "note", str(path), str(digest))
    tombstones.add(store, "note", subject, reason="forget", at=1)
    assert codes(directory) == ["forgotten_in_index"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9_000])


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4_096 : len(data) // 2] = b"\xa5" * (len(data) // 2 - 4_096)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("harm", [cut, scribble])
@pytest.mark.parametrize(
    ("name", "code"), [("memory.sqlite", "store_damaged"), ("index-000001.sqlite", "index_damaged")]
)
def test_damaged_files(directory: Path, name: str, code: str, harm: Callable[[Path], None]) -> None:
    """A finding, no exception, and the file stays as it is."""
    harm(directory / name)
    before = (directory / name).read_bytes()
    assert codes(directory) == [code]
    assert (directory / name).read_bytes() == before


def test_missing_files(directory: Path, tmp_path: Path) -> None:
    """Without its index a store is whole; without its store a directory is nothing."""
    files.remove(directory / "index-000001.sqlite")
    assert codes(directory) == ["index_file_missing"]
    assert codes(tmp_path) == ["store_missing"]


def test_leftovers_and_holders(directory: Path) -> None:
    """A generation that is not current is a leftover, or somebody's who has it open; a lone WAL is a leftover too."""
    other = directory / "index-000007.sqlite"
    other.write_bytes((directory / "index-000001.sqlite").read_bytes())
    assert [(one.code, one.severity) for one in verify(directory)] == [("index_leftover", "warning")]
    reader = apsw.Connection(str(other), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("SELECT count(*) FROM chunks").fetchall()
    assert [(one.code, one.severity) for one in verify(directory)] == [("index_held", "info")]
    reader.close()
    files.remove(other)
    other.with_name(other.name + "-wal").write_bytes(b"x")
    assert codes(directory) == ["index_leftover"]
