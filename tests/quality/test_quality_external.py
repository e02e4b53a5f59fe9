"""Labelled sets that nobody here invented: words alone must reach these figures.

The thresholds are those the project promises; what was measured when this was written stands beside each. Sets are
read from outside the repository and skipped when absent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import quality_harness as harness

pytestmark = pytest.mark.quality

CJK_IDS = {f"q{number}" for number in (*range(16, 30), 49, 63, 78, 79, 80)}


@pytest.fixture(scope="module")
def workspace(external: Path) -> tuple[list[list[Any]], dict[str, list[str]]]:
    baseline = external / "openclaw-baseline"
    queries = json.loads((baseline / "queries.json").read_text("utf-8"))
    connection = harness.index(harness.workspace_documents(baseline / "workspace"))
    return queries, harness.labelled(connection, queries)


@pytest.fixture(scope="module")
def bigcorpus(external: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[Any]], dict[str, list[str]]]:
    target = tmp_path_factory.mktemp("bigcorpus")
    queries = harness.make_bigcorpus(external, target)
    return queries, harness.labelled(harness.index(harness.workspace_documents(target)), queries)


def test_workspace_queries(workspace: tuple[list[list[Any]], dict[str, list[str]]]) -> None:
    """First hit right for 95 %, any expected file in six for 98 % (measured 70 and 70 of 71; one is cross-lingual)."""
    queries, found = workspace
    scores = harness.scored(found, queries, lambda query: True)
    assert scores.hit_at(1) >= 0.95 * len(scores.ranks)
    assert scores.hit_at(6) >= 0.98 * len(scores.ranks)


def test_workspace_queries_in_cjk_are_all_answered(workspace: tuple[list[list[Any]], dict[str, list[str]]]) -> None:
    """Every Chinese, Japanese and Korean query finds an expected file (the peer: 6 of 19 by default)."""
    queries, found = workspace
    scores = harness.scored(found, queries, lambda query: query[0] in CJK_IDS)
    assert len(scores.ranks) == len(CJK_IDS)
    assert scores.hit_at(6) == len(scores.ranks)


def test_workspace_queries_without_content_find_nothing(
    workspace: tuple[list[list[Any]], dict[str, list[str]]],
) -> None:
    """Empty, blank, stop words, an operator, a word that occurs nowhere."""
    queries, found = workspace
    texts = {query[0]: query[1] for query in queries}
    for name in harness.WITHOUT_CONTENT:
        assert found[name] == [], texts[name]


def test_bigcorpus(bigcorpus: tuple[list[list[Any]], dict[str, list[str]]]) -> None:
    """All in six; all ids, codes and Chinese numbers first; sentences mostly (measured 32 of 40 first, 152 in all)."""
    queries, found = bigcorpus
    scores = {kind: harness.scored(found, queries, lambda query, k=kind: query[0][0] == k) for kind in "tcnz"}
    assert [scores[kind].hit_at(6) for kind in "tcnz"] == [60, 40, 40, 20]
    assert [scores[kind].hit_at(1) for kind in "tcz"] == [60, 40, 20]
    assert scores["n"].hit_at(1) >= 30
    assert sum(kind.hit_at(1) for kind in scores.values()) >= 150


def test_locomo(external: Path) -> None:
    """Evidence messages R@10 .80, MRR .60; sessions hit@5 .935 (measured .810, .605, .939)."""
    scores = harness.locomo(external)
    assert scores["message"].recall >= 0.80
    assert scores["message"].mrr >= 0.60
    assert scores["session"].hit_at(5) >= 0.935 * len(scores["session"].ranks)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_xquad(external: Path, language: str) -> None:
    """nDCG@10 .97 in Chinese and English (measured .971 and .970)."""
    assert harness.xquad(external, language).ndcg >= 0.97


def test_scifact(external: Path) -> None:
    """nDCG@10 .69 (measured .695)."""
    assert harness.scifact(external).ndcg >= 0.69
