"""Vector search over one generation by every route, against the same vectors in other engines.

    python tests/benchmarks/bench_vectors.py [--rows 200000] [--dimensions 384] [--vectors FILE.npy] [--no-graphs]
                                             [--json]

The vectors are invented (2,000 topics, a falling spectrum, all of them to one side) unless a file of real ones is
named: those are repeated with a little noise until there are enough. A twentieth of the rows is of one session: the
filter. NumPy has one thread, as in a worker. Beside the wall time stands the CPU time, which a busy machine does not
change as much.

Needs the extra ``vectors``; ``usearch`` and ``hnswlib`` are measured where they are installed (building their graphs
takes most of the time).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from common import Figure, p50, report
from numpy.typing import NDArray

from memory_sqlite.generations import layout, vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import extension
from memory_sqlite.search.vectors.allowed import EVERYTHING, Allowed
from memory_sqlite.search.vectors.nearest import Nearest, nearest
from memory_sqlite.search.vectors.resident import Resident
from memory_sqlite.search.vectors.residents import one_thread
from memory_sqlite.storage import connection as connections

TWENTIETH = Allowed('filter : ("session=3.")')
QUESTIONS = 60
Vectors = NDArray[np.float32]
Ask = Callable[[Vectors], list[int]]


def argument(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def invented(rows: int, dimensions: int) -> Callable[[int], Vectors]:
    """A source of vectors: each call gives so many more of the same kind."""
    rng = np.random.default_rng(1)
    spectrum = np.arange(1, dimensions + 1) ** -0.5
    centres = rng.standard_normal((2_000, dimensions))
    rotation = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))[0]
    aside = rng.standard_normal(dimensions) * 0.5 * spectrum.mean()

    def more(count: int) -> Vectors:
        chosen = centres[rng.integers(0, 2_000, count)] + 0.7 * rng.standard_normal((count, dimensions))
        return normalised((chosen * spectrum) @ rotation + aside)

    return more


def repeated(file: str) -> Callable[[int], Vectors]:
    """Real vectors, again and again with noise of a third of their spread; the questions are none of the first rows."""
    real = np.load(file).astype(np.float32)
    real = real[np.abs(real).sum(axis=1) > 0]
    rng = np.random.default_rng(2)
    real = real[rng.permutation(len(real))]
    spread = real.std(axis=0) / 3
    given = 0

    def more(count: int) -> Vectors:
        nonlocal given
        places = np.arange(given, given + count)
        noise = rng.standard_normal((count, real.shape[1])) * spread * (places >= len(real))[:, None]
        given += count
        return normalised(real[places % len(real)] + noise)

    return more


def normalised(vectors: NDArray[Any]) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")


def fill(connection: apsw.Connection, vectors: Vectors) -> Space:
    """Documents, chunks, filter tokens and vectors of so many messages, without their words."""
    run = connection.executemany
    numbers = range(1, len(vectors) + 1)
    with connections.writing(connection):
        layout.create(connection, {})
        space = vector_rows.make_space(connection, "{}", vectors.shape[1], {})
        run(
            "INSERT INTO documents (id, kind, key, source, path, hash, at, layer, title, session_id, owner_private, "
            "origin, details) VALUES (?, 'message', ?, 'sessions', 'p', '', ?, 'L0', '', ?, 0, 'owner', '{}')",
            ((number, str(number), number, number % 20) for number in numbers),
        )
        run(
            "INSERT INTO chunks (id, document_id, ordinal, start_line, end_line, text, heading, triggers, projects, "
            "text_hash, tokens, line_starts, flags) VALUES (?, ?, 0, 1, 1, ?, '', '[]', '[]', x'', 1, x'', 0)",
            ((number, number, "x" * 800) for number in numbers),
        )
        run(
            "INSERT INTO lexical (rowid, body, filter) VALUES (?, '', ?)",
            (
                (
                    number,
                    layout.filter_tokens(
                        kind="message", source="sessions", layer="L0", session_id=number % 20, owner_private=False
                    ),
                )
                for number in numbers
            ),
        )
        rows = ((n, n.to_bytes(16, "big"), vectors[n - 1].tobytes()) for n in numbers)
        vector_rows.put(connection, space, rows)
        connection.execute("INSERT INTO lexical (lexical) VALUES ('optimize')").fetchall()
    return space


class Bench:
    """The questions, the truth, and the figures so far."""

    def __init__(self, rows: Vectors, questions: Vectors) -> None:
        self.rows = rows
        self.questions = questions
        self.figures: list[Figure] = []
        of_session = np.arange(1, len(rows) + 1) % 20 == 3
        self.truth = {False: self._truth(np.ones(len(rows), np.bool_)), True: self._truth(of_session)}

    def _truth(self, keep: NDArray[Any]) -> list[set[int]]:
        numbers = np.flatnonzero(keep)
        scores = self.questions @ self.rows[numbers].T
        return [set((numbers[np.argsort(-row, kind="stable")[:10]] + 1).tolist()) for row in scores]

    def add(self, name: str, value: float, unit: str, aim: str = "") -> None:
        self.figures.append(Figure(name, value, unit, aim))

    def route(
        self, name: str, ask: Ask, *, filtered: bool = False, rounds: int = QUESTIONS, aim: str = "", first: Any = None
    ) -> None:
        """p50 of ``ask`` over the questions, and how much of the truth it finds. ``first`` runs before each of them."""
        samples, cpu, right = [], [], 0
        for question, truth in list(zip(self.questions, self.truth[filtered], strict=True))[:rounds]:
            if first is not None:
                first()
            started, used = time.perf_counter(), time.process_time()
            found = ask(question)
            samples.append(time.perf_counter() - started)
            cpu.append(time.process_time() - used)
            right += len(truth & set(found))
        self.add(f"{name}, p50", p50(samples) * 1000, "ms", aim)
        self.add(f"{name}, CPU", p50(cpu) * 1000, "ms")
        self.add(f"{name}, recall@10", right / (10 * len(samples)), "")


def ours(bench: Bench, path: Path, space: Space) -> None:
    connection = connections.open_index_reader(path)
    resident = Resident(space)
    started, cpu = time.perf_counter(), time.process_time()
    if not resident.refresh(connection):
        raise SystemExit("the space does not fit into the memory that a worker may take")
    bench.add("resident: load of the generation, wall", time.perf_counter() - started, "s")
    bench.add("resident: load of the generation, CPU", time.process_time() - cpu, "s")
    bench.add("resident: memory", resident.bytes / 1e6, "MB", "<= 100")
    for depth, handed_on in enumerate(resident.describe()["handed_on"]):
        bench.add(f"resident: rows handed on by bits ({('ten', 'a hundred')[depth]})", handed_on or 0, "rows")

    def by(allowed: Allowed, k: int = 10, **how: Any) -> Ask:
        def ask(question: Vectors) -> list[int]:
            found: Nearest = nearest(connection, space, question.tobytes(), allowed, k, **how)
            assert found.unavailable is None
            return [chunk for chunk, _ in found.rows[:10]]

        return ask

    name = resident.route
    bench.route(name, by(EVERYTHING, resident=resident), aim="<= 5")
    bench.route(f"{name}, a hundred neighbours", by(EVERYTHING, 100, resident=resident))
    forget = resident._allowed.clear  # a filter that was not asked before
    bench.route(f"{name}, 5 %, new filter", by(TWENTIETH, resident=resident), filtered=True, aim="<= 6", first=forget)
    bench.route(f"{name}, 5 %, filter again", by(TWENTIETH, resident=resident), filtered=True)
    bench.route("sqlite-vec over our rows", by(EVERYTHING, route="sqlite-vec"), rounds=15)
    bench.route("sqlite-vec over our rows, 5 %", by(TWENTIETH, route="sqlite-vec"), filtered=True, rounds=15)
    bench.route("exact-numpy, rows read each time", by(EVERYTHING, route="exact-numpy"), rounds=5)
    bench.route("exact-python", by(EVERYTHING, route="exact-python"), rounds=3)
    connection.close()


def vec0(bench: Bench, path: Path) -> None:
    """The same vectors in a table of sqlite-vec's own, with the session as partition and as column."""
    connection = apsw.Connection(str(path))
    extension.load(connection)
    dimensions = bench.rows.shape[1]
    connection.execute(
        f"CREATE VIRTUAL TABLE v USING vec0(id INTEGER PRIMARY KEY, session INTEGER PARTITION KEY, of INTEGER, "
        f"e FLOAT[{dimensions}])"
    ).fetchall()
    connection.execute(
        f"CREATE VIRTUAL TABLE whole USING vec0(id INTEGER PRIMARY KEY, of INTEGER, e FLOAT[{dimensions}])"
    ).fetchall()
    for statement, columns in (
        ("INSERT INTO v VALUES (?1, ?2, ?2, ?3)", "with a partition"),
        ("INSERT INTO whole VALUES (?1, ?2, ?3)", "without"),
    ):
        started = time.perf_counter()
        with connection:
            connection.executemany(
                statement, ((n, n % 20, bench.rows[n - 1].tobytes()) for n in range(1, len(bench.rows) + 1))
            )
        bench.add(f"vec0 {columns}: build", time.perf_counter() - started, "s")
    bench.add("vec0: size of both on disk", path.stat().st_size / 1e6, "MB")

    def by(table: str, condition: str) -> Ask:
        return lambda question: [
            int(row[0])  # type: ignore[arg-type]
            for row in connection.execute(
                f"SELECT id FROM {table} WHERE e MATCH ? AND k = 10 {condition}", (question.tobytes(),)
            )
        ]

    bench.route("vec0 float", by("whole", ""), rounds=15)
    bench.route("vec0 float, 5 % by column", by("whole", "AND of = 3"), filtered=True, rounds=15)
    bench.route("vec0 float, 5 % by partition", by("v", "AND session = 3"), filtered=True, rounds=15)
    bench.route("vec0 float, with partitions, no filter", by("v", ""), rounds=15)
    connection.close()


def in_memory(bench: Bench) -> list[str]:
    """NumPy and the two libraries, all with float32 in memory; what is not installed is said."""

    def matrix(question: Vectors) -> list[int]:
        scores = bench.rows @ question
        return (np.argpartition(-scores, 10)[:10] + 1).tolist()  # type: ignore[no-any-return]

    bench.route("NumPy exact, float32 matrix", matrix)
    bench.add("NumPy exact: memory", bench.rows.nbytes / 1e6, "MB")
    keys = np.arange(1, len(bench.rows) + 1)
    if "--no-graphs" in sys.argv:
        return []
    said = []
    try:
        from usearch.index import Index

        index = Index(ndim=bench.rows.shape[1], metric="ip", dtype="f32")
        started = time.perf_counter()
        index.add(keys, bench.rows)
        bench.add("usearch: build", time.perf_counter() - started, "s")
        bench.add("usearch: memory", index.memory_usage / 1e6, "MB")
        bench.route("usearch", lambda question: index.search(question, 10).keys.tolist())
        exact = Index(ndim=bench.rows.shape[1], metric="ip", dtype="f32")
        exact.add(keys, bench.rows)
        bench.route("usearch exact", lambda q: exact.search(q, 10, exact=True).keys.tolist(), rounds=15)
    except ImportError:
        said.append("usearch: not installed")
    try:
        import hnswlib

        graph = hnswlib.Index(space="ip", dim=bench.rows.shape[1])
        graph.init_index(max_elements=len(bench.rows), ef_construction=200, M=16)
        started = time.perf_counter()
        graph.add_items(bench.rows, keys)
        bench.add("hnswlib: build", time.perf_counter() - started, "s")
        graph.set_ef(100)
        bench.route("hnswlib, ef 100", lambda question: graph.knn_query(question, k=10)[0][0].tolist())
    except ImportError:
        said.append("hnswlib: not installed")
    return said


def main() -> None:
    rows, dimensions = int(argument("--rows", "200000")), int(argument("--dimensions", "384"))
    more = repeated(argument("--vectors", "")) if "--vectors" in sys.argv else invented(rows, dimensions)
    questions = more(QUESTIONS)
    bench = Bench(more(rows), questions)
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        path = directory / "index-000001.sqlite"
        connection = connections.create_index(path, None)
        started = time.perf_counter()
        space = fill(connection, bench.rows)
        connection.close()
        bench.add("generation: build, vectors and filter tokens", time.perf_counter() - started, "s")
        bench.add("generation: size on disk", path.stat().st_size / 1e6, "MB")
        ours(bench, path, space)
        vec0(bench, directory / "vec0.sqlite")
        said = in_memory(bench)
        report(bench.figures)
        for line in said if "--json" not in sys.argv else ():
            print(line)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    if "OPENBLAS_NUM_THREADS" not in os.environ:  # NumPy is loaded by now, and has asked
        one_thread()
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
