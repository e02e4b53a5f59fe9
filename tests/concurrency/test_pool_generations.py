"""The real workers over real generations: the same answers as in the process itself, and holds that end."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.clock import FixedClock
from memory_sqlite.generations import files, layout, vector_rows
from memory_sqlite.indexing import rows
from memory_sqlite.limits import FRAME_MAX_BYTES, VECTOR_RESIDENT_ROWS
from memory_sqlite.model import Chunk, Document
from memory_sqlite.processes import prepare
from memory_sqlite.processes.frames import FrameTooLarge
from memory_sqlite.processes.gone import Gone
from memory_sqlite.processes.hits import SearchRequest
from memory_sqlite.processes.preparation import Preparation
from memory_sqlite.processes.prepare import WordsOf
from memory_sqlite.processes.retrieval import Retrieval
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters, Viewer
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.sources.discovery import discover
from memory_sqlite.storage.connection import create_index, open_index, open_index_reader

NOW_MS = FixedClock().now_ms()


def request(text: str, **more: object) -> SearchRequest:
    known: dict[str, object] = {"filters": Filters(OPERATOR), "now_ms": NOW_MS, "max_results": 6, "max_bytes": 1 << 24}
    return SearchRequest(text, **{**known, **more})  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path, workspace: Path, clock: FixedClock) -> tuple[Path, int]:
    """The path and number of a generation with notes and a session."""
    (workspace / "MEMORY.md").write_text("# Net\n\n- The router VLAN is 42.\n- 今天我喜欢茶\n", encoding="utf-8")
    for number in range(30):
        text = f"# Day {number}\n\nNotes about the router number {number} and the garden.\n"
        (workspace / "memory" / f"day-{number}.md").write_text(text, encoding="utf-8")
    with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as memory:
        memory.remember(session="s1", messages=[{"role": "user", "content": "I prefer tea. The router is loud."}])
        generation = memory.index().generation
        assert generation is not None
    return next((tmp_path / "data").rglob(f"index-{generation:06d}.sqlite")), generation


@pytest.fixture
def retrieval() -> Iterator[Retrieval]:
    workers = Retrieval(bounds=Bounds(workers=2))
    yield workers
    workers.close()


@pytest.mark.parametrize(
    "asked",
    [
        request("router VLAN", explain=True),
        request("茶"),
        request("router", max_results=20, sort="newest", min_score=0.1),
        request("tea", filters=Filters(Viewer(session_id=1), ("sessions",), ("L0",))),
        request("router", filters=Filters(Viewer())),
        request('"unbalanced AND ( NEAR \0 \ud800'),
        request(""),
        request("router " * 5000),
    ],
    ids=["explained", "cjk", "sorted", "filtered", "nobody", "hostile", "empty", "long"],
)
def test_a_worker_answers_as_the_process_itself_would(
    retrieval: Retrieval, index: tuple[Path, int], asked: SearchRequest
) -> None:
    """Both run the same function: same hits, same scores, same words about itself."""
    path, number = index
    connection = open_index_reader(path)
    expected = run.search(
        connection,
        asked.text,
        asked.filters,
        now_ms=asked.now_ms,
        max_results=asked.max_results,
        min_score=asked.min_score,
        max_bytes=asked.max_bytes,
        sort=asked.sort,
        explain=asked.explain,
    )
    connection.close()
    assert retrieval.search(path, number, asked) == expected


def test_texts_presence_and_state_come_from_the_generation(retrieval: Retrieval, index: tuple[Path, int]) -> None:
    """Unknown ids and keys are left out."""
    path, number = index
    state = retrieval.state(path, number)
    assert state.documents["note"] == 31
    assert state.meta["format"] and state.chunks > 31
    texts = retrieval.texts(path, number, (1, 2, 10**9))
    assert sorted(texts.texts) == [1, 2] and texts.left == ()
    assert retrieval.present(path, number, "note", ("MEMORY.md", "memory/day-3.md", "no")) == {
        "MEMORY.md",
        "memory/day-3.md",
    }


def test_a_worker_holds_a_generation_between_requests_and_lets_go_when_told(
    retrieval: Retrieval, index: tuple[Path, int]
) -> None:
    """The file cannot be retired meanwhile; afterwards it can, and asking for it says that it is gone."""
    path, number = index
    retrieval.search(path, number, request("router"))
    assert not files.remove_unless_held(path)
    assert retrieval.let_go(path) == 1
    assert retrieval.let_go(path) == 0
    assert files.remove_unless_held(path)
    with pytest.raises(Gone):
        retrieval.search(path, number, request("router"))
    with pytest.raises(Gone):
        retrieval.state(path, number)


def test_inv_037_inv_042_a_reader_neither_waits_for_a_write_nor_takes_its_lock(
    retrieval: Retrieval, index: tuple[Path, int]
) -> None:
    """A search is answered while a write transaction is open, and when its worker lets go the writer has its lock."""
    path, number = index
    before = sorted(path.parent.iterdir())
    writer, rival = open_index(path), open_index(path)
    rival.set_busy_timeout(0)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM common_terms")
    assert retrieval.search(path, number, request("router"))[0]
    assert retrieval.let_go(path) == 1
    with pytest.raises(apsw.BusyError):
        rival.execute("BEGIN IMMEDIATE")
    writer.execute("ROLLBACK")
    assert retrieval.search(path, number, request("router"))[0]
    writer.close()
    rival.close()
    retrieval.let_go(path)
    assert {entry.name.removesuffix("-wal").removesuffix("-shm") for entry in path.parent.iterdir()} == {
        entry.name.removesuffix("-wal").removesuffix("-shm") for entry in before
    }


def test_inv_007_the_hold_of_a_killed_worker_is_gone_with_it(
    retrieval: Retrieval, index: tuple[Path, int], ended: Callable[..., bool]
) -> None:
    """Nothing has to be cleaned up for it."""
    path, number = index
    retrieval.search(path, number, request("router"))
    (pid,) = retrieval.pool.describe()["pids"]
    assert files.is_held(path)
    os.kill(pid, signal.SIGKILL)
    assert ended(pid)
    assert not files.is_held(path)


def test_inv_008_letting_go_waits_for_who_is_answering(retrieval: Retrieval, index: tuple[Path, int]) -> None:
    """Searches of many threads and a retirement at once: each search is answered or told that the file is gone."""
    path, number = index
    asked = request("router garden", max_results=20)
    expected = retrieval.search(path, number, asked)
    wrong: list[object] = []
    gone = threading.Event()

    def search() -> None:
        while not gone.is_set():
            try:
                if retrieval.search(path, number, asked) != expected:
                    wrong.append("another answer")
            except Gone:
                gone.set()
            except BaseException as error:
                wrong.append(error)
                gone.set()

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    while not files.remove_unless_held(path):
        retrieval.let_go(path)
    for thread in threads:
        thread.join()
    assert not wrong


def test_another_file_is_refused_and_nothing_of_it_is_said(retrieval: Retrieval, index: tuple[Path, int]) -> None:
    """The store is none of a worker's business, whoever asks."""
    path, number = index
    with pytest.raises(RuntimeError, match="WireError"):
        retrieval.search(path.with_name(paths.STORE_FILE), number, request("router"))


def test_a_damaged_generation_is_unavailable_and_other_agents_are_answered(
    retrieval: Retrieval, index: tuple[Path, int], tmp_path: Path
) -> None:
    """The same worker goes on."""
    path, number = index
    damaged = tmp_path / "index-000001.sqlite"
    damaged.write_bytes(b"no database" * 500)
    with pytest.raises(errors.IndexUnavailable):
        retrieval.search(damaged, 1, request("router"))
    assert retrieval.search(path, number, request("router"))[0]
    assert retrieval.pool.describe()["lost"] == 0


def test_notes_and_words_are_prepared_in_order(workspace: Path) -> None:
    """What comes back is what preparing here gives, in the order given, also where a frame is too small for it."""
    for number in range(25):
        text = f"# Note {number}\n\nabout {number} <!-- trigger: t{number} -->\n今天\n"
        (workspace / "memory" / f"n{number:02d}.md").write_text(text, encoding="utf-8")
    # the bytes of one fit into a frame and its answer does not, since it is text and tokens; the other is larger by
    # itself
    (workspace / "memory" / "n05-large.md").write_text(("basalt " * 14 + "\n") * (FRAME_MAX_BYTES * 5 // 1_000))
    (workspace / "memory" / "n06-huge.md").write_bytes(bytes(FRAME_MAX_BYTES + 1))
    places = discover(workspace, ()).places
    notes = [(place, place.absolute.read_bytes()) for place in places]
    named = {place.path: (place, data) for place, data in notes}
    expected = [prepare.prepare_note(place, data) for place, data in notes]
    workers = Preparation(bounds=Bounds(workers=2))
    try:
        with pytest.raises(FrameTooLarge):
            workers.submit_notes((named["memory/n05-large.md"],)).result()
        with pytest.raises(FrameTooLarge):
            workers.submit_notes((named["memory/n06-huge.md"],))
        assert list(workers.notes(iter(notes))) == expected
        documents = [WordsOf.of(one.document) for one in expected if one.document is not None][:5]
        assert list(workers.words(documents * 3)) == [prepare.words(document) for document in documents] * 3
        assert workers.pool.describe()["pending"] == 0
    finally:
        workers.close()


def test_inv_022_a_long_preparation_does_not_delay_a_search(retrieval: Retrieval, index: tuple[Path, int]) -> None:
    """Other processes, other queue: the search is answered while the preparation stands still."""
    path, number = index
    documents = (WordsOf("note", "", "n", (("long-term words", "", ""),)),)
    workers = Preparation(bounds=Bounds(workers=1))
    try:
        assert workers.pool.warm(60)
        (pid,) = workers.pool.describe()["pids"]
        os.kill(pid, signal.SIGSTOP)
        pending = workers.submit_words(documents)
        assert retrieval.search(path, number, request("router"))[0]
        assert not pending.done()
        os.kill(pid, signal.SIGCONT)
        assert pending.result() == (prepare.words(documents[0]),)
    finally:
        workers.close()


KILLS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "15"))


def test_workers_killed_at_any_moment_cost_their_request_and_nothing_else(
    retrieval: Retrieval, index: tuple[Path, int], noticed: Callable[..., bool]
) -> None:
    """Each search is answered rightly or lost as such; afterwards everything is answered and nothing is held."""
    path, number = index
    asked = request("router garden", max_results=20)
    expected = retrieval.search(path, number, asked)
    wrong: list[object] = []
    lost: list[int] = []
    answered = threading.Semaphore(0)
    over = threading.Event()

    def search() -> None:
        while not over.is_set():
            try:
                if retrieval.search(path, number, asked) != expected:
                    wrong.append("another answer")
                answered.release()
            except errors.WorkerLost:
                lost.append(1)
            except BaseException as error:
                wrong.append(error)
                over.set()
                answered.release()

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    rng = random.Random(5)
    killed: list[int] = []
    while len(killed) < KILLS and not wrong:
        assert answered.acquire(timeout=60)  # after an answer, and a random part of the next request
        over.wait(rng.random() * 0.01)
        pids = retrieval.pool.describe()["pids"]
        if pids:
            try:
                os.kill(pid := rng.choice(pids), signal.SIGKILL)
                killed.append(pid)
            except ProcessLookupError:
                pass  # it was the last one's
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(lost) <= len(killed)
    assert noticed(retrieval.pool, killed)
    assert retrieval.search(path, number, asked) == expected
    assert retrieval.pool.describe()["pending"] == 0
    retrieval.close()
    assert not files.is_held(path)


def test_a_worker_keeps_many_vectors_in_memory_and_says_so(
    tmp_path: Path, retrieval: Retrieval, clock: FixedClock
) -> None:
    """The answer names the route, and what is kept is told: rows and bytes; nothing before the first question."""
    pytest.importorskip("numpy")
    count = VECTOR_RESIDENT_ROWS + 100
    path = tmp_path / "index-000001.sqlite"
    connection = create_index(path, None)
    with connection:
        layout.create(connection, {})
        for number in range(count):
            rows.put_document(
                connection,
                Document(
                    "note", f"{number}.md", "memory", f"{number}.md", (Chunk(f"granite {number}", 1, 1),), "h", None
                ),
            )
        space = vector_rows.make_space(connection, "{}", 2, {})
        chunks = [int(chunk) for (chunk,) in connection.execute("SELECT id FROM chunks").fetchall()]  # type: ignore[call-overload]
        angles = [math.tau * chunk / count for chunk in chunks]
        vectors = [array("f", (math.cos(angle), math.sin(angle))).tobytes() for angle in angles]
        vector_rows.put(connection, space, zip(chunks, [b"%016d" % chunk for chunk in chunks], vectors, strict=True))
        vector_rows.set_state(connection, space, "complete")
    connection.close()
    assert retrieval.residents() == []
    vector = QueryVector("{}", vectors[7], latin=0.5, cjk=0.5, low=0.0, high=1.0)
    hits, info = retrieval.search(path, 1, request("quarry", vector=vector, max_results=1))
    assert hits[0].path == f"{chunks[7] - 1}.md"
    assert info.routes == ("lexical", "resident-float32")
    (kept,) = retrieval.residents()
    assert (kept["route"], kept["rows"], kept["whole"]) == ("resident-float32", count, True)
    assert kept["bytes"] > count * 8
