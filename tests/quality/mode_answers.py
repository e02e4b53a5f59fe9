"""The invented set asked by words and vectors in the process that this is run in: figures, answers and routes as JSON.

    python tests/quality/mode_answers.py FOLDER

Not a test module: ``test_quality_modes`` runs it with parts of the machine taken away, and compares. Its provider is
plain Python, so that the same vectors are there whatever is not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import labelled_sets
import run as runner

from memory_sqlite import Memory, limits
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY
from memory_sqlite.search import fusion

DIMENSIONS: Final = 64


class Trigrams:
    """A text is the sum of its three-letter pieces, each thrown on one of 64 axes. Knows no meaning; costs nothing."""

    cost: CostClass = "free"
    limits = InputLimits(text_chars=4_000, batch_texts=64, batch_chars=64_000)
    weight = Weight(latin=0.3, cjk=0.3, other=0.3, low=0.3, high=1.0, floor=0.95)
    identity = EmbeddingIdentity("trigrams", "crc32", DIMENSIONS)

    def load(self, timeout_s: float) -> None:
        pass

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        vector = [0.0] * DIMENSIONS
        padded = f" {text.casefold()} "
        for place in range(len(padded) - 2):
            vector[crc32(padded[place : place + 3].encode("utf-8", "replace")) % DIMENSIONS] += 1.0
        return vector

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> list[Sequence[float]]:
        return [self.embed_query(text, timeout_s) for text in texts]

    def close(self) -> None:
        pass


def answers(folder: Path, queries: Iterable[str], *, serving: bool) -> dict[str, Any]:
    """What each query finds, with its score, and by which routes; then what ``status`` says."""
    # a busy machine must not cost answers their vectors
    slowest = limits.EMBEDDING_QUERY_TIMEOUT_MS[1]
    settings = Settings(
        data_dir=folder / "data-0",
        workspace=folder / "workspace",
        retention_days=None,
        embedding_provider="trigrams",
        embedding_query_timeout_ms=slowest,
    )
    found: dict[str, list[tuple[str, str, float]]] = {}
    routes: set[str] = set()
    warnings: set[str] = set()
    with Memory.open(settings=settings, serving=serving, clock=FixedClock(labelled_sets.harness.NOW_MS)) as memory:
        assert memory.index().vectors is not None  # its model is loaded
        for query in queries:
            page = memory.search(query, max_results=6)
            found[query] = [(hit.source, hit.excerpt, round(hit.score, 6)) for hit in page.hits]
            routes.update(page.routes)
            warnings.update(page.warnings)
        told = memory.status()["vectors"]
    return {
        "answers": found,
        "routes": sorted(routes),
        "warnings": sorted(warnings),
        "status": told["route"],
        "resident": [one["route"] for one in told["resident"]],
    }


def main(folder: Path) -> dict[str, Any]:
    """Fill a memory in ``folder``, measure it, and ask it again: in this process, and by a worker."""
    REGISTRY.plugin("modes", ["trigrams"]).register("trigrams", lambda settings: Trigrams())
    invented = next(one for one in labelled_sets.SETS if one.name == "invented")
    measured = runner.measure(invented, "trigrams:", None, folder)["invented"]
    queries = [query for query, _ in labelled_sets.QUERIES] + list(labelled_sets.NOTHING)
    return {
        "figures": asdict(measured),
        "nearest": fusion.NEAREST,
        "here": answers(folder, queries, serving=False),
        "served": answers(folder, queries, serving=True),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
