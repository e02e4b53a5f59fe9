"""A provider that charges: nothing but a little is sent to it unasked, and what was paid for is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import Memory, limits
from memory_sqlite.agent.embedding import Filer
from memory_sqlite.cli import index as index_command
from memory_sqlite.cli.app import root
from memory_sqlite.generations import files

FEW = 3


@pytest.fixture(autouse=True)
def paid(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The provider ``hash`` charges, and three texts are the most that is sent to it unasked."""
    monkeypatch.setattr(limits, "EMBEDDING_UNASKED_TEXTS", FEW)
    return plugin.use(plugin.provider.model, "paid")


@pytest.fixture
def many(workspace: Path) -> int:
    """More notes than are sent unasked; how many."""
    for number in range(FEW + 2):
        (workspace / "memory" / f"n{number}.md").write_text(f"granite {number}\n")
    return FEW + 2


def vectors(memory: Memory) -> dict[str, Any]:
    said: dict[str, Any] = memory.status()["vectors"]
    return said


def test_a_whole_memory_is_sent_on_command_alone(opening: Any, paid: Any, many: int) -> None:
    """Without it the report and the status say how much it would be and what to run; words are found meanwhile."""
    with opening() as memory:
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.embedded, report.missing) == ("unpaid", 0, many)
        assert report.characters >= many * len("granite 0")
        assert paid.model.texts == []
        assert memory.search("granite 1").hits
        assert vectors(memory)["cost"] == "paid"
        assert "index --yes" in vectors(memory)["run"]
        report = memory.index(spend=True).vectors
        assert report is not None
        assert (report.state, report.embedded) == ("complete", many)


def test_a_long_text_is_not_sent_unasked_either(
    opening: Any, paid: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Characters count as well as texts."""
    monkeypatch.setattr(limits, "EMBEDDING_UNASKED_CHARS", 1_000)
    (workspace / "memory" / "long.md").write_text("granite\n" * 200)
    with opening() as memory:
        report = memory.index().vectors
        assert report is not None
        assert report.state == "unpaid"
        assert report.missing <= limits.EMBEDDING_UNASKED_TEXTS and report.characters > 1_000
        assert paid.model.texts == []


def test_what_comes_day_by_day_is_sent(opening: Any, paid: Any, many: int, workspace: Path) -> None:
    """A few new texts beside a memory that has its vectors already."""
    with opening() as memory:
        memory.index(spend=True)
        (workspace / "memory" / "new.md").write_text("marble\n")
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.embedded) == ("complete", 1)


def test_serving_never_sends_a_whole_memory(opening: Any, paid: Any, many: int) -> None:
    """Its thread leaves it to the command, and ``status`` names that, also while it serves."""
    with opening() as memory:
        memory.index()
    with opening(serving=True) as memory:
        report = memory._opened.embedding.fill(spend=False, patient=False)
        assert report.state == "unpaid"
        assert "index --yes" in vectors(memory)["run"]
        assert isinstance(memory._opened.filer, Filer)
    assert paid.model.texts == []


def test_another_paid_model_is_not_paid_for_unasked(opening: Any, plugin: Any, many: int) -> None:
    """The old vectors stay until somebody says that the new ones may be bought."""
    with opening() as memory:
        memory.index(spend=True)
    plugin.use(type(plugin.provider.model)("two", 6), "paid")
    with opening() as memory:
        report = memory.index().vectors
        assert report is not None and report.state == "unpaid"
        others = [(one["model"], one["filed"], one["cost"]) for one in vectors(memory)["others"]]
        assert others == [("one", many, "paid")]
        report = memory.index(spend=True).vectors
        assert report is not None and report.embedded == many
        assert vectors(memory)["others"] == []


def test_a_full_build_and_a_reset_buy_nothing_again(opening: Any, paid: Any, many: int) -> None:
    """The vectors go over; ``reset`` says how many it kept."""
    with opening() as memory:
        memory.index(spend=True)
        memory.index(full=True)
        report = memory.reset()
        assert report.vectors_kept == many
        assert (report.dropped, vectors(memory)["filed"]) == ((2,), many)
    assert len(paid.model.texts) == many


def test_a_reset_that_drops_them_leaves_buying_to_the_command(opening: Any, paid: Any, many: int) -> None:
    """``keep_vectors=False`` is obeyed; nothing is sent for what was dropped."""
    with opening() as memory:
        memory.index(spend=True)
        report = memory.reset(keep_vectors=False)
        assert report.vectors_kept == 0
        assert report.index is not None and report.index.vectors is not None
        assert report.index.vectors.state == "unpaid"
        assert vectors(memory)["filed"] == 0
    assert len(paid.model.texts) == many


def test_free_vectors_are_made_again_by_a_reset(opening: Any, plugin: Any, many: int) -> None:
    """Unless they are asked to be kept."""
    plugin.use(plugin.provider.model)
    with opening() as memory:
        memory.index()
    with opening() as memory:
        assert memory.reset().vectors_kept == 0
        assert len(plugin.provider.model.texts) == 2 * many
        assert memory.reset(keep_vectors=True).vectors_kept == many
        assert len(plugin.provider.model.texts) == 2 * many


def test_after_the_loss_of_every_index_words_are_back_at_once(
    opening: Any, paid: Any, many: int, tmp_path: Path
) -> None:
    """And vectors that cost money only when that is said."""
    with opening() as memory:
        memory.index(spend=True)
        directory = memory._opened.store.directory
    for number in files.numbers(directory):
        files.remove(directory / f"index-{number:06d}.sqlite")
    with opening() as memory:
        assert memory.search("granite 1").hits
        report = memory.index().vectors
        assert report is not None and report.state == "unpaid"
    assert len(paid.model.texts) == many


# --- on the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command over the same agent with the provider ``hash``."""
    monkeypatch.setenv("MEMORY_SQLITE_EMBEDDING_PROVIDER", "hash")

    def run(*words: str, **more: Any) -> Result:
        return CliRunner().invoke(
            root, ["--data-dir", str(tmp_path / "data"), "--workspace", str(workspace), *words], **more
        )

    return run


def test_index_says_what_it_would_cost_before_it_spends(call: Any, paid: Any, many: int) -> None:
    """A script gets exit code 0, the words indexed and the amount; with ``--yes`` it is sent."""
    result = call("index")
    assert result.exit_code == 0
    assert f"Not sent: {many} passages (about " in result.stderr
    assert "memory-sqlite index --yes" in result.stderr
    document = json.loads(call("index", "--json").stdout)
    assert (document["vectors"]["state"], document["vectors"]["missing"]) == ("unpaid", many)
    assert paid.model.texts == []
    result = call("index", "--yes")
    assert f"Vectors: {many} passages embedded by hash one." in result.stdout
    assert len(paid.model.texts) == many


@pytest.mark.parametrize(("answer", "sent"), [("n\n", 0), ("", 0), ("y\n", FEW + 2)])
def test_index_asks_on_a_terminal(
    call: Any, paid: Any, many: int, monkeypatch: pytest.MonkeyPatch, answer: str, sent: int
) -> None:
    """Who would be sent how much; anything but yes sends nothing, and the words are indexed either way."""
    monkeypatch.setattr(index_command, "_is_terminal", lambda: True)
    result = call("index", input=answer)
    assert f"Send {many} passages (about " in result.output
    assert "to hash one, which charges for them?" in result.output
    assert len(paid.model.texts) == sent
    assert call("search", "granite").stdout.count("memory/n") > 0


def test_reset_on_the_command_line_keeps_what_was_paid_for(call: Any, paid: Any, many: int) -> None:
    """Said in one line; dropping it on purpose is told before it is done."""
    call("index", "--yes")
    result = call("reset", "--yes")
    assert f"Kept {many} vectors." in result.stdout
    result = call("reset", "--yes", "--drop-vectors")
    assert f"{many} vectors that cost money would be dropped" in result.stderr
    assert "Not sent" in result.stderr
    assert len(paid.model.texts) == many
