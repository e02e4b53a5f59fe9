"""What was forgotten after a backup was made does not come back with it, and the report says what does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.backup import files, making, manifest
from memory_sqlite.backup.manifest import FileEntry
from memory_sqlite.backup.reports import CameBack, RestoreReport
from memory_sqlite.backup.restoring import restore
from memory_sqlite.clock import Clock, FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import compact
from memory_sqlite.storage import store as stores

CLOCK = Clock()
DAY = 86_400_000


def say(memory: Memory, session: str, text: str, **more: Any) -> None:
    message = {"role": "user", "content": text, **more.pop("message", {})}
    memory.remember(session=session, messages=[message, {"role": "assistant", "content": f"Noted: {text}"}], **more)


def back(tmp_path: Path, name: str = "new", **more: Any) -> RestoreReport:
    more.setdefault("tombstones_from", [tmp_path / "data"])
    return restore(tmp_path / "b", Settings(data_dir=tmp_path / name), CLOCK, **more)


def found(data_dir: Path, text: str) -> bool:
    with Memory.open(settings=Settings(data_dir=data_dir)) as memory:
        assert not memory.status()["index"]["lag"]
        return any(text in hit.excerpt for hit in memory.search(text).hits)


def in_bytes(data_dir: Path, text: str) -> bool:
    return any(text.encode() in one.read_bytes() for one in data_dir.rglob("*") if one.is_file())


SAID = {"one": "granite-alpha", "two": "basalt-bravo", "three": "marble-charlie", "four": "slate-delta"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Four turns: two sessions, a named speaker, a host's ids, three days; backed up as ``b``."""
    clock = FixedClock()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=clock) as opened:
        say(opened, "s1", f"I like {SAID['one']}.", sender_is_owner=True, message={"id": "m1"})
        clock.advance(DAY)
        say(opened, "s1", f"I like {SAID['two']}.", sender_is_owner=True)
        clock.advance(DAY)
        say(opened, "s2", f"I like {SAID['three']}.", chat_type="group", message={"sender": "ann"})
        clock.advance(DAY)
        say(opened, "s2", f"I like {SAID['four']}.", chat_type="group", message={"sender": "bob"})
        clock.advance(DAY)
        making.make(opened.settings, tmp_path / "b", clock)
        clock.advance(DAY)
        yield opened


WAYS: dict[str, tuple[Callable[[Memory], Any], set[str]]] = {
    "a session": (lambda memory: memory.forget(sessions=["s1"]), {"one", "two"}),
    "a session until a time": (
        lambda memory: memory.forget(sessions=["s1"], until="2026-07-16T00:00:00Z"),
        {"one"},
    ),
    "a session since a time": (
        lambda memory: memory.forget(sessions=["s1"], since="2026-07-16T00:00:00Z"),
        {"two"},
    ),
    "a person": (lambda memory: memory.forget(participants=["ann"]), {"three"}),
    "a stretch of time": (
        lambda memory: memory.forget(since="2026-07-16T00:00:00Z", until="2026-07-18T00:00:00Z"),
        {"two", "three"},
    ),
    "a message with an id": (lambda memory: memory.forget(references=[reference(memory, "one")]), {"one"}),
    "a message without": (lambda memory: memory.forget(references=[reference(memory, "two")]), {"two"}),
    "a record": (lambda memory: memory.forget(records=[record(memory, "one")]), {"one"}),
    "a record alone": (lambda memory: memory.forget(records=[record(memory, "one")], keep_turns=True), set()),
}


def reference(memory: Memory, name: str) -> str:
    return next(hit.reference for hit in memory.search(SAID[name], layers=["L0"]).hits if SAID[name] in hit.excerpt)


def record(memory: Memory, name: str) -> str:
    hit = next(hit for hit in memory.search(SAID[name], layers=["L3"]).hits if SAID[name] in hit.excerpt)
    return hit.reference.removeprefix("record:")


@pytest.mark.parametrize("way", WAYS)
def test_it_is_forgotten_again_by_whatever_name(memory: Memory, tmp_path: Path, way: str) -> None:
    """The directory that was there knows; what is meant goes to the bytes, and nothing else does."""
    forget, gone = WAYS[way]
    assert forget(memory).status == "forgotten"
    memory.close()
    report = back(tmp_path)
    assert report.looked_in == (str(tmp_path / "data"),)
    assert (report.unknown, report.came_back, report.problems) == ((), (), ())
    (again,) = report.forgotten_again
    assert again.turns == len(gone)
    assert again.tombstones
    for name, text in SAID.items():
        assert in_bytes(tmp_path / "new", text) == (name not in gone), name
        assert found(tmp_path / "new", text) == (name not in gone), name
    assert in_bytes(tmp_path / "b", SAID["one"]), "the backup itself is as it was"


@pytest.mark.parametrize("way", WAYS)
def test_the_restored_store_is_what_the_old_one_is(
    memory: Memory, tmp_path: Path, rows: Callable[..., Any], way: str
) -> None:
    """The same turns, messages and records under the same numbers: what is meant is neither more nor less."""
    WAYS[way][0](memory)
    memory.close()
    back(tmp_path)
    for table in ("sessions", "turns", "messages", "records", "record_sources", "message_entries"):
        assert rows(tmp_path / "new")[table] == rows(tmp_path / "data")[table], table
    assert rows(tmp_path / "new")["forgettings"] == [], "nothing is left to do"
    kept = {row[1:] for row in rows(tmp_path / "data")["tombstones"]}
    assert kept <= {row[1:] for row in rows(tmp_path / "new")["tombstones"]}


def test_the_same_words_of_another_moment_stay(tmp_path: Path) -> None:
    """Said twice within minutes, forgotten once: the other one is another utterance."""
    clock = FixedClock()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=clock) as memory:
        for _ in range(2):
            say(memory, "s", "go on with granite")
            clock.advance(60_000)
        making.make(memory.settings, tmp_path / "b", clock)
        first = next(hit for hit in memory.search("granite", sort="oldest").hits if hit.layer == "L0")
        memory.forget(references=[first.reference])
    report = back(tmp_path)
    assert report.forgotten_again[0].turns == 1
    assert found(tmp_path / "new", "granite")


def test_an_entry_whose_words_have_grown_since(memory: Memory, tmp_path: Path) -> None:
    """It was read on after the backup and then forgotten: the words are others, the entry is the same."""
    rooms = memory.rooms()
    assert rooms is not None
    with rooms.opened.store.transaction() as connection:
        grown = "turn_id = (SELECT turn_id FROM messages WHERE host_id = 'm1')"
        connection.execute(f"UPDATE messages SET text_digest = ? WHERE {grown}", (bytes(16),))
    memory.forget(references=[reference(memory, "one")])
    memory.close()
    with_answer = back(tmp_path).forgotten_again[0]
    assert (with_answer.turns, with_answer.messages) == (1, 2)
    assert not in_bytes(tmp_path / "new", SAID["one"])


def test_a_stretch_of_time_that_was_empty_by_then(memory: Memory, tmp_path: Path) -> None:
    """What had expired before somebody forgot that time is in the backup, and goes by the time alone."""
    memory.forget(sessions=["s1"])
    rooms = memory.rooms()
    assert rooms is not None
    with rooms.opened.store.transaction() as connection:
        connection.execute("UPDATE tombstones SET reason = 'retention'")
    memory.forget(since="2026-07-15T00:00:00Z", until="2026-07-16T00:00:00Z")
    memory.close()
    report = back(tmp_path)
    assert report.forgotten_again[0].turns == 1
    assert [(one.session, one.turns) for one in report.came_back] == [("s1", 1)]
    assert not in_bytes(tmp_path / "new", SAID["one"])
    assert in_bytes(tmp_path / "new", SAID["two"])


def test_the_file_is_written_anew_when_something_went(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted rows leave words in the gaps within pages; a store in which nothing is deleted is left as it is."""
    real, written = compact.write_anew, []

    def write_anew(connection: Any, path: Path, **more: Any) -> bool:
        written.append(path)
        return real(connection, path, **more)

    monkeypatch.setattr(compact, "write_anew", write_anew)
    back(tmp_path, "nothing")
    assert written == []
    memory.forget(sessions=["s1"])
    memory.close()
    written.clear()
    back(tmp_path)
    assert [path.name for path in written] == ["memory.sqlite"]


def test_what_was_forgotten_before_the_backup_says_nothing_new(memory: Memory, tmp_path: Path) -> None:
    """Somebody went on talking in a session that had been forgotten: that is in the backup, and comes back."""
    memory.forget(sessions=["s1"])
    say(memory, "s1", "I like quartz-echo.", sender_is_owner=True)
    making.make(memory.settings, tmp_path / "later", CLOCK)
    memory.close()
    report = restore(
        tmp_path / "later", Settings(data_dir=tmp_path / "new"), CLOCK, tombstones_from=[tmp_path / "data"]
    )
    assert report.forgotten_again[0].tombstones == 0
    assert found(tmp_path / "new", "quartz-echo")
    assert not found(tmp_path / "new", SAID["one"])


def test_case_C136_importing_again_after_a_restore_brings_nothing_back(memory: Memory, tmp_path: Path) -> None:
    """The tombstones stay in what was restored."""
    memory.forget(sessions=["s1"])
    memory.close()
    back(tmp_path)
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as old:
        assert old.status()["turns"] == 2
    with Memory.open(settings=Settings(data_dir=tmp_path / "new"), clock=FixedClock()) as new:
        say(new, "s1", f"I like {SAID['one']}.", sender_is_owner=True, message={"id": "m1"})
        assert not any(SAID["one"] in hit.excerpt for hit in new.search(SAID["one"]).hits)


def test_revived_on_request(memory: Memory, tmp_path: Path) -> None:
    """A person who forgot too much says so, and is told what came back."""
    memory.forget(sessions=["s1"])
    memory.close()
    report = back(tmp_path, revive=True)
    assert report.forgotten_again == ()
    assert [(one.agent, one.session, one.turns) for one in report.came_back] == [("main", "s1", 2)]
    assert report.came_back[0].records > 0
    assert found(tmp_path / "new", SAID["one"])


def test_what_nobody_knows_is_said_to_come_back(memory: Memory, tmp_path: Path) -> None:
    """Without a directory that knows, the report does not pretend."""
    memory.forget(sessions=["s1"])
    memory.close()
    report = back(tmp_path, tombstones_from=[])
    assert report.unknown == ("main",)
    assert (report.looked_in, report.forgotten_again) == ((), ())
    assert found(tmp_path / "new", SAID["one"])


def test_a_later_backup_knows_too(memory: Memory, tmp_path: Path) -> None:
    """Tombstones can be read from a backup as well as from a data directory, and from several."""
    memory.forget(sessions=["s1"])
    making.make(memory.settings, tmp_path / "later", CLOCK)
    memory.forget(participants=["ann"])
    memory.close()
    report = back(tmp_path, tombstones_from=[tmp_path / "later"])
    assert report.forgotten_again[0].turns == 2
    assert [one.session for one in report.came_back] == []
    # of what was forgotten after the later one nobody knows
    made_at = manifest.read(tmp_path / "later").created_at
    assert (report.unknown, report.unknown_since) == (("main",), {"main": made_at})
    both = back(tmp_path, "both", tombstones_from=[tmp_path / "later", tmp_path / "data"])
    assert both.forgotten_again[0].turns == 3
    assert both.looked_in == (str(tmp_path / "later"), str(tmp_path / "data"))
    assert both.unknown == ()


def test_a_backup_that_is_no_later_knows_nothing(memory: Memory, tmp_path: Path) -> None:
    """Named as the place to look in it does not hide that what was forgotten has come back."""
    memory.forget(sessions=["s1"])
    memory.close()
    report = back(tmp_path, tombstones_from=[tmp_path / "b"])
    assert (report.unknown, report.looked_in) == (("main",), ())
    assert "no later" in report.problems[0]
    assert found(tmp_path / "new", SAID["one"])


def test_what_any_of_several_places_no_longer_had_is_listed(memory: Memory, tmp_path: Path) -> None:
    """Not only what the first of them lacked."""
    making.make(memory.settings, tmp_path / "later", CLOCK)
    memory.forget(sessions=["s1"])
    memory.close()
    report = back(tmp_path, revive=True, tombstones_from=[tmp_path / "later", tmp_path / "data"])
    assert [(one.session, one.turns) for one in report.came_back] == [("s1", 2)]
    assert report.came_back[0].records > 0


def test_a_store_that_does_not_say_whose_it_is(memory: Memory, tmp_path: Path) -> None:
    """Nothing can be forgotten again in it, and the report does not pretend."""
    memory.forget(sessions=["s1"])
    memory.close()
    backup = manifest.read(tmp_path / "b")
    name = manifest.store_name(paths.agent_directory_name("main"))
    connection = apsw.Connection(str(tmp_path / "b" / name))
    connection.execute("DELETE FROM store_info WHERE key = 'agent'").fetchall()
    connection.close()
    counts = {**backup.agents[0].counts, "store_info": backup.agents[0].counts["store_info"] - 1}
    size, summed = files.digest(tmp_path / "b", name, 1 << 30)
    listed = tuple(FileEntry(name, size, summed) if one.name == name else one for one in backup.files)
    forged = replace(backup, agents=(replace(backup.agents[0], counts=counts),), files=listed)
    (tmp_path / "b" / "manifest.json").write_bytes(manifest.encode(forged))
    report = back(tmp_path)
    assert report.unknown == (paths.agent_directory_name("main"),)


def test_retention_is_left_to_the_next_prune(memory: Memory, tmp_path: Path) -> None:
    """What had expired comes back and is listed; its tombstones are not applied."""
    memory.forget(sessions=["s1"])
    rooms = memory.rooms()
    assert rooms is not None
    with rooms.opened.store.transaction() as connection:
        connection.execute("UPDATE tombstones SET reason = 'retention'")
    memory.close()
    report = back(tmp_path)
    assert report.forgotten_again[0].turns == 0
    assert report.came_back == (CameBack("main", "s1", 2, report.came_back[0].records),)


def test_a_directory_that_cannot_be_read_is_named(memory: Memory, tmp_path: Path) -> None:
    """Damaged, or of another key: said, with its code, and the agent is one of which nobody knows."""
    memory.forget(sessions=["s1"])
    memory.close()
    store = paths.agent_directory(tmp_path / "data", "main") / paths.STORE_FILE
    whole = store.read_bytes()
    store.write_bytes(b"x" * 8192)
    report = back(tmp_path)
    assert report.unknown == ("main",)
    assert "store_damaged" in report.problems[0]
    store.write_bytes(whole)
    (tmp_path / "data" / "session.key").write_bytes(bytes(32))
    report = back(tmp_path, "other")
    assert report.unknown == ("main",)
    assert "session_key_changed" in report.problems[0]
    with pytest.raises(errors.InvalidArgument):
        back(tmp_path, "none", tombstones_from=[tmp_path / "nowhere"])
    assert not (tmp_path / "none").exists()


def test_a_turn_that_waits_for_an_engine_is_forgotten_too(memory: Memory, tmp_path: Path) -> None:
    """The outbox of the backup holds copies of what was said."""
    rooms = memory.rooms()
    assert rooms is not None
    add = (
        "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state, admission,"
        " at, messages) VALUES (?, 'e', 'o', ?, ?, 'ready', '{}', ?, ?)"
    )
    with rooms.opened.store.transaction() as connection:
        connection.execute(add, ("k1", "s1", "x1", 1, '[{"role": "user", "content": "waiting-one"}]'))
        connection.execute(
            add, ("k2", "s2", "x2", 1, '[{"role": "user", "sender": "carol", "content": "waiting-two"}]')
        )
        connection.execute(add, ("k3", "s2", "x2", 1, '[{"role": "user", "content": "waiting-three"}]'))
        last = 1_784_104_200_000
        connection.execute(add, ("k4", "s2", "x2", last, '[{"role": "user", "content": "waiting-four"}]'))
    making.make(memory.settings, tmp_path / "waiting", CLOCK)
    memory.forget(sessions=["s1"])
    memory.forget(participants=["carol"])
    memory.forget(since="2026-07-15T08:29:00Z", until="2026-07-15T08:30:00.001Z")
    memory.close()
    report = restore(
        tmp_path / "waiting", Settings(data_dir=tmp_path / "new"), CLOCK, tombstones_from=[tmp_path / "data"]
    )
    assert report.forgotten_again[0].waiting == 3
    left = [in_bytes(tmp_path / "new", f"waiting-{one}") for one in ("one", "two", "three", "four")]
    assert left == [False, False, True, False]


def test_a_failure_leaves_nothing(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half forgotten is not placed."""
    memory.forget(sessions=["s1"])
    memory.close()
    real = stores.open_for_writing

    def refuse(*arguments: Any, **more: Any) -> Any:
        real(*arguments, **more).close()
        raise errors.DiskFull("full")

    monkeypatch.setattr(stores, "open_for_writing", refuse)
    with pytest.raises(errors.DiskFull):
        back(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "workspace") == ["b", "data"]


@pytest.mark.parametrize("how", ["session", "session since", "span", "person"])
def test_a_record_that_no_turn_of_the_store_told(tmp_path: Path, how: str) -> None:
    """A fact that a tool wrote has no turn: it is forgotten again with its session, its stretch of time, its sender,
    also where it was gone by then."""
    clock = FixedClock()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=clock) as memory:
        say(memory, "s1", "I like tea.", message={"sender": "ann"})
        clock.advance(DAY)
        memory.remember_facts([{"content": "The harbour is granite-echo.", "name": "harbour"}], session="s1")
        opened = memory.rooms()
        assert opened is not None
        with opened.opened.store.transaction() as connection:
            connection.execute("UPDATE records SET sender = 'ann' WHERE turn_id IS NULL").fetchall()
            assert connection.execute("SELECT count(*) FROM records WHERE turn_id IS NULL").get
        clock.advance(DAY)
        making.make(memory.settings, tmp_path / "b", clock)
        if how == "session":
            memory.forget(sessions=["s1"])
        elif how == "session since":
            memory.forget(sessions=["s1"], since="2026-07-15T20:00:00Z")
        elif how == "span":
            memory.forget(since="2026-07-15T20:00:00Z")
        else:
            memory.forget(participants=["ann"])
        assert not memory.search("granite-echo").hits
        with opened.opened.store.transaction() as connection:  # as if it had expired before somebody asked
            connection.execute("DELETE FROM tombstones WHERE kind = 'record'").fetchall()
    back(tmp_path)
    assert not in_bytes(tmp_path / "new", "granite-echo")
