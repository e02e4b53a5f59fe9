"""Warm lexical search over many chunks, against its own bare first-stage statement.

    python tests/benchmarks/bench_search.py [--chunks 200000] [--json]

The corpus is invented: Zipf-distributed words, about 60 a chunk, every tenth chunk Chinese. Queries have two to six
words of every frequency. The first-stage statement of each query is recorded while it runs and then run again alone.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from common import Figure, p50, report

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.storage import connection as connections

CJK = "今天讨论了数据库迁移方案和服务器部署计划预算会议合同发票东京上海端口网络日志备份"


def corpus(chunks: int) -> tuple[list[str], list[str]]:
    rng = random.Random(3)
    vocabulary = [
        "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9))) for _ in range(60_000)
    ]
    weights = [1 / (rank + 2.7) for rank in range(len(vocabulary))]
    stream = rng.choices(vocabulary, weights, k=chunks * 60)
    texts = []
    for number in range(chunks):
        words = " ".join(stream[number * 60 : number * 60 + 60])
        if number % 10 == 0:
            words += " " + "".join(rng.choice(CJK) for _ in range(40))
        texts.append(words)
    return texts, vocabulary


def main() -> None:
    chunks = int(sys.argv[sys.argv.index("--chunks") + 1]) if "--chunks" in sys.argv else 200_000
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        texts, vocabulary = corpus(chunks)
        path = directory / "index-000001.sqlite"
        connection = connections.create_index(path, None)
        started = time.process_time()
        with connection:
            layout.create(connection, {})
        for first in range(0, chunks, 5_000):
            with connection:
                for number in range(first, min(first + 5_000, chunks)):
                    note = f"memory/n{number:06d}.md"
                    rows.put_document(
                        connection,
                        Document("note", note, "memory", note, (Chunk(texts[number], 1, 1),), str(number), None),
                    )
        with connection:
            rows.finish(connection)
        build = time.process_time() - started
        connection.close()
        report([Figure("build", build, "CPU s"), *search(path, vocabulary)])
    finally:
        shutil.rmtree(directory)


def search(path: Path, vocabulary: list[str]) -> list[Figure]:
    rng = random.Random(4)
    connection = connections.open_index_reader(path)
    filters = Filters(OPERATOR)
    queries = []
    for _ in range(60):
        words = [vocabulary[int(len(vocabulary) * rng.random() ** 3)] for _ in range(rng.randint(2, 6))]
        queries.append(" ".join(words))
    queries += ["数据库迁移", "上海端口", "备份"]
    ours, bare = [], []
    for query in queries * 2:
        statements: list[tuple[str, object]] = []

        def note(_cursor: object, sql: str, bindings: object, into: list[tuple[str, object]] = statements) -> bool:
            into.append((sql, bindings))
            return True

        connection.exec_trace = note
        run.search(connection, query, filters, now_ms=0, max_results=6, max_bytes=16 << 20)
        connection.exec_trace = None
        started = time.perf_counter()
        run.search(connection, query, filters, now_ms=0, max_results=6, max_bytes=16 << 20)
        ours.append(time.perf_counter() - started)
        first = [one for one in statements if "MATCH" in one[0].upper() and "LIMIT" in one[0].upper()]
        started = time.perf_counter()
        for sql, bindings in first[:1]:
            connection.execute(sql, bindings).fetchall()  # type: ignore[arg-type]
        bare.append(time.perf_counter() - started)
    connection.close()
    return [
        Figure("search p50", p50(ours) * 1000, "ms"),
        Figure("bare first-stage statement p50", p50(bare) * 1000, "ms"),
        Figure("search / first stage", p50(ours) / p50(bare), "x", "<= 1.5"),
    ]


if __name__ == "__main__":
    main()
