"""Salvage, one thing at a time: what is put together, what is made anew, what goes along, what is refused."""

from __future__ import annotations

import errno
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner
from damaged_store import PAGE, encrypt, make, place, rows

from memory_sqlite import Memory, errors, library
from memory_sqlite.cli.app import root
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor import page_copy, tree_shapes, tree_walk
from memory_sqlite.doctor.salvage import salvage
from memory_sqlite.doctor.tree_pages import Reader, Value
from memory_sqlite.doctor.tree_shapes import Shape, shapes
from memory_sqlite.doctor.tree_walk import Forest
from memory_sqlite.storage import migrate

KEY = FileKey("aegis", bytes(range(32)), "key")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its directory; nobody writes to it."""
    return make(tmp_path_factory.mktemp("whole") / "data", turns=60)


def pages_of(store: Path, name: str, kind: str = "leaf") -> list[int]:
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    sql = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ?"
    try:
        return [number for (number,) in connection.execute(sql, (name, kind))]
    finally:
        connection.close()


def without(agent: Path, names: dict[str, str], tmp_path: Path) -> Path:
    """The agent's directory with every page of these kinds of these trees lost."""
    content = bytearray((agent / "memory.sqlite").read_bytes())
    lost = [number for name, kind in names.items() for number in pages_of(agent / "memory.sqlite", name, kind)]
    assert lost
    for number in lost:
        content[(number - 1) * PAGE : number * PAGE] = bytes(PAGE)
    return place(agent, bytes(content), tmp_path / "damaged")


def store_of(out: Path, agent: Path) -> Path:
    return out / "agents" / agent.name / "memory.sqlite"


def test_a_table_that_an_index_holds_whole(agent: Path, tmp_path: Path) -> None:
    """``message_entries`` lost every page: its index holds all its columns."""
    directory = without(agent, {"message_entries": "leaf"}, tmp_path)
    report = salvage(directory, tmp_path / "out")
    assert rows(store_of(tmp_path / "out", agent)) == rows(agent / "memory.sqlite")
    counts = report.tables["message_entries"]
    assert counts["rows"] == 0 and counts["from_indexes"] > 100 and report.status == "partial"


def test_sessions_are_made_anew_from_their_indexes(agent: Path, tmp_path: Path) -> None:
    """Key and token survive; of what a session was nothing does, so nobody but the operator sees it."""
    directory = without(agent, {"sessions": "leaf"}, tmp_path)
    report = salvage(directory, tmp_path / "out")
    before, after = rows(agent / "memory.sqlite"), rows(store_of(tmp_path / "out", agent))
    assert {row[:3] for row in after["sessions"]} == {row[:3] for row in before["sessions"]}
    assert {row[3:6] for row in after["sessions"]} == {("unknown", "unknown", None)}
    assert report.tables["sessions"]["made"] == len(before["sessions"])
    assert {row[7:11] for row in after["sessions"]} == {row[7:11] for row in before["sessions"]}
    assert {row[0] for row in after["session_imports"]} == {row[0] for row in after["sessions"]}
    for table in ("turns", "messages", "records", "message_entries", "accepted_runs"):
        assert after[table] == before[table]
    with Memory.open(settings=Settings(data_dir=tmp_path / "out")) as memory:
        assert memory.search("tea number 7", session="session 7").hits
        assert {hit.session for hit in memory.search("tea number 7", session="session 8").hits} <= {"session 8"}


def test_turns_are_made_anew_for_their_messages(agent: Path, tmp_path: Path) -> None:
    """Their place in the session comes from an index, their time from their messages."""
    directory = without(agent, {"turns": "leaf"}, tmp_path)
    report = salvage(directory, tmp_path / "out")
    before, after = rows(agent / "memory.sqlite"), rows(store_of(tmp_path / "out", agent))
    assert {row[:3] for row in after["turns"]} == {row[:3] for row in before["turns"]}
    assert {row[5] for row in after["turns"]} == {"salvage"}
    times = {
        turn: min(row[10] for row in before["messages"] if row[2] == turn)
        for turn in {row[0] for row in before["turns"]}
    }
    assert {row[0]: row[6] for row in after["turns"]} == times
    assert report.tables["turns"]["made"] == len(before["turns"]) and after["messages"] == before["messages"]


def test_what_belongs_to_lost_rows_is_left_out_and_counted(agent: Path, tmp_path: Path) -> None:
    """Messages whose text is lost stay lost: an index only names them. Their entries go with them."""
    directory = without(agent, {"messages": "leaf"}, tmp_path)
    report = salvage(directory, tmp_path / "out")
    before, after = rows(agent / "memory.sqlite"), rows(store_of(tmp_path / "out", agent))
    assert after["messages"] == set() and after["message_entries"] == set()
    assert report.tables["messages"]["lost"] == len(before["messages"])
    assert report.tables["message_entries"]["unfounded"] == len(before["message_entries"])
    assert after["records"] == before["records"] and after["turns"] == before["turns"]


def test_what_outlives_its_turn_stays(agent: Path, tmp_path: Path) -> None:
    """No turn is left and nothing to make one of: runs stay accepted, so that a replay adds nothing; records stay."""
    names = dict.fromkeys(("turns", "sqlite_autoindex_turns_1", "sqlite_autoindex_turns_2", "messages"), "leaf")
    report = salvage(without(agent, names, tmp_path), tmp_path / "out")
    before, after = rows(agent / "memory.sqlite"), rows(store_of(tmp_path / "out", agent))
    assert after["turns"] == set() and report.tables["turns"]["lost"] == 0  # nothing names them any more
    assert after["accepted_runs"] == {(digest, None) for digest, _ in before["accepted_runs"]}
    assert {row[:2] for row in after["records"]} == {row[:2] for row in before["records"]}
    assert after["record_sources"] == set()


def test_a_session_of_which_not_even_the_key_is_left(agent: Path, tmp_path: Path) -> None:
    """Sessions and both indexes of them are gone: their messages are kept under a name of ours, each by itself."""
    names = {"sessions": "leaf", "sqlite_autoindex_sessions_1": "leaf", "sqlite_autoindex_sessions_2": "leaf"}
    report = salvage(without(agent, names, tmp_path), tmp_path / "out")
    before, after = rows(agent / "memory.sqlite"), rows(store_of(tmp_path / "out", agent))
    told = {row[0] for row in after["sessions"]}
    assert told == {row[1] for row in before["messages"]} and after["messages"] == before["messages"]
    assert {row[1] for row in after["sessions"]} == {f"salvaged-{number}" for number in told}
    assert report.tables["sessions"]["made"] == len(told)


def test_a_damaged_branch_loses_no_leaf(agent: Path, tmp_path: Path) -> None:
    """The page that leads to the leaves of a table is lost: they are told by their rows."""
    directory = without(agent, {"messages": "internal"}, tmp_path)
    report = salvage(directory, tmp_path / "out")
    assert rows(store_of(tmp_path / "out", agent)) == rows(agent / "memory.sqlite")
    assert report.status == "partial" and report.unattributed_pages == 0


def test_numbers_are_not_given_out_again(agent: Path, tmp_path: Path) -> None:
    """The newest session was forgotten; its number stays used in the salvaged store."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    salvage(directory, tmp_path / "out")
    used = "SELECT name, seq FROM sqlite_sequence WHERE name <> 'generations' ORDER BY name"
    found = []
    for store in (agent / "memory.sqlite", store_of(tmp_path / "out", agent)):
        connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
        found.append(connection.execute(used).fetchall())
        connection.close()
    assert found[0] == found[1] and dict(found[0])["sessions"] == 12


def test_a_row_that_lies_on_two_pages_is_one_row(agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that a damaged pointer keeps in a tree beside its successor: nothing is refused for it."""
    once = tree_walk.rows

    def twice(reader: Reader, forest: Forest, shape: Shape) -> Iterator[dict[str, Value]]:
        for row in once(reader, forest, shape):
            yield from (row, dict(row))

    monkeypatch.setattr(tree_walk, "rows", twice)
    report = salvage(place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged"), tmp_path / "out")
    assert rows(store_of(tmp_path / "out", agent)) == rows(agent / "memory.sqlite")
    assert all(counts["refused"] == 0 for counts in report.tables.values())


def test_a_message_that_was_altered_is_counted(agent: Path, tmp_path: Path) -> None:
    """A plain file has no check: the text comes over as it is, and is called doubtful."""
    content = (agent / "memory.sqlite").read_bytes()
    old, new = b"Noted 41.", b"Noted 42."
    assert content.count(old) >= 1
    report = salvage(place(agent, content.replace(old, new), tmp_path / "damaged"), tmp_path / "out")
    assert report.doubtful == 1 and report.status == "partial"


@pytest.mark.parametrize("damaged_header", [False, True])
def test_what_is_in_the_wal_comes_over(tmp_path: Path, damaged_header: bool) -> None:
    """A store as a killed process leaves it. A damaged header, of which the WAL has no newer one, keeps nothing out."""
    data = tmp_path / "data"
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite is hard"}])
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite is old"}])
        directory = next((data / "agents").iterdir())
        damaged = tmp_path / "damaged" / "agents" / directory.name
        damaged.mkdir(parents=True)
        copied = "import shutil, sys; [shutil.copy(name, sys.argv[1]) for name in sys.argv[2:]]"
        files = [str(directory / name) for name in ("memory.sqlite", "memory.sqlite-wal")]
        subprocess.run([sys.executable, "-c", copied, str(damaged), *files], check=True)
    wal = (damaged / "memory.sqlite-wal").read_bytes()
    frames = {int.from_bytes(wal[at : at + 4], "big") for at in range(32, len(wal), 24 + PAGE)}
    assert frames and 1 not in frames
    if damaged_header:
        content = bytearray((damaged / "memory.sqlite").read_bytes())
        content[:60] = b"rubbish".ljust(60, b"!")
        (damaged / "memory.sqlite").write_bytes(content)
    report = salvage(damaged, tmp_path / "out")
    assert report.tables["messages"]["rows"] == 2
    assert report.session_key == "new"  # there is none beside it


def test_without_the_session_key_tokens_are_new(agent: Path, tmp_path: Path) -> None:
    """The key is lost: a new one is made and every token with it, so that sessions are found by their keys."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    (tmp_path / "damaged" / "session.key").unlink()
    report = salvage(directory, tmp_path / "out")
    assert report.session_key == "new" and report.status == "partial"
    with Memory.open(settings=Settings(data_dir=tmp_path / "out")) as memory:
        assert memory.search("tea number 7", session="session 7").hits


def test_another_session_key_is_told(agent: Path, tmp_path: Path) -> None:
    """A ``session.key`` that this store was not made with: its own tokens would be wrong."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    (tmp_path / "damaged" / "session.key").write_bytes(bytes(32))
    assert salvage(directory, tmp_path / "out").session_key == "new"
    with Memory.open(settings=Settings(data_dir=tmp_path / "out"), read_only=True) as memory:
        assert memory.status()["turns"] > 0


def test_a_store_of_an_older_version_becomes_the_newest(agent: Path, tmp_path: Path) -> None:
    """It is filled as it was and upgraded as every store is."""
    data = tmp_path / "old" / "agents" / agent.name
    data.mkdir(parents=True)
    connection = apsw.Connection(str(data / "memory.sqlite"))
    connection.execute(migrate.scripts()[0][1]).fetchall()
    connection.pragma("application_id", migrate.APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.execute(
        "INSERT INTO sessions (key, token, started_at, active_at, recorded_at) VALUES ('s', 't', 1, 1, 1)"
    ).fetchall()
    connection.close()
    salvage(data, tmp_path / "out")
    found = store_of(tmp_path / "out", agent)
    assert {row[1] for row in rows(found)["sessions"]} == {"s"}
    connection = apsw.Connection(str(found), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.pragma("user_version") == migrate.latest()
    connection.close()


def test_what_is_written_is_private_and_whole(agent: Path, tmp_path: Path) -> None:
    """Modes, nothing left beside it, what opens it, and no index: that is built anew."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    (tmp_path / "damaged" / "keyring.json").write_text("{}", "utf-8")
    salvage(directory, tmp_path / "out")
    made = {
        str(path.relative_to(tmp_path / "out")): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "out").rglob("*")
    }
    assert made == {
        "agents": 0o700, f"agents/{agent.name}": 0o700, f"agents/{agent.name}/memory.sqlite": 0o600,
        "keyring.json": 0o600, "session.key": 0o600,
    }  # fmt: skip
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "out"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", errors.StoreDamaged),
        (b"x" * 100, errors.StoreDamaged),
        (b"x" * PAGE * 4, errors.StoreDamaged),
        (bytes(PAGE * 4), errors.StoreDamaged),
        (b"\x0d" * PAGE * 4, errors.StoreDamaged),
        (b"\x05" * PAGE * 4, errors.StoreDamaged),
    ],
)
def test_nothing_readable_is_said_and_nothing_made(
    agent: Path, tmp_path: Path, content: bytes, error: type[errors.MemorySqliteError]
) -> None:
    """Rubbish of several kinds, also such that looks like pages: an error, and no directory."""
    directory = place(agent, content, tmp_path / "damaged")
    with pytest.raises(error):
        salvage(directory, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


def test_places_that_are_refused(agent: Path, tmp_path: Path) -> None:
    """Never over something, never of nothing, never through a link."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    (tmp_path / "there").mkdir()
    with pytest.raises(errors.OutputExists):
        salvage(directory, tmp_path / "there")
    with pytest.raises(errors.InvalidArgument):
        salvage(directory, tmp_path / "absent" / "out")
    with pytest.raises(errors.UnknownAgent):
        salvage(tmp_path, tmp_path / "out")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "memory.sqlite").symlink_to(directory / "memory.sqlite")
    with pytest.raises(errors.UnknownAgent):
        salvage(linked, tmp_path / "out")


def test_a_store_that_is_written_to_is_left_alone(agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of two moments would be damage of our own."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    copy = page_copy._copy

    def written(source: Path, target: Path) -> None:
        copy(source, target)
        source.with_name(source.name + "-wal").write_bytes(b"x" * 64)

    monkeypatch.setattr(page_copy, "_copy", written)
    with pytest.raises(errors.StoreBusy):
        salvage(directory, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


def test_a_full_disk_leaves_nothing(agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is copied, and while it is written."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")

    def full(*ignored: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    def full_database(*ignored: object) -> None:
        raise apsw.FullError("database or disk is full")

    for where, how in ((page_copy, full), (tree_shapes, full_database)):
        with monkeypatch.context() as patch:
            patch.setattr(where, "_copy" if where is page_copy else "fresh", how)
            with pytest.raises(errors.DiskFull):
                salvage(directory, tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


@pytest.mark.skipif(library.cipher() is None, reason="needs apsw-sqlite3mc")
def test_an_encrypted_store_needs_its_key(agent: Path, tmp_path: Path) -> None:
    """Without it, or with another, nothing is made; with it the copy is as encrypted as the original was."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    encrypt(directory / "memory.sqlite", KEY)
    with pytest.raises(errors.StoreDamaged):
        salvage(directory, tmp_path / "out")
    with pytest.raises((errors.StoreDamaged, errors.EncryptionKeyWrong)):
        salvage(directory, tmp_path / "out", FileKey("aegis", bytes(32), "other"))
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]
    salvage(directory, tmp_path / "out", KEY)
    found = store_of(tmp_path / "out", agent)
    assert rows(found, KEY) == rows(agent / "memory.sqlite")
    assert not any(word in found.read_bytes() for word in (b"tea number", b"session 7", b"CREATE TABLE"))


def test_it_hears_of_its_progress_and_asks_the_clock_for_keys(agent: Path, tmp_path: Path) -> None:
    """Each table is told as it is done."""
    heard: list[tuple[str, int, int | None]] = []
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "damaged")
    report = salvage(directory, tmp_path / "out", progress=lambda *told: heard.append(told), clock=Clock())
    assert heard[0] == ("salvage", 0, None) and heard[-1] == ("salvage", len(report.tables), len(report.tables))


def test_from_the_command_line(agent: Path, tmp_path: Path) -> None:
    """Exit code 0 for a whole store, 3 for a damaged one; one JSON document; nothing of a memory is shown."""
    directory = place(agent, (agent / "memory.sqlite").read_bytes(), tmp_path / "data")
    # the command names agents, so the directory must be that of one
    assert directory.name.startswith("main-")
    place_of = ["--data-dir", str(tmp_path / "data")]
    told = CliRunner().invoke(root, ["doctor", "--salvage", str(tmp_path / "one"), *place_of])
    assert told.exit_code == 0 and "messages: " in told.stdout and "tea" not in told.stdout
    directory = without(agent, {"messages": "internal"}, tmp_path)
    printed = CliRunner().invoke(
        root, ["doctor", "--salvage", str(tmp_path / "two"), "--json", "--data-dir", str(tmp_path / "damaged")]
    )
    document = json.loads(printed.stdout)
    assert printed.exit_code == 3 and document["ok"] is True
    assert set(document) == {
        "ok", "status", "path", "pages", "unreadable_pages", "unattributed_pages", "tables", "doubtful", "session_key",
    }  # fmt: skip
    again = CliRunner().invoke(root, ["doctor", "--salvage", str(tmp_path / "two"), *place_of])
    assert again.exit_code == errors.OutputExists.exit_code
    assert CliRunner().invoke(root, ["doctor", "--fix", "--salvage", str(tmp_path / "three"), *place_of]).exit_code == 2


@pytest.mark.parametrize("version", range(1, migrate.latest() + 1))
def test_shapes_are_those_of_the_schema(version: int) -> None:
    """Every table and index of a version has one, with its columns in the order in which a file holds them."""
    known = shapes(version)
    assert {"sqlite_schema", "sqlite_sequence", "sessions", "messages", "sqlite_autoindex_sessions_1"} <= set(known)
    assert [column.name for column in known["message_entries"].columns] == [
        "session_id",
        "entry_id",
        "way",
        "message_id",
    ]
    assert known["messages"].rowid == "id" and known["message_entries"].rowid is None
