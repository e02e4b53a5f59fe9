"""Vectors of equal texts are taken over: of a note that changes or moves, of a session filed anew, in a rebuild."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.doctor import verify
from memory_sqlite.indexing import rebuild, vector_reuse
from memory_sqlite.indexing.rebuild import Paused
from memory_sqlite.paths import generation_file

PARAGRAPH = "Shared granite paragraph.\n"


def note(workspace: Path, name: str, text: str) -> Path:
    path = workspace / "memory" / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def asked_by_filling(filer: Any, hash_model: Any) -> list[str]:
    """The texts that a model is asked when everything that has no vector gets one."""
    model = hash_model()
    assert filer.fill(model)[0]
    texts: list[str] = model.texts
    assert filer.rows("SELECT count(*) FROM chunks") == filer.rows("SELECT count(*) FROM vectors")
    return texts


def section(number: int, word: str = "pebble") -> str:
    return f"## Part {number}\n\n" + f"{word} {number} lies in the yard. " * 60 + "\n\n"


def test_case_C062_a_changed_note_keeps_the_vectors_of_unchanged_chunks(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """One part of a long note is rewritten and one is added at the end: only what changed is embedded."""
    parts = [section(number) for number in range(6)]
    note(workspace, "long", "".join(parts))
    memory.index()
    before = len(asked_by_filling(filer, hash_model))
    parts[3] = section(3, "marble")
    note(workspace, "long", "".join([*parts, section(6)]))
    memory.index()
    asked = asked_by_filling(filer, hash_model)
    assert 0 < len(asked) < before
    assert all("marble" in text or "pebble 6" in text for text in asked)


def test_case_C056_a_renamed_note_costs_nothing(memory: Memory, workspace: Path, filer: Any, hash_model: Any) -> None:
    """The new name has its vector the moment it is indexed; the old one's is gone."""
    path = note(workspace, "old", "granite\n")
    note(workspace, "other", "marble\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    path.rename(path.with_name("new.md"))
    memory.index()
    assert filer.rows("SELECT count(*) FROM vectors") == [(2,)]
    assert asked_by_filling(filer, hash_model) == []


def test_case_C060_identical_bytes_with_a_new_time_cost_nothing(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """The note is read again and found to be the same."""
    path = note(workspace, "a", "granite\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    memory.index()
    assert asked_by_filling(filer, hash_model) == []


def test_case_C058_notes_that_come_back_cost_nothing(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """A workspace that is away for a while is not embedded again."""
    note(workspace, "a", "marble\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    away = workspace.with_name("away")
    workspace.rename(away)
    with pytest.raises(errors.WorkspaceUnavailable):
        memory.index()
    assert memory.search("marble").hits
    away.rename(workspace)
    memory.index()
    assert asked_by_filling(filer, hash_model) == []


def test_case_C128_a_moved_workspace_costs_nothing(
    memory: Memory, tmp_path: Path, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """Keys are relative to the workspace, so at its new place everything has its vector already."""
    note(workspace, "a", "granite\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    moved = workspace.rename(tmp_path / "moved")
    memory.close()
    with Memory.open(tmp_path / "data", workspace=moved) as again:
        again.index()
        assert asked_by_filling(type(filer)(again), hash_model) == []


def test_case_C140_one_of_two_equal_notes_goes_and_the_other_keeps_its_vector(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """Both have a row of their own, embedded once; the last one takes the last row with it."""
    first, second = note(workspace, "a", PARAGRAPH), note(workspace, "b", PARAGRAPH)
    memory.index()
    assert asked_by_filling(filer, hash_model) == ["Shared granite paragraph."]
    assert filer.rows("SELECT count(*) FROM vectors") == [(2,)]
    first.unlink()
    memory.index()
    assert list(filer.filed()) == ["Shared granite paragraph."]
    assert asked_by_filling(filer, hash_model) == []
    second.unlink()
    memory.index()
    assert filer.rows("SELECT count(*) FROM vectors") == [(0,)]
    assert memory._opened is not None
    assert [one.code for one in verify(memory._opened)] == []


def test_case_C140_a_text_that_changes_to_and_fro_has_the_vector_of_what_it_says(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """Blue, red, blue: each time one vector, that of the words that stand there."""
    for colour in ("blue", "red", "blue"):
        note(workspace, "kettle", f"{colour} kettle\n")
        memory.index()
        assert asked_by_filling(filer, hash_model) == [f"{colour} kettle"]
        assert filer.filed() == {f"{colour} kettle": hash_model().embed([f"{colour} kettle"])[0]}


def test_case_C030_a_rewritten_note_loses_its_old_vector(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """The chunk keeps its number and gets the vector of the second wording, without an error."""
    note(workspace, "a", "first wording\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    chunk = filer.rows("SELECT id FROM chunks")
    note(workspace, "a", "second wording\n")
    note(workspace, "o", "opposite\n")
    memory.index()
    assert filer.rows("SELECT count(*) FROM vectors") == [(0,)]
    assert sorted(asked_by_filling(filer, hash_model)) == ["opposite", "second wording"]
    assert filer.filed()["second wording"] == hash_model().embed(["second wording"])[0]
    assert chunk[0] in filer.rows("SELECT id FROM chunks")


def test_case_C144_one_more_message_embeds_itself_and_its_record(memory: Memory, filer: Any, hash_model: Any) -> None:
    """Fifty times a message more in one session: never more than two texts, and each fifth time the scenario."""
    for number in range(1, 51):
        memory.remember(session="s", messages=[{"role": "user", "content": f"granite {number}"}])
        assert len(asked_by_filling(filer, hash_model)) == 2 + (number % 5 == 0)


def test_a_session_that_is_filed_anew_keeps_its_vectors(memory: Memory, filer: Any, hash_model: Any) -> None:
    """Its audience has become known: every document is replaced and no text is embedded."""
    memory.remember(session="s", messages=[{"role": "user", "content": "I love oolong tea."}])
    asked_by_filling(filer, hash_model)
    before = set(filer.rows("SELECT id FROM vectors"))
    memory.remember(
        session="s", sender_is_owner=True, chat_type="direct", messages=[{"role": "user", "content": "So."}]
    )
    assert before.isdisjoint(filer.rows("SELECT id FROM vectors")), "every document was replaced"
    assert all("oolong" not in text for text in asked_by_filling(filer, hash_model))


def test_a_rebuild_takes_the_vectors_over(memory: Memory, workspace: Path, filer: Any, hash_model: Any) -> None:
    """A new generation has the vectors of every text that has not changed, byte for byte, and its space's state."""
    for number in range(30):
        note(workspace, f"n{number}", f"granite {number}\n")
    memory.remember(session="s", messages=[{"role": "user", "content": "I love oolong tea."}])
    memory.index()
    asked_by_filling(filer, hash_model)
    every = (
        "SELECT d.kind, d.key, v.input_hash, v.vector FROM vectors v JOIN chunks c ON c.id = v.chunk_id"
        " JOIN documents d ON d.id = c.document_id ORDER BY 1, 2"
    )
    before, spaces = filer.rows(every), filer.spaces()
    note(workspace, "n3", "marble\n")
    assert memory.index(full=True).generation == 2
    assert filer.rows(every) == [row for row in before if row[1] != "memory/n3.md"]
    assert [space[:2] for space in filer.spaces()] == [space[:2] for space in spaces]
    assert asked_by_filling(filer, hash_model) == ["marble"]


def test_a_rebuild_takes_over_what_is_embedded_while_it_builds(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filed into the old generation after its vectors were read, before the new one was published: not paid twice."""
    note(workspace, "a", "granite\n")
    memory.index()
    real = rebuild.verify

    def late(*arguments: Any) -> None:
        real(*arguments)
        assert asked_by_filling(filer, hash_model) == ["granite"]

    monkeypatch.setattr(rebuild, "verify", late)
    assert memory.index(full=True).generation == 2
    assert asked_by_filling(filer, hash_model) == []


def test_a_rebuild_that_ends_while_it_takes_vectors_over_is_gone_on_with(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any
) -> None:
    """Interrupted between two batches: the next ``index`` publishes, with every vector and without asking for one."""
    for number in range(30):
        note(workspace, f"n{number}", f"granite {number}\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    before = filer.filed()

    def pause(stage: str, done: int, total: int | None) -> None:
        if stage == "vectors kept":
            raise Paused

    with pytest.raises(Paused):
        memory.index(full=True, progress=pause)
    assert memory.index().generation == 2
    assert filer.filed() == before
    assert asked_by_filling(filer, hash_model) == []


def test_a_failure_after_publication_takes_nothing_back(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors that could not be taken over late are embedded again; the new generation stays."""
    note(workspace, "a", "granite\n")
    memory.index()
    real = vector_reuse.take_over
    calls = []

    def failing(*arguments: Any) -> int:
        calls.append(arguments)
        if len(calls) == 2:
            raise apsw.FullError("an injected fault")
        return real(*arguments)

    monkeypatch.setattr(vector_reuse, "take_over", failing)
    assert memory.index(full=True).generation == 2
    assert len(calls) == 2
    assert memory.search("granite").hits
    assert asked_by_filling(filer, hash_model) == ["granite"]


@pytest.mark.parametrize(
    "damage", ["DROP TABLE vectors", "DROP TABLE vector_spaces", "UPDATE vectors SET vector = x'00'"]
)
def test_vectors_that_cannot_be_taken_over_cost_no_words(
    memory: Memory, workspace: Path, filer: Any, hash_model: Any, damage: str
) -> None:
    """A rebuild beside an index whose vectors are damaged builds the words, and the vectors are embedded anew."""
    note(workspace, "a", "granite\n")
    memory.index()
    asked_by_filling(filer, hash_model)
    filer.rows(damage)
    memory.index(full=True)
    assert memory.search("granite").hits
    assert asked_by_filling(filer, hash_model) == ["granite"]


def test_without_a_readable_generation_there_is_nothing_to_take_over(memory: Memory, workspace: Path) -> None:
    """Its file is gone or is none: the build goes on without."""
    note(workspace, "a", "granite\n")
    memory.index()
    assert memory._opened is not None
    store = memory._opened.store
    path = generation_file(store.directory, 1)
    memory._opened.keeper.leave(None)
    with vector_reuse.current_generation(store) as current:
        assert current is not None
    path.write_bytes(b"not a database" * 100)
    with vector_reuse.current_generation(store) as current:
        assert current is None
    path.unlink()
    with vector_reuse.current_generation(store) as current:
        assert current is None
