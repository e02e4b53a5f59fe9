"""The models that run here: loading, a question, texts, memory; for each whose package is installed.

    python tests/benchmarks/bench_embedding.py [--json]

Each model is measured in a child process of its own with one thread, in CPU time, as the embedding worker runs it but
without the pipe. Texts are invented sentences of about 130 words, the size of a chunk.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time

from common import Figure, p50, report

from memory_sqlite import errors
from memory_sqlite.embeddings import catalogue
from memory_sqlite.embeddings.models import loading

SAID = """router hall green tea degrees flight Friday budget meeting notes kitchen garden window report invoice train
station morning paper update release branch server network memory search index question answer letter harbour crane"""
TEXTS = 24
QUESTIONS = 15


def sentence(source: random.Random, words: int) -> str:
    known = SAID.split()
    return " ".join(source.choice(known) for _ in range(words)) + "."


def measure(name: str) -> dict[str, float]:
    """In the child: one model, by its name."""
    model = next(model for model in catalogue.MODELS if model.name == name)
    source = random.Random(1)
    texts = [sentence(source, 130) for _ in range(TEXTS)]
    questions = [sentence(source, 8) for _ in range(QUESTIONS)]
    before = time.process_time()
    loaded = loading.load(model.kind, model.directory(), dict(model.files))
    load_s = time.process_time() - before
    loaded.vectors(questions[:1], True)
    asked = []
    for question in questions:
        before = time.process_time()
        loaded.vectors([question], True)
        asked.append(time.process_time() - before)
    before = time.process_time()
    loaded.vectors(texts, False)
    texts_s = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"load_s": load_s, "question_s": p50(asked), "texts_s": texts_s, "peak_mib": peak}


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--child":
        print(json.dumps(measure(sys.argv[2])))
        return
    figures = []
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    for model in catalogue.MODELS:
        try:
            model.directory()
        except errors.ExtraMissing:
            print(f"{model.name}: not installed", file=sys.stderr)
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--child", model.name],
            env=os.environ | threads,
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        figures += [
            Figure(f"{model.name}: load", found["load_s"], "s CPU"),
            Figure(f"{model.name}: a question", found["question_s"] * 1000, "ms CPU"),
            Figure(f"{model.name}: chunks of 130 words", TEXTS / found["texts_s"], "a CPU second"),
            Figure(f"{model.name}: peak memory", found["peak_mib"], "MiB"),
        ]
    if figures:
        report(figures)


if __name__ == "__main__":
    main()
