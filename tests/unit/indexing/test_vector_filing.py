"""Filing vectors: batch by batch, outside transactions, only where the chunk still says what was embedded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.embeddings.protocol import InputLimits
from memory_sqlite.indexing import vector_inputs
from memory_sqlite.indexing.vector_filing import Filling, batches
from memory_sqlite.indexing.vector_inputs import Input


def note(workspace: Path, name: str, text: str) -> None:
    (workspace / "memory" / f"{name}.md").write_text(text, encoding="utf-8")


@pytest.fixture
def notes(memory: Memory, workspace: Path) -> Memory:
    """Twenty notes of one chunk, indexed."""
    for number in range(20):
        note(workspace, f"n{number:02}", f"granite pebble {number}\n")
    memory.index()
    return memory


def test_every_chunk_gets_one_vector_and_the_space_is_complete(notes: Memory, filer: Any, hash_model: Any) -> None:
    """Notes, messages and records alike; a second pass asks nothing."""
    notes.remember(session="s", messages=[{"role": "user", "content": "I love oolong tea."}])
    model = hash_model()
    finished, filling = filer.fill(model)
    chunks = filer.rows("SELECT count(*) FROM chunks")[0][0]
    assert finished
    assert (filling.embedded, filling.reused, filer.spaces()) == (chunks, 0, [("one", "complete", chunks)])
    assert "user: I love oolong tea." in model.texts
    asked = len(model.asked)
    assert filer.fill(model)[0]
    assert len(model.asked) == asked


def test_batches_keep_to_the_bounds_and_equal_texts_are_asked_once() -> None:
    """Never more texts or characters than a provider takes at once; one longer text stands alone."""
    texts = ["a" * 5, "b" * 5, "a" * 5, "c" * 30, "d" * 5, "e" * 5]
    inputs = [Input(number, text, vector_inputs.digest(text)) for number, text in enumerate(texts)]
    found = [[one.text for one in batch] for batch in batches(inputs, InputLimits(20, 3, 12))]
    assert sorted(text for batch in found for text in batch) == sorted(texts)
    for batch in found:
        assert len(set(batch)) <= 3
        assert len(set(batch)) == 1 or sum(min(len(text), 20) for text in set(batch)) <= 12
    assert [batch.count("a" * 5) for batch in found if "a" * 5 in batch] == [2]


def test_case_C032_the_embedder_never_gets_a_longer_text_than_it_takes(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """A chunk that is longer than the limit is cut for the model; the others are not disturbed."""
    note(workspace, "big", "x" * 20_000 + "\n")
    note(workspace, "ok", "small pebble\n")
    memory.remember(session="s", messages=[{"role": "user", "content": "y" * 30_000}])
    memory.index()
    model = hash_model(bounds=InputLimits(1_600, 4, 4_000))
    assert filer.fill(model)[0]
    assert max(len(text) for text in model.texts) == 1_600
    assert memory.search("small pebble").hits[0].path == "memory/ok.md"


def test_no_transaction_is_open_while_texts_are_embedded(notes: Memory, filer: Any, hash_model: Any) -> None:
    """Others write into the index meanwhile, and it is searched at once: text never waits for vectors."""
    model = hash_model()

    def write() -> None:
        receipt = notes.remember(session="s", messages=[{"role": "user", "content": f"marble {len(model.asked)}"}])
        assert receipt.searchable
        model.during = None

    model.during = write
    assert filer.fill(model)[0]
    assert notes.search("marble", sources=("sessions",)).hits
    assert filer.rows("SELECT count(*) FROM chunks") == filer.rows("SELECT count(*) FROM vectors")


def test_what_was_filed_before_a_failure_stays(notes: Memory, filer: Any, hash_model: Any) -> None:
    """The next pass asks for the rest alone, and no text is paid for twice."""
    model = hash_model()

    def fail() -> None:
        if len(model.asked) == 2:
            raise errors.IndexUnavailable("down")  # any error out of the provider

    model.during = fail
    with pytest.raises(errors.IndexUnavailable):
        filer.fill(model)
    assert filer.spaces() == [("one", "filling", 8)]
    again = hash_model()
    assert filer.fill(again)[0]
    assert len(again.texts) == 12
    assert not set(again.texts) & set(model.asked[0])


def test_what_is_forgotten_while_it_is_embedded_does_not_return(memory: Memory, filer: Any, hash_model: Any) -> None:
    """Its chunk is gone when the vector comes, so the vector is thrown away."""
    memory.remember(session="s", messages=[{"role": "user", "content": "granite secret"}])
    memory.remember(session="t", messages=[{"role": "user", "content": "marble"}])
    model = hash_model()
    reports = []
    model.during = lambda: reports.append(memory.forget(sessions=["s"]))
    filer.fill(model)
    assert (reports[0].status, reports[0].verified) == ("forgotten", True)
    assert any("granite" in text for text in model.texts)
    assert all("granite" not in text for text in filer.filed())
    assert filer.rows("SELECT count(*) FROM vectors WHERE chunk_id NOT IN (SELECT id FROM chunks)") == [(0,)]
    assert filer.rows("SELECT count(*) FROM chunks") == filer.rows("SELECT count(*) FROM vectors")


def test_a_text_that_changes_while_it_is_embedded_gets_the_vector_of_the_new_one(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """Also where the new chunk has the old one's number: the hash of the input decides, not the number."""
    note(workspace, "a", "first wording\n")
    memory.index()
    before = filer.rows("SELECT id FROM chunks")
    model = hash_model()

    def change() -> None:
        note(workspace, "a", "second wording\n")
        memory.index()
        model.during = None

    model.during = change
    filling = Filling()
    while not filer.fill(model, filling)[0]:
        pass
    assert filer.rows("SELECT id FROM chunks") == before
    assert filer.filed() == {"second wording": model.embed(["second wording"])[0]}


def test_two_processes_that_embed_the_same_text(notes: Memory, filer: Any, hash_model: Any) -> None:
    """The second write is no error and changes nothing."""
    model, other = hash_model(), hash_model()

    def overtake() -> None:
        model.during = None
        assert filer.fill(other)[0]

    model.during = overtake
    finished, filling = filer.fill(model)
    assert (finished, filling.embedded) == (True, 0)
    assert filer.spaces() == [("one", "complete", 20)]


def test_a_refused_text_stays_without_a_vector(notes: Memory, workspace: Path, filer: Any, hash_model: Any) -> None:
    """It is not asked again by the same process, and the space is complete without it."""
    note(workspace, "r", "refuse this\n")
    notes.index()
    model = hash_model()
    finished, filling = filer.fill(model)
    assert (finished, len(filling.refused), filer.spaces()) == (True, 1, [("one", "complete", 20)])
    assert filer.fill(model, filling)[0]
    assert model.texts.count("refuse this") == 1


def test_a_provider_that_refuses_most_replaces_nothing(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """Its space is never complete, so that the one that serves is not deleted."""
    for number in range(3):
        note(workspace, f"r{number}", f"refuse {number}\n")
    note(workspace, "a", "granite\n")
    memory.index()
    finished, _ = filer.fill(hash_model())
    assert (finished, filer.spaces()) == (False, [("one", "filling", 1)])


def test_a_provider_that_refuses_most_takes_no_other_model_away(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """The vectors of the model before it stay."""
    for number in range(3):
        note(workspace, f"r{number}", f"granite {number}\n")
    memory.index()
    filer.fill(hash_model())
    for number in range(3):
        note(workspace, f"r{number}", f"refuse {number}\n")
    note(workspace, "a", "granite\n")
    memory.index()
    before = filer.spaces()
    finished, _ = filer.fill(hash_model("two"))
    assert (finished, filer.spaces()) == (False, [*before, ("two", "filling", 1)])


@pytest.mark.parametrize(("model", "dimensions"), [("two", 4), ("one", 6)])
def test_a_new_model_fills_a_space_of_its_own_and_then_replaces_the_old_one(
    notes: Memory, filer: Any, hash_model: Any, model: str, dimensions: int
) -> None:
    """While it fills, the old space is whole; when it is complete, the old one's rows are gone."""
    filer.fill(hash_model())
    new = hash_model(model, dimensions)
    seen = []
    new.during = lambda: seen.append(filer.spaces()[0])
    finished, _ = filer.fill(new)
    assert finished
    assert set(seen) == {("one", "complete", 20)}
    assert filer.spaces() == [(model, "complete", 20)]
    assert filer.rows("SELECT DISTINCT length(vector) FROM vectors") == [(4 * dimensions,)]


def test_a_pass_that_is_stopped_keeps_what_it_has(notes: Memory, filer: Any, hash_model: Any) -> None:
    """It ends between batches, and the old space stays."""
    filer.fill(hash_model())
    new = hash_model("two")
    finished, _ = filer.fill(new, stopped=lambda: len(new.asked) == 2)
    assert (finished, filer.spaces()) == (False, [("one", "complete", 20), ("two", "filling", 16)])


def test_a_space_that_another_model_replaced_is_not_filled_any_further(
    notes: Memory, filer: Any, hash_model: Any
) -> None:
    """Two processes with different settings: whoever completes first ends the other's pass, not its process."""
    model, other = hash_model(), hash_model("two")

    def overtake() -> None:
        model.during = None
        assert filer.fill(other)[0]

    model.during = overtake
    finished, _ = filer.fill(model)
    assert (finished, len(model.asked)) == (False, 1)
    assert filer.spaces() == [("two", "complete", 20)]


def test_progress_counts_to_the_end(notes: Memory, filer: Any, hash_model: Any) -> None:
    """The stage is "vectors"; done never goes back and ends at the total."""
    heard: list[tuple[str, int, int | None]] = []
    filer.fill(hash_model(), progress=lambda *said: heard.append(said))
    assert {stage for stage, _, _ in heard} == {"vectors"}
    counts = [done for _, done, _ in heard]
    assert counts == sorted(counts)
    assert heard[-1][1:] == (20, 20)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (("message", "sessions/x", "", "Rowan", "", "granite"), "Rowan: granite"),
        (("message", "sessions/x", "", None, "", "granite"), "granite"),
        (("record", "agent-profiles/d.jsonl", "", None, "", "granite"), "granite"),
        (("note", "memory/a.md", "Quarry", None, "Quarry > North", "granite"), "Quarry > North\ngranite"),
        (("note", "memory/a.md", "Front title", None, "Quarry", "granite"), "Front title\nQuarry\ngranite"),
        (("note", "memory/a.md", "a", None, "", "granite"), "granite"),
    ],
)
def test_what_is_embedded(row: tuple[Any, ...], wanted: str) -> None:
    """Who said it, or title and headings, with the text; never a title that is the file's name alone."""
    assert vector_inputs.embedding_input(*row) == wanted
