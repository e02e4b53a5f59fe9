"""The harness itself: it measures through the front door, compares, and a loss ends with exit code 3."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import labelled_sets
import pytest
import quality_harness as harness
import run as runner
from invented import NOTHING, QUERIES

pytestmark = pytest.mark.quality

PROMISED: dict[str, dict[str, float]] = {
    "invented": {"hit@1": 0.96, "hit@6": 1.0},
    "workspace": {"hit@1": 0.95, "hit@6": 0.98},
    "bigcorpus": {"hit@1": 150 / 160, "hit@6": 1.0},
    "locomo messages": {"recall@10": 0.80, "mrr": 0.60},
    "locomo sessions": {"hit@5": 0.935},
    "xquad-zh": {"ndcg@10": 0.97},
    "xquad-en": {"ndcg@10": 0.97},
    "scifact": {"ndcg@10": 0.69},
}
"""What words alone must reach; the recorded run is held against it, so that nobody records a loss by mistake."""

PROMISED_WITH: dict[str, dict[str, dict[str, float]]] = {
    "local:multilingual-e5-small": {
        "locomo messages": {"recall@10": 0.82},
        "locomo sessions": {"hit@5": 0.945},
        "xquad-zh": {"ndcg@10": 0.978},
    },
    "local:all-MiniLM-L6-v2": {
        "locomo messages": {"recall@10": 0.82},
        "locomo sessions": {"hit@5": 0.945},
        "scifact": {"ndcg@10": 0.72},
    },
}
"""What they must reach with a model."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> runner.Result:
    """The invented set, asked through ``Memory``."""
    invented = next(one for one in labelled_sets.SETS if one.name == "invented")
    return runner.measure(invented, runner.WORDS, None, tmp_path_factory.mktemp("invented"))["invented"]


def test_a_set_goes_through_the_front_door(measured: runner.Result) -> None:
    """Notes, a transcript and queries without an answer; nearly all first, and nothing where nothing is right."""
    assert (measured.questions, measured.empty, measured.empty_right) == (len(QUERIES), len(NOTHING), len(NOTHING))
    assert measured.figures["hit@1"] >= PROMISED["invented"]["hit@1"]
    assert measured.figures["hit@6"] == 1.0
    assert measured.index_bytes > 0


def test_a_loss_is_told_and_ends_with_three(
    measured: runner.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal figures pass, a fallen one does not; ``--record`` keeps the new ones and passes."""
    monkeypatch.setattr(runner, "measure", lambda *_: {"invented": measured})
    results = tmp_path / "results.json"
    words = ["--set", "invented", "--provider", "none", "--results", str(results)]
    assert runner.main([*words, "--record"]) == 0
    assert runner.main(words) == 0
    fallen = replace(measured, figures={**measured.figures, "mrr": measured.figures["mrr"] - 0.05})
    monkeypatch.setattr(runner, "measure", lambda *_: {"invented": fallen})
    capsys.readouterr()
    assert runner.main(words) == runner.LOST == 3
    shown = capsys.readouterr().out
    assert "(-0.050)" in shown and "invented with none: mrr fell" in shown
    assert runner.main([*words, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["losses"] and document["runs"]["none"]["invented"]["k"] == 6
    assert runner.main([*words, "--record"]) == 0
    assert runner.read(results)["none"]["invented"].figures["mrr"] == fallen.figures["mrr"]


def test_a_provider_is_held_against_words_alone(measured: runner.Result) -> None:
    """Never below them by more than noise, whatever was recorded; an answer where none is right is a loss, too."""
    worse = replace(measured, figures={**measured.figures, "ndcg@6": measured.figures["ndcg@6"] - 0.03})
    told = runner.losses({"none": {"invented": measured}, "static:x": {"invented": worse}}, {})
    assert told == [line for line in told if "static:x" in line and "words alone" in line] and len(told) == 1
    talkative = replace(measured, empty_right=0)
    (told_of_nothing,) = runner.losses({"none": {"invented": talkative}}, {"none": {"invented": measured}})
    assert "nothing fell" in told_of_nothing


def test_other_figures_stay_when_one_is_recorded(measured: runner.Result, tmp_path: Path) -> None:
    """A run of one set does not forget the others."""
    results = tmp_path / "results.json"
    runner.record(results, {"none": {"a": measured, "b": measured}})
    runner.record(results, {"none": {"b": replace(measured, questions=7)}, "static:x": {"a": measured}})
    kept = runner.read(results)
    assert kept["none"]["a"] == measured and kept["none"]["b"].questions == 7 and "a" in kept["static:x"]


def test_the_recorded_run_keeps_what_is_promised() -> None:
    """Words alone, every set, over the promised figures; for each provider nowhere below words by more than noise."""
    recorded = runner.read(runner.RESULTS)
    for name, promised in PROMISED.items():
        for figure, least in promised.items():
            assert recorded[runner.WORDS][name].figures[figure] >= least, (name, figure)
    for provider, sets in PROMISED_WITH.items():
        for name, promised in sets.items():
            for figure, least in promised.items():
                assert recorded[provider][name].figures[figure] >= least, (provider, name, figure)
    known: dict[str, Any] = {provider: sets for provider, sets in recorded.items() if provider != runner.WORDS}
    assert runner.losses(known, {runner.WORDS: recorded[runner.WORDS]}) == []


def test_every_external_set_is_known(external: Path) -> None:
    """With the data there, all sets are present."""
    assert labelled_sets.present(external) == list(labelled_sets.SETS)
    assert harness.data_folder() is not None
