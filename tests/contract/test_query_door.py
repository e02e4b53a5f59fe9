"""``Memory.query``: answers, every limit stops its query and leaves a process that answers the next one."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import AsyncMemory, Memory, errors, limits
from memory_sqlite.config import Settings
from memory_sqlite.processes.command import Command
from memory_sqlite.query import asking
from memory_sqlite.query import reading as readings

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
SORTED = ENDLESS.replace("FROM c)", "FROM c WHERE x < 20000)") + "SELECT hex(randomblob(999)) h FROM c ORDER BY h"
"""40 MB in SQLite's sorter: more than the least memory a query may be given, less than what it has by default."""
HANGS = "SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')"
"""One step of SQLite that would take hours and looks at no clock: only a kill ends it."""


@pytest.fixture
def asked(memory: Memory) -> Iterator[Memory]:
    """A memory with one turn, whose query process has been started."""
    memory.remember(session="s", messages=[{"role": "user", "content": "My favourite tea is oolong."}])
    assert memory.query("SELECT 1").rows == ((1,),)
    yield memory


def pid(memory: Memory) -> int:
    """The one idle query process."""
    assert memory._asker is not None
    (process,) = memory._asker._idle
    return process._process.pid


def test_an_answer(asked: Memory) -> None:
    """Columns, values of every kind, counts; nothing is truncated that is whole."""
    answer = asked.query("SELECT session, text, 1.5 AS f, x'00ff' AS b, NULL AS n, 9e999 AS i FROM messages")
    assert answer.columns == ("session", "text", "f", "b", "n", "i")
    assert answer.rows == (("s", "My favourite tea is oolong.", 1.5, b"\x00\xff", None, float("inf")),)
    assert (answer.row_count, answer.truncated, answer.disabled, answer.warnings) == (1, False, False, ())
    assert asked.query("SELECT :a, :b", {"a": b"x", ":b": None}).rows == ((b"x", None),)
    assert asked.query("SELECT ?, ?", ["喜欢", 2**62]).rows == (("喜欢", 2**62),)
    assert asked.query("SELECT text FROM messages WHERE 0").columns == ("text",)
    assert asked.query("SELECT 1 FROM messages", explain=True).plan


def test_it_sees_what_was_written_a_moment_ago(asked: Memory) -> None:
    """Each query reads the store as it is; one that runs holds nobody up."""

    def write(_columns: tuple[str, ...], _rows: list[Any]) -> None:
        asked.remember(session="t", messages=[{"role": "user", "content": "Another harbour."}])

    asked.query("SELECT 1 FROM messages", on_rows=write)
    assert asked.query("SELECT count(*) FROM messages").rows == ((2,),)


def test_a_query_waits_for_no_write(memory: Memory) -> None:
    """Also the first one, which starts its process, while somebody holds the memory's lock."""
    answers: list[object] = []
    with memory._lock:
        thread = threading.Thread(target=lambda: answers.append(memory.query("SELECT 1").rows))
        thread.start()
        thread.join()
    assert answers == [((1,),)]


@pytest.mark.parametrize(
    ("sql", "options", "kind"),
    [
        (ENDLESS + "SELECT count(*) FROM c", {"timeout_s": 0.05}, "time"),
        ("SELECT count(*) FROM (VALUES (1), (2)) a, (" + ENDLESS + "SELECT x FROM c) b", {"timeout_s": 0.05}, "time"),
        (SORTED, {"memory_bytes": 16 * limits.MIB}, "memory"),
        ("SELECT group_concat(hex(zeroblob(15000000))) FROM (VALUES (1), (2), (3))", {}, "memory"),
        ("SELECT randomblob(900000000)", {}, "memory"),
    ],
)
def test_a_limit_stops_its_query_and_the_process_answers_the_next(
    asked: Memory, sql: str, options: dict[str, Any], kind: str
) -> None:
    """Time, memory, and the size of one value; the same process goes on."""
    before = pid(asked)
    with pytest.raises(errors.QueryLimit) as said:
        asked.query(sql, **options)
    assert said.value.kind == kind
    assert asked.query("SELECT count(*) FROM messages").rows == ((1,),)
    assert asked.query(SORTED, max_rows=1).truncated
    assert pid(asked) == before


def test_rows_beyond_the_limit_are_left_out_and_it_is_said(asked: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows, an endless number of rows, rows of many bytes; as many as there are is not truncated."""
    answer = asked.query(ENDLESS + "SELECT x FROM c", max_rows=700)
    assert (len(answer.rows), answer.row_count, answer.truncated, answer.rows[-1]) == (700, 700, True, (700,))
    three = asked.query("VALUES (1), (2), (3)", max_rows=3)
    assert (three.row_count, three.truncated) == (3, False)
    monkeypatch.setattr(limits, "QUERY_ANSWER_MAX_BYTES", 100_000)
    heavy = asked.query(ENDLESS + "SELECT hex(zeroblob(5000)) FROM c")
    assert (heavy.truncated, heavy.row_count) == (True, 10)
    seen: list[int] = []
    streamed = asked.query(
        ENDLESS + "SELECT hex(zeroblob(5000)) FROM c LIMIT 30", on_rows=lambda _, rows: seen.append(len(rows))
    )
    assert (streamed.truncated, streamed.row_count, sum(seen), streamed.rows) == (False, 30, 30, ())


def test_values_larger_than_a_frame(asked: Memory) -> None:
    """A row of 20 MiB travels in pieces."""
    ((text, data),) = asked.query("SELECT hex(zeroblob(8000000)), zeroblob(4000000)").rows
    assert (len(text), data) == (16_000_000, bytes(4_000_000))


def test_what_hangs_within_one_step_is_killed(asked: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock is looked at within a function of SQLite: its process ends, the next query has another."""
    before = pid(asked)
    monkeypatch.setattr(limits, "QUERY_KILL_GRACE_S", 0.1)
    with pytest.raises(errors.QueryLimit) as said:
        asked.query(HANGS, timeout_s=0.05)
    assert said.value.kind == "time"
    assert asked.query("SELECT 1").rows == ((1,),)
    assert pid(asked) != before


def test_a_process_that_does_not_start_is_given_up(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    mute = Command((sys.executable, "-c", "import sys; sys.stdin.read()"), {})
    monkeypatch.setattr(asking, "worker_command", lambda _module: mute)
    monkeypatch.setattr(limits, "WORKER_START_S", 0.0)
    with pytest.raises(errors.WorkerLost, match="start"):
        memory.query("SELECT 1", abort=threading.Event())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells of another process's bounds")
def test_the_memory_of_the_whole_process_is_bounded(asked: Memory) -> None:
    """What Python holds too, by what the query was given."""
    bounds = []
    for size in (64 * limits.MIB, 32 * limits.MIB):
        asked.query("SELECT 1", memory_bytes=size)
        bounds.append(resource.prlimit(pid(asked), resource.RLIMIT_AS)[0])
    assert bounds[0] - bounds[1] == 32 * limits.MIB


def test_transcripts_are_masked_as_the_settings_say(tmp_path: Path, asked: Memory) -> None:
    (tmp_path / "t.jsonl").write_text('{"role":"user","content":"password: hunter2hunter2."}\n')
    sql = "SELECT instr(text, 'hunter2') > 0 FROM transcript(?)"
    assert asked.query(sql, [str(tmp_path / "t.jsonl")]).rows == ((0,),)
    with Memory.open(settings=Settings(data_dir=tmp_path / "bare", redact_secrets=False)) as bare:
        assert bare.query(sql, [str(tmp_path / "t.jsonl")]).rows == ((1,),)


def test_another_thread_ends_a_query(asked: Memory) -> None:
    """Once rows come, before it began, and within a step that hears nothing."""
    abort = threading.Event()
    with pytest.raises(errors.Cancelled):
        asked.query(ENDLESS + "SELECT x FROM c", max_rows=10_000_000, on_rows=lambda *_: abort.set(), abort=abort)
    for sql in (ENDLESS + "SELECT count(*) FROM c", HANGS):
        with pytest.raises(errors.Cancelled):
            asked.query(sql, abort=abort)
    assert asked.query("SELECT 1", abort=threading.Event()).rows == ((1,),)


class OwnError(Exception):
    """What a caller's own function raises."""


@pytest.mark.parametrize("own", [OwnError, BrokenPipeError, EOFError, ValueError])
def test_what_the_caller_raises_ends_the_query(asked: Memory, own: type[Exception]) -> None:
    """Whatever it is, also what a pipe of the query's own would raise."""

    def fail(*_: object) -> None:
        raise own

    with pytest.raises(own):
        asked.query(ENDLESS + "SELECT x FROM c", max_rows=10_000_000, on_rows=fail)
    assert asked.query("SELECT 1").rows == ((1,),)


def test_a_process_that_dies_costs_its_query_alone(asked: Memory) -> None:
    """Killed in the middle: ``WorkerLost``; killed while idle: nobody notices."""
    assert asked._asker is not None

    def kill(*_: object) -> None:
        (process,) = asked._asker._busy  # type: ignore[union-attr]
        process.kill()
        process._process.wait()

    with pytest.raises(errors.WorkerLost):
        asked.query(ENDLESS + "SELECT x FROM c", max_rows=10_000_000, on_rows=kill)
    assert asked.query("SELECT 1").rows == ((1,),)
    for looks_alive in (False, True):
        (idle,) = asked._asker._idle
        idle.kill()
        idle._process.wait()
        if looks_alive:  # as one that ends for want of requests at this very moment
            idle.is_alive = lambda: True  # type: ignore[method-assign]
        assert asked.query("SELECT 2").rows == ((2,),)


def test_no_more_than_two_at_once(asked: Memory) -> None:
    """One more is refused at once; closing the memory ends those that run."""
    running = threading.Semaphore(0)
    go_on = threading.Event()
    ended: list[BaseException] = []

    def wait(*_: object) -> None:
        running.release()
        go_on.wait()

    def ask() -> None:
        try:
            asked.query(ENDLESS + "SELECT x FROM c", max_rows=10_000_000, on_rows=wait)
        except errors.MemorySqliteError as error:
            ended.append(error)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(limits.QUERY_PROCESSES_MAX)]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            running.acquire()
        with pytest.raises(errors.Overloaded):
            asked.query("SELECT 1")
    finally:
        asked.close()
        go_on.set()
    for thread in threads:
        thread.join()
    assert [type(error) for error in ended] == [errors.MemoryClosed] * 2
    with pytest.raises(errors.MemoryClosed):
        asked.query("SELECT 1")


@pytest.mark.parametrize(
    "options",
    [
        {"max_rows": 0}, {"max_rows": 10**9}, {"timeout_s": 0}, {"timeout_s": 1e9}, {"memory_bytes": 1},
        {"max_rows": True}, {"timeout_s": "1"}, {"timeout_s": float("nan")},
    ],
)  # fmt: skip
def test_bounds_are_bounded(memory: Memory, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        memory.query("SELECT 1", **options)


@pytest.mark.parametrize(
    "parameters", ["text", b"x", 5, [object()], [2**70], {1: 2}, [True] * 2_000, [[1]], ["\ud800"]]
)
def test_parameters_are_checked(memory: Memory, parameters: Any) -> None:
    with pytest.raises(errors.QueryInvalid):
        memory.query("SELECT ?", parameters)


def test_errors_of_the_process_arrive_as_they_are(asked: Memory) -> None:
    """Type, message and hint; nothing of the statement's values."""
    with pytest.raises(errors.QueryInvalid, match="no such column: tpye") as invalid:
        asked.query("SELECT tpye FROM messages WHERE text = 'granite'")
    assert "granite" not in invalid.value.message
    with pytest.raises(errors.QueryRefused):
        asked.query("SELECT value FROM store_info")
    with pytest.raises(errors.InvalidArgument, match="folder"):
        asked.query("SELECT 1 FROM jsonl(?)", [str(Path.cwd())])
    for odd in (5, "SELECT '\ud800'"):
        with pytest.raises(errors.QueryInvalid):
            asked.query(odd)  # type: ignore[arg-type]


def test_relative_patterns_begin_where_the_host_is(
    asked: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where its query process was started; and progress is told."""
    told: list[tuple[str, int, int | None]] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_text(f'{{"in":"{name}"}}\n')
        monkeypatch.chdir(tmp_path / name)
        told.clear()
        answer = asked.query("SELECT \"in\" FROM jsonl('*.jsonl')", progress=lambda *said: told.append(said))
        assert (answer.rows, answer.files, answer.bytes_read) == (((name,),), 1, 11)
        assert told == [("read", 11, None)]


def test_a_disabled_memory_and_a_reader(tmp_path: Path, asked: Memory) -> None:
    """A disabled one says so; one that was opened for reading answers."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "off", enabled=False)) as off:
        assert off.query("SELECT 1").disabled
    with Memory.open(settings=asked.settings, read_only=True) as reader:
        assert reader.query("SELECT count(*) FROM messages").rows == ((1,),)


def test_an_encrypted_memory_with_a_configured_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store and index are read with the key of the settings, from a file or the environment; without it nothing is."""
    secret = "granite harbour pier at low tide 0042"
    (tmp_path / "key").write_text(secret)
    (tmp_path / "key").chmod(0o600)
    monkeypatch.setenv("QUERY_KEY", secret)
    place = tmp_path / "data"
    with Memory.open(settings=Settings(data_dir=place, encryption_key_file=tmp_path / "key")) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "My favourite tea is oolong."}])
        memory.index()
        assert memory.query("SELECT text FROM messages").rows == (("My favourite tea is oolong.",),)
        answer = memory.query("SELECT count(*) FROM chunks WHERE text LIKE '%oolong%'")
        assert answer.rows[0][0] > 0 and answer.warnings == ()
    assert not any(b"oolong" in file.read_bytes() for file in place.rglob("*") if file.is_file())
    settings = Settings(data_dir=place, encryption_key_env="QUERY_KEY")
    for read_only in (True, False):
        with Memory.open(settings=settings, read_only=read_only) as memory:
            assert memory.query("SELECT session FROM sessions").rows == (("s",),)
    with pytest.raises(errors.EncryptionKeyRequired), Memory.open(place, read_only=True) as memory:
        memory.query("SELECT session FROM sessions")


async def _asked_from_a_loop(memory: Memory) -> tuple[tuple[Any, ...], ...]:
    return (await AsyncMemory(memory).query("SELECT ?", ["x"])).rows


def test_from_an_event_loop(asked: Memory) -> None:
    import asyncio

    assert asyncio.run(_asked_from_a_loop(asked)) == (("x",),)


def test_waiting_for_a_reader_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is the query's own."""
    now = [0.0]
    monkeypatch.setattr(readings, "time", SimpleNamespace(monotonic=lambda: now[0]))
    reading = readings.Reading(10.0, lambda _done: None, redact=True)
    now[0] = 9.0
    assert reading.due() is None
    reading.waited(5.0)
    now[0] = 14.0
    assert reading.due() is None
    now[0] = 15.0
    assert reading.due() == "time"
    with pytest.raises(errors.QueryLimit):
        reading.tick(1)
    reading.cancel()
    with pytest.raises(errors.Cancelled):
        reading.check()
