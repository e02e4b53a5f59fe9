"""A question of four words over 50,000 chunks: ours, bare FTS5 and Tantivy in one run, each asked for any of the words.

    python tests/benchmarks/bench_engines.py [--chunks 50000] [--json]

The corpus is that of ``bench_search``. FTS5 has one column of text, porter, ``ORDER BY bm25 LIMIT 10``; Tantivy, where
it is installed, one field with English stems, ten hits, no document read. Ours gives six hits with excerpts, duplicates
collapsed. The three rank by different formulas, so times are compared and nothing else.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw
from bench_search import corpus
from common import Figure, p50, report

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.storage import connection as connections

ROUNDS = 200


def ours(directory: Path, texts: list[str]) -> Callable[[str], object]:
    path = directory / "index-000001.sqlite"
    connection = connections.create_index(path, None)
    with connection:
        layout.create(connection, {})
        for number, text in enumerate(texts):
            note = f"memory/n{number:06d}.md"
            rows.put_document(
                connection, Document("note", note, "memory", note, (Chunk(text, 1, 1),), str(number), None)
            )
        rows.finish(connection)
    connection.close()
    reader = connections.open_index_reader(path)
    filters = Filters(OPERATOR)
    return lambda query: run.search(reader, query, filters, now_ms=0, max_results=6, max_bytes=16 << 20)


def bare(directory: Path, texts: list[str]) -> Callable[[str], object]:
    connection = apsw.Connection(str(directory / "bare.sqlite"))
    with connection:
        connection.execute("CREATE VIRTUAL TABLE f USING fts5(text, tokenize='porter unicode61')")
        connection.executemany("INSERT INTO f VALUES (?)", ((text,) for text in texts))
        connection.execute("INSERT INTO f (f) VALUES ('optimize')")
    statement = "SELECT rowid, bm25(f) AS score FROM f WHERE f MATCH ? ORDER BY score LIMIT 10"
    return lambda query: connection.execute(statement, (query.replace(" ", " OR "),)).fetchall()


def tantivy(texts: list[str]) -> Callable[[str], object] | None:
    try:
        import tantivy as engine
    except ImportError:
        return None
    schema = engine.SchemaBuilder().add_text_field("text", tokenizer_name="en_stem").build()
    index = engine.Index(schema)
    writer = index.writer()
    for text in texts:
        writer.add_document(engine.Document(text=[text]))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    return lambda query: searcher.search(index.parse_query(query, ["text"]), 10)


def main() -> None:
    chunks = int(sys.argv[sys.argv.index("--chunks") + 1]) if "--chunks" in sys.argv else 50_000
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        texts, vocabulary = corpus(chunks)
        engines = {"ours": ours(directory, texts), "bare FTS5": bare(directory, texts), "tantivy": tantivy(texts)}
        rng = random.Random(4)
        queries = [
            " ".join(vocabulary[int(len(vocabulary) * rng.random() ** 3)] for _ in range(4)) for _ in range(ROUNDS)
        ]
        times: dict[str, list[float]] = {name: [] for name, ask in engines.items() if ask is not None}
        cpu: dict[str, list[float]] = {name: [] for name in times}
        for query in queries[:20] + queries:  # the first are for the caches; all engines by turns
            for name in times:
                ask = engines[name]
                assert ask is not None
                started, worked = time.perf_counter(), time.process_time()
                ask(query)
                times[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - worked)
        medians = {name: p50(samples[20:]) for name, samples in times.items()}
        figures = [Figure(f"{name} p50", value * 1000, "ms") for name, value in medians.items()]
        figures += [Figure(f"{name}, CPU p50", p50(samples[20:]) * 1000, "ms") for name, samples in cpu.items()]
        figures += [
            Figure(f"ours / {name}", medians["ours"] / medians[name], "x") for name in medians if name != "ours"
        ]
        report(figures)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
