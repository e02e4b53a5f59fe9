"""The measures by hand-made answers whose figures can be worked out on paper, and the rule of noise."""

from __future__ import annotations

import math

import pytest

from memory_sqlite.evaluation.comparing import TOLERANCE, differences, lost, tolerance
from memory_sqlite.evaluation.metrics import Scores, percentile


def test_a_right_first_hit_is_everything() -> None:
    """One label, found first: all measures are 1."""
    scores = Scores()
    scores.add(["a", "b"], ["a"], 10)
    assert set(scores.figures(10).values()) == {1.0}


def test_figures_of_two_questions() -> None:
    """Two labels of which one is found at rank 2; one label that is not found: worked out by hand."""
    scores = Scores()
    scores.add(["x", "a", "y"], ["a", "b"], 10)
    scores.add(["x", "y"], ["c"], 10)
    gain = (1 / math.log2(3)) / (1 / math.log2(2) + 1 / math.log2(3))
    assert scores.figures(10) == {
        "recall@10": 0.25, "hit@1": 0.0, "hit@3": 0.5, "hit@5": 0.5, "hit@10": 0.5, "ndcg@10": round(gain / 2, 4),
        "mrr": 0.25,
    }  # fmt: skip
    assert (scores.count, scores.ranks, scores.hit_at(1), scores.hit_at(2)) == (2, [2, None], 0, 1)


def test_only_the_first_k_count_and_a_label_counts_once() -> None:
    """Two passages of one note are one document; what comes after k is not seen."""
    scores = Scores()
    scores.add(["a", "a", "b", "c"], ["c"], 2)
    scores.add(["a", "a", "c"], ["c"], 2)
    assert scores.ranks == [None, 2]
    assert "hit@5" not in scores.figures(2)


def test_no_question_has_no_figures() -> None:
    """Nothing measured is nothing, not zero."""
    assert Scores().figures(10) == {}
    assert (Scores().recall, Scores().ndcg, Scores().mrr) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, 0.0), ([3.0], 0.95, 3.0), ([1, 2, 3, 4], 0.5, 2), (range(1, 101), 0.95, 95), ([5, 1], 0.0, 1)],
)
def test_percentile_is_a_value_that_was_measured(values: list[float], share: float, expected: float) -> None:
    """Nearest rank: never a number between two."""
    assert percentile(values, share) == expected


def test_noise_is_three_thousandths_or_one_question() -> None:
    """Large sets may lose .003 of a figure, small ones one question; more is a loss."""
    assert (tolerance(1_000), tolerance(50), tolerance(0)) == (TOLERANCE, 0.02, TOLERANCE)
    before = {"recall@10": 0.81, "mrr": 0.6, "gone": 1.0}
    assert lost(before, {"recall@10": 0.807, "mrr": 0.61}, 1_000) == ()
    assert lost(before, {"recall@10": 0.8069, "mrr": 0.5}, 1_000) == ("recall@10", "mrr")
    assert lost(before, {"recall@10": 0.79, "mrr": 0.6}, 50) == ()
    one, two = ({"hit@1": round((71 - wrong) / 71, 4)} for wrong in (1, 2))  # the rounding is no second question
    assert (lost({"hit@1": 1.0}, one, 71), lost({"hit@1": 1.0}, two, 71)) == ((), ("hit@1",))
    assert differences(before, {"mrr": 0.65, "new": 1.0}) == {"mrr": 0.05}
