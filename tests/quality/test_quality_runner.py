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

from memory_sqlite import errors
from memory_sqlite.embeddings.registry import REGISTRY

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


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("nobody:home", "no provider that is installed"),
        ("none:x", "provider"),
        ("local:no-such-model", "local"),
        ("", "provider"),
    ],
)
def test_a_provider_that_is_not_there_is_told_before_anything_is_measured(
    provider: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One sentence, exit code 2, no traceback; also when it stands behind one that is there."""
    monkeypatch.setattr(runner, "measure", lambda *_: pytest.fail("it was measured"))
    words = ["--set", "invented", "--provider", "none", "--provider", provider, "--results", str(tmp_path / "r.json")]
    assert runner.main(words) == runner.UNUSABLE == 2
    told = capsys.readouterr()
    assert told.out == "" and said in told.err and "Installed: none" in told.err and "Traceback" not in told.err


def test_a_provider_that_fails_while_it_is_asked_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its package is there and does not load: the answer's warning, and no figures that are those of words."""

    def broken(settings: Any) -> Any:
        raise errors.InvalidConfiguration("its weights are gone")

    REGISTRY.plugin("tests", ["broken"]).register("broken", broken)
    try:
        monkeypatch.setattr(runner, "check_provider", lambda provider: None)
        results = tmp_path / "r.json"
        assert runner.main(["--set", "invented", "--provider", "broken", "--results", str(results), "--record"]) == 2
        assert "invented with broken: " in capsys.readouterr().err and not results.exists()
    finally:
        REGISTRY.retire("tests", 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"runs": []}',
        b'{"runs": {"none": {"invented": {"figures": 1}}}}',
        b'{"runs": {"none": {"invented": {"k": 6, "questions": 1, "figures": {"mrr": "high"}}}}}',
        b'{"runs": {"none": {"invented": {"k": 6, "questions": 1, "figures": {}, "categories": {"a": 1}}}}}',
    ],
)
def test_a_file_of_results_that_is_none_is_told_and_kept(
    content: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before anything is measured, with exit code 2; ``--record`` does not write over it."""
    monkeypatch.setattr(runner, "measure", lambda *_: pytest.fail("it was measured"))
    results = tmp_path / "r.json"
    results.write_bytes(content)
    assert runner.main(["--set", "invented", "--provider", "none", "--results", str(results), "--record"]) == 2
    assert "is no file of results" in capsys.readouterr().err
    assert results.read_bytes() == content


def test_results_that_cannot_be_written_are_told(
    measured: runner.Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The figures were shown; what failed is the file."""
    monkeypatch.setattr(runner, "measure", lambda *_: {"invented": measured})
    results = tmp_path / "nowhere" / "r.json"
    assert runner.main(["--set", "invented", "--provider", "none", "--results", str(results), "--record"]) == 2
    told = capsys.readouterr()
    assert "invented" in told.out and "cannot be written" in told.err


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
