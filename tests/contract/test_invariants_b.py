"""Rules for keeping an index that hold by number (52 to 93 of the list in ``docs/architecture.md``), one test each.

Only rules that no other test shows; the list names the others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.clock import Clock, FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.forgetting import generations as forgotten_generations
from memory_sqlite.generations import files, registry
from memory_sqlite.indexing import apply, identity, rebuild, rows, vector_reuse
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.model import SourceProblem
from memory_sqlite.paths import STORE_FILE, agent_directory, generation_file
from memory_sqlite.sources import conversation
from memory_sqlite.storage import connection as connections

LOOK = 1_100
"""Milliseconds after which a search looks at the workspace again."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return agent_directory(tmp_path / "data", "main")


@pytest.fixture
def open_memory(tmp_path: Path, workspace: Path) -> Callable[..., Memory]:
    """Opens the same agent again and again."""
    return lambda **more: Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace, **more))


def say(memory: Memory, text: str, **more: Any) -> Any:
    return memory.remember(session="s", messages=[{"role": "user", "content": text}], **more)


def texts(memory: Memory, query: str) -> list[str]:
    return [hit.excerpt for hit in memory.search(query, sources=("sessions",)).hits]


def store_of(memory: Memory) -> Any:
    assert memory._opened is not None
    return memory._opened.store


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Every row of every table of a generation, those of the word index included."""
    connection = connections.open_index_reader(path)
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        # a virtual table is its shadow tables, which are in the list themselves
        virtual = {name.rsplit("_", 1)[0] for name in names if name.endswith("_config")}
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names if name not in virtual}
    finally:
        connection.close()


def fails(kind: type[Exception] = errors.DiskFull) -> Callable[..., Any]:
    def failing(*_: Any, **__: Any) -> Any:
        raise kind("injected")

    return failing


# --- keeping up ----------------------------------------------------------------------------------------------------


def test_inv_056_work_that_found_nothing_to_do_hides_no_failure(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that could not be read stays dirty and reported however often something else succeeds."""
    (workspace / "memory" / "a.md").write_text("granite plan\n")
    with monkeypatch.context() as unreadable:
        unreadable.setattr(notes_index, "_read", lambda place: SourceProblem(place.path, "cannot be read"))
        first = memory.index()
        assert say(memory, "marble").searchable
        second = memory.index()
        for report in (first, second):
            assert (report.status, [problem.path for problem in report.problems]) == ("partial", ["memory/a.md"])
        assert memory.status()["index"]["dirty_notes"] == 1
    assert memory.index().status == "ok"
    assert memory.search("granite", sources=("memory",)).hits


# --- publication ---------------------------------------------------------------------------------------------------


def test_inv_057_a_build_that_is_not_wanted_leaves_nothing(memory: Memory, clock: FixedClock, directory: Path) -> None:
    """Declined under the lock: no file, no row, no number spent, and the next build is an ordinary one."""
    say(memory, "granite")
    before = sorted(path.name for path in directory.iterdir())
    assert rebuild.rebuild(store_of(memory), clock, fails(), unless=lambda: True) is None
    assert sorted(path.name for path in directory.iterdir()) == before
    assert registry.by_state(store_of(memory).connection, "building") == []
    assert memory.index(full=True).generation == 2


def test_inv_060_a_publication_that_is_refused_is_taken_back_whole(
    memory: Memory, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the flip and before the commit: the old generation is current as if nothing had been tried."""
    say(memory, "granite")
    real = registry.publish

    def refused(*arguments: Any) -> None:
        real(*arguments)
        raise errors.DiskFull("injected")

    with monkeypatch.context() as patched:
        patched.setattr(registry, "publish", refused)
        with pytest.raises(errors.DiskFull):
            memory.index(full=True)
    current = registry.current(store_of(memory).connection)
    assert current is not None
    assert current.number == 1
    assert registry.by_state(store_of(memory).connection, "retired") == []
    assert texts(memory, "granite") == ["user: granite"]
    assert say(memory, "marble").searchable
    assert memory.index(full=True).generation == 3
    assert verify(directory) == []


def test_inv_061_inv_063_a_locked_store_costs_a_wait_and_nothing_else(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer that cannot begin says so and has written nothing; the same call succeeds later, once, and waits as
    long as ever."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 50)
    with open_memory() as memory:
        say(memory, "granite")
        other = connections.open_store(directory / STORE_FILE)
        other.execute("BEGIN IMMEDIATE").fetchall()
        for _ in range(2):
            with pytest.raises(errors.StoreBusy):
                say(memory, "marble", run_id="r1")
        assert memory.search("granite").hits, "a reader does not wait for a writer"
        other.execute("ROLLBACK").fetchall()
        assert store_of(memory).connection.pragma("busy_timeout") == limits.BUSY_TIMEOUT_MS
        assert say(memory, "marble", run_id="r1").status == "stored"
        assert say(memory, "marble", run_id="r1").status == "duplicate"
        other.close()
    assert verify(directory) == []


def test_inv_062_what_fails_after_the_commit_does_not_undo_the_publication(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking the old file away may fail: the new generation is published, once, and the next open takes it away."""
    with open_memory() as memory:
        say(memory, "granite")
        monkeypatch.setattr(rebuild, "sweep", fails(errors.StoreBusy))
        assert memory.index(full=True).generation == 2
        assert texts(memory, "granite") == ["user: granite"]
        assert generation_file(directory, 1).exists()
    monkeypatch.undo()
    with open_memory():
        assert [path.name for path in directory.glob("index-*.sqlite")] == ["index-000002.sqlite"]


def test_inv_062_what_fails_right_after_the_flip_takes_no_file_away(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails once the row is flipped: what is current has its file and answers."""
    with open_memory() as memory:
        say(memory, "granite")
        with monkeypatch.context() as patched:
            patched.setattr(vector_reuse, "take_over_late", fails(RuntimeError))
            with pytest.raises(RuntimeError):
                memory.index(full=True)
        assert generation_file(directory, 2).exists()
        assert texts(memory, "granite") == ["user: granite"]


def test_inv_073_a_build_that_another_goes_on_with_is_not_taken_back(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may take a failed build up the moment it is let go of: then it is that one's, file and row."""
    with open_memory() as memory, open_memory() as other:
        say(memory, "granite")
        real, taken = rebuild._abandon, []

        def abandon(store: Any, number: int) -> None:
            taken.append(rebuild._begin(store_of(other), Clock(), None))
            real(store, number)

        monkeypatch.setattr(rebuild, "_abandon", abandon)
        monkeypatch.setattr(rebuild, "verify", fails(errors.StoreBusy))
        with pytest.raises(errors.StoreBusy):
            memory.index(full=True)
        [(number, index)] = taken
        assert number == 2
        assert generation_file(directory, 2).exists()
        assert [one.number for one in registry.by_state(store_of(memory).connection, "building")] == [2]
        index.close()


def test_inv_066_the_first_error_is_the_one_that_is_told(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean-up that fails, too, neither hides why the build failed nor stands in the way of the next one."""
    with open_memory() as memory:
        say(memory, "granite")
        with monkeypatch.context() as patched:

            def broken(_: Any) -> str:
                patched.setattr(files, "remove", fails(OSError))
                return "an injected fault"

            patched.setattr(rows, "inconsistency", broken)
            with pytest.raises(errors.IndexUnavailable, match="an injected fault"):
                memory.index(full=True)
        assert texts(memory, "granite") == ["user: granite"]
        assert memory.index(full=True).status == "ok"
        assert texts(memory, "granite") == ["user: granite"]
    assert len(list(directory.glob("index-*.sqlite"))) == 1
    assert verify(directory) == []


# --- full builds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["filling", "applying", "checking", "sealing", "publishing"])
def test_inv_067_a_build_that_fails_anywhere_leaves_the_old_rows(
    memory: Memory, workspace: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Every row of the current generation, also of its word index, is what it was, and it goes on answering."""
    (workspace / "memory" / "a.md").write_text("slate plan\n")
    say(memory, "granite")
    memory.index()
    before = rows_of(generation_file(directory, 1))
    where = {
        "filling": (conversation, "session_documents"),
        "applying": (apply, "apply_changes"),
        "checking": (rebuild, "verify"),
        "sealing": (files, "seal"),
        "publishing": (registry, "publish"),
    }[place]
    with monkeypatch.context() as patched:
        patched.setattr(*where, fails())
        with pytest.raises(errors.DiskFull):
            memory.index(full=True)
    assert rows_of(generation_file(directory, 1)) == before
    assert [path.name for path in directory.glob("index-*.sqlite")] == ["index-000001.sqlite"]
    assert texts(memory, "granite") == ["user: granite"]


def test_inv_070_inv_071_a_publication_keeps_tombstones_and_is_whole(memory: Memory, directory: Path) -> None:
    """What must never come back is written in the store, not in what is built anew; the new file has its word index."""
    say(memory, "granite", run_id="r1")
    say(memory, "marble", run_id="r2")
    memory.forget(references=[memory.search("granite", sources=("sessions",)).hits[0].reference])
    told = store_of(memory).connection.execute("SELECT * FROM tombstones ORDER BY 1, 2").fetchall()
    assert told
    assert memory.index(full=True).generation is not None
    assert store_of(memory).connection.execute("SELECT * FROM tombstones ORDER BY 1, 2").fetchall() == told
    assert (texts(memory, "granite"), texts(memory, "marble")) == ([], ["user: marble"])
    memory.close()
    assert verify(directory) == []


def test_inv_076_nobody_sees_a_generation_that_is_being_built(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished, checked and not yet published: the builder's own memory and another one read the old one."""
    real = rebuild.verify
    seen: list[tuple[int | None, int, list[str]]] = []
    with open_memory() as memory, open_memory() as other:
        say(memory, "granite")

        def look(*arguments: Any) -> None:
            real(*arguments)
            for one in (memory, other):
                assert one._opened is not None
                with one._opened.keeper.reader() as index:
                    name = Path(str(index.filename)).name
                seen.append((one._opened.keeper.number(), int(name[6:12]), texts(one, "granite")))

        monkeypatch.setattr(rebuild, "verify", look)
        assert memory.index(full=True).generation == 2
        assert seen == [(1, 1, ["user: granite"])] * 2
        assert other.status()["index"]["generation"] == 2


def test_inv_077_no_setting_rebuilds_or_silences_the_index(open_memory: Callable[..., Memory]) -> None:
    """Settings choose what a search shows, never how a generation is built: whatever they are, it stays and answers."""
    with open_memory() as memory:
        say(memory, "granite", chat_type="direct", sender_is_owner=True)
    others: list[dict[str, Any]] = [
        {"max_search_results": 3, "max_search_bytes": limits.MAX_SEARCH_BYTES[0], "max_read_lines": 5},
        {"redact_secrets": False},
        {"profile_scope": "agent"},
        {"retention_days": 4},
        {"extraction_interval": 7, "auto_recall": False},
    ]
    for other in others:
        with open_memory(**other) as memory:
            status = memory.status()["index"]
            assert (status["generation"], status["state"]) == (1, "current"), other
            assert texts(memory, "granite"), other


@pytest.mark.parametrize("failure", [errors.StoreBusy, errors.DiskFull, errors.IndexUnavailable])
def test_inv_078_after_an_upgrade_that_cannot_build_the_old_index_answers(
    open_memory: Callable[..., Memory],
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[errors.MemorySqliteError],
) -> None:
    """Another chunker, and no room or a busy store: searching and remembering go on with the old generation, ``status``
    says so, and ``index`` says why until it succeeds."""
    with open_memory() as memory:
        say(memory, "granite")
    newer = identity.expected() | {"chunker": 999}
    monkeypatch.setattr(identity, "expected", lambda: newer)
    with monkeypatch.context() as patched:
        patched.setattr(rebuild, "verify", fails(failure))
        with open_memory() as memory:
            assert texts(memory, "granite") == ["user: granite"]
            assert memory.remember(session="t", messages=[{"role": "user", "content": "marble"}]).searchable
            assert texts(memory, "marble") == ["user: marble"]
            status = memory.status()["index"]
            assert (status["generation"], status["state"]) == (1, "outdated")
            with pytest.raises(failure):
                memory.index()
            patched.undo()
            monkeypatch.setattr(identity, "expected", lambda: newer)
            assert memory.index().status == "ok"
            assert memory.status()["index"]["state"] == "current"
            assert texts(memory, "marble") == ["user: marble"]
            assert len(list(directory.glob("index-*.sqlite"))) == 1
    assert verify(directory) == []


def test_inv_078_the_successor_that_another_process_built_is_taken(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened while another memory was building: that one's generation is what the next search and ``index`` use."""
    with open_memory() as memory:
        say(memory, "granite")
    newer = identity.expected() | {"chunker": 999}
    monkeypatch.setattr(identity, "expected", lambda: newer)
    with monkeypatch.context() as patched:
        patched.setattr(rebuild, "rebuild", fails(errors.StoreBusy))
        late = open_memory()
    with late, open_memory() as builder:
        assert builder.status()["index"]["generation"] == 2
        assert texts(late, "granite") == ["user: granite"]
        assert late.index().generation == 2
        assert late.status()["index"]["state"] == "current"


@pytest.mark.parametrize("part", ["format", "tokenizer", "chunker"])
def test_inv_079_an_index_of_a_newer_version_is_never_written_over(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A reader leaves it alone; a writer builds its own beside it and the newer file, which another program has open,
    keeps every row. (What is in it is derived: the store of a newer version is refused.)"""
    newer = identity.expected() | {part: 999}
    with monkeypatch.context() as patched:
        patched.setattr(identity, "expected", lambda: newer)
        with open_memory() as memory:
            say(memory, "granite")
    before = rows_of(generation_file(directory, 1))
    holder = connections.open_index_reader(generation_file(directory, 1))
    assert holder.execute("SELECT count(*) FROM documents").get
    with Memory.open(settings=Settings(data_dir=directory.parent.parent), read_only=True) as memory:
        assert memory.status()["index"]["generation"] == 1
    with open_memory() as memory:
        assert memory.status()["index"]["generation"] == 2
        assert texts(memory, "granite") == ["user: granite"]
        assert rows_of(generation_file(directory, 1)) == before
        holder.close()
    with open_memory():
        assert not generation_file(directory, 1).exists()


def test_inv_085_without_the_index_nothing_of_the_user_is_gone(
    open_memory: Callable[..., Memory], directory: Path, workspace: Path
) -> None:
    """Everything in the index's files is derived: taken away, it is there again at the next open, from the same
    store."""
    (workspace / "memory" / "a.md").write_text("slate plan\n")
    with open_memory() as memory:
        say(memory, "granite")
        memory.index()
        store = store_of(memory).connection.execute("SELECT id, text FROM messages ORDER BY id").fetchall()
    for path in directory.glob("index-*"):
        path.unlink()
    with open_memory() as memory:
        assert store_of(memory).connection.execute("SELECT id, text FROM messages ORDER BY id").fetchall() == store
        assert texts(memory, "granite") == ["user: granite"]
        assert memory.search("slate", sources=("memory",)).hits
    assert verify(directory) == []


# --- forgetting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True], ids=["asked again", "built anew between"])
def test_inv_091_an_end_in_the_middle_and_a_build_leave_no_byte(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Ended between the store and the index: whether a full build comes between or not, asking again removes the words
    from every file."""
    with open_memory() as memory:
        say(memory, "granite tea", run_id="r1")
        memory.remember(session="other", messages=[{"role": "user", "content": "marble"}])
        with monkeypatch.context() as patched:
            patched.setattr(forgotten_generations, "erase", fails())
            with pytest.raises(errors.DiskFull):
                memory.forget(sessions=["s"])
        if full:
            memory.index(full=True)
        assert texts(memory, "granite") == []
        memory.forget(sessions=["s"])
        assert say(memory, "granite tea", run_id="r1").status == "duplicate"
        assert texts(memory, "marble") == ["user: marble"]
    assert verify(directory) == []
    for path in directory.iterdir():  # nobody in this process has them open any more
        assert b"granite" not in path.read_bytes(), path.name


def test_inv_093_an_agent_that_shares_a_note_follows_it_on_its_own(
    tmp_path: Path, workspace: Path, clock: FixedClock
) -> None:
    """Each agent's index is its own: a shared note that one has taken lines out of is seen by the other's next look;
    what was said to the other under the same names stays."""
    (workspace / "memory" / "a.md").write_text("keep slate\n\ndrop granite\n")
    one = Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace, agent="one"), clock=clock)
    two = Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace, agent="two"), clock=clock)
    with one, two:
        for memory in (one, two):
            memory.index()
            say(memory, "pebble")
            assert memory.search("granite", sources=("memory",)).hits
        one.forget(references=["memory/a.md#L3"])
        one.forget(sessions=["s"])
        clock.advance(LOOK)
        for memory in (one, two):
            assert memory.search("granite", sources=("memory",)).hits == ()
            assert memory.search("slate", sources=("memory",)).hits
        assert (texts(one, "pebble"), texts(two, "pebble")) == ([], ["user: pebble"])


# --- the end -------------------------------------------------------------------------------------------------------


def test_inv_094_closing_refuses_new_work_and_is_tried_again_after_a_failure(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close that fails is no close: the next one lets go of every file; one more changes nothing."""
    memory = open_memory()
    say(memory, "granite")
    assert memory._opened is not None
    with monkeypatch.context() as patched:
        patched.setattr(memory._opened.keeper, "close", fails(apsw.BusyError))
        with pytest.raises(apsw.BusyError):
            memory.close()
    memory.close()
    memory.close()
    for call in (lambda: memory.search("granite"), lambda: say(memory, "marble"), memory.index, memory.status):
        with pytest.raises(errors.MemoryClosed):
            call()
    assert not files.is_held(generation_file(directory, 1))
