"""Rules of the list in ``architecture.md`` that speak of vectors: 32, 35, 44, 65, 70, 81, 84, 87; through the door."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.paths import agent_directory, generation_file
from memory_sqlite.search.vectors import extension


class Provider:
    """A model that is paid for, counts what it is asked, and answers what the test says, if it does."""

    def __init__(self) -> None:
        self.identity = EmbeddingIdentity("told", "one", 4)
        self.limits = InputLimits(1_600, 8, 10_000)
        self.cost: CostClass = "paid"
        self.weight = Weight()
        self.asked: list[str] = []
        self.answers: Callable[[str], list[float]] | None = None

    def load(self, timeout_s: float) -> None:
        pass

    def embed_query(self, text: str, timeout_s: float) -> list[float]:
        return [1.0, 0.0, 0.0, 0.0]

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> list[list[float]]:
        self.asked += texts
        return [
            self.answers(text) if self.answers else [math.cos(len(text)), math.sin(len(text)), 1, 0] for text in texts
        ]

    def close(self) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    REGISTRY.plugin("rules", ["told"]).register("told", lambda settings: made)
    yield made
    REGISTRY.retire("rules", 0)


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """Three notes with their vectors."""
    monkeypatch.setattr(notes_index, "_UNTRUSTED_NS", 0)
    for name in ("granite", "marble", "slate"):
        (workspace / "memory" / f"{name}.md").write_text(f"{name} plan\n")
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace, embedding_provider="told")
    with Memory.open(settings=settings) as opened:
        assert filed(opened) == 3
        provider.asked.clear()
        yield opened
    findings = verify(agent_directory(tmp_path / "data", "main"))
    assert [finding.code for finding in findings if finding.severity != "info"] == []


def towards(cosine: float) -> list[float]:
    """A vector at that cosine to every question of ``Provider``."""
    return [cosine, math.sqrt(1 - cosine * cosine), 0.0, 0.0]


def filed(memory: Memory, **more: Any) -> int:
    """Index, paying what it costs; how many vectors there are then."""
    memory.index(spend=True, **more)
    count: int = memory.status()["vectors"]["filed"]
    return count


def rows(memory: Memory) -> dict[str, bytes]:
    """Text of each chunk that has a vector, and the vector."""
    assert memory._opened is not None
    with memory._opened.keeper.reader() as index:
        found = index.execute("SELECT c.text, v.vector FROM vectors v JOIN chunks c ON c.id = v.chunk_id").fetchall()
    return {str(text): bytes(vector) for text, vector in found}


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, sources=("memory",)).hits if query in hit.excerpt]


def test_inv_044_only_the_note_that_changed_is_embedded_again(
    memory: Memory, workspace: Path, provider: Provider
) -> None:
    """What the next run asks the provider for is the text of that note."""
    (workspace / "memory" / "marble.md").write_text("gneiss plan, another one\n")
    assert filed(memory) == 3
    assert len(provider.asked) == 1
    assert "gneiss plan, another one" in provider.asked[0]
    provider.asked.clear()
    assert filed(memory) == 3
    assert provider.asked == []


def test_inv_065_vectors_that_cannot_be_deleted_leave_the_document_as_it_was(
    memory: Memory, workspace: Path, tmp_path: Path
) -> None:
    """They go in the transaction that replaces their document: it fails whole, with an error and without a debt, and
    once they can be deleted the next run does it."""
    before = rows(memory)
    index = apsw.Connection(str(generation_file(agent_directory(tmp_path / "data", "main"), 1)))
    index.execute("CREATE TRIGGER kept BEFORE DELETE ON vectors BEGIN SELECT RAISE(ABORT, 'injected'); END").fetchall()
    (workspace / "memory" / "marble.md").write_text("gneiss plan, another one\n")
    with pytest.raises(apsw.ConstraintError):
        memory.index(spend=True)
    assert rows(memory) == before
    index.execute("DROP TRIGGER kept").fetchall()
    index.close()
    assert filed(memory) == 3
    assert set(rows(memory)) == {"granite plan", "gneiss plan, another one", "slate plan"}


def test_inv_070_a_publication_keeps_the_vectors_that_were_paid_for(memory: Memory, provider: Provider) -> None:
    """A full build asks the provider nothing: the new generation has the vectors of the old one."""
    before = rows(memory)
    assert filed(memory, full=True) == 3
    assert memory.status()["index"]["generation"] == 2
    assert (provider.asked, rows(memory)) == ([], before)


def test_inv_081_a_provider_that_is_away_takes_no_vector_away(
    memory: Memory, workspace: Path, provider: Provider
) -> None:
    """Neither an ordinary run nor a full one turns an index with vectors into one without; words of what came meanwhile
    are found, its vector is told to be missing, and comes when the provider is back."""

    def away(text: str) -> list[float]:
        raise ConnectionError("away")

    before = rows(memory)
    provider.answers = away
    (workspace / "memory" / "basalt.md").write_text("basalt plan\n")
    for full in (False, True):
        report = memory.index(spend=True, full=full).vectors
        assert report is not None
        assert (report.state, report.missing) == ("failed", 1)
        assert rows(memory) == before
        assert found(memory, "basalt") == ["memory/basalt.md"]
        assert memory.status()["vectors"]["filed"] == 3
    provider.answers = None
    with Memory.open(settings=memory.settings) as later:
        assert filed(later) == 4


@pytest.mark.parametrize(
    "vector",
    [[], [1.0], [1.0] * 5, [0.0] * 4, [math.nan, 0, 0, 1], [math.inf, 0, 0, 1]],
    ids=["empty", "short", "long", "zero", "nan", "infinite"],
)
def test_inv_084_what_is_no_vector_of_the_right_size_is_never_stored(
    memory: Memory, workspace: Path, provider: Provider, vector: list[float]
) -> None:
    """Its text has none, and says so; the words are found; the others keep theirs, also through a publication."""
    before = rows(memory)
    provider.answers = lambda text: vector
    (workspace / "memory" / "basalt.md").write_text("basalt plan\n")
    for full in (False, True):
        assert filed(memory, full=full) == 3
        assert rows(memory) == before
        assert memory.status()["vectors"]["missing"] == 1
    assert found(memory, "basalt") == ["memory/basalt.md"]


def test_inv_087_what_is_forgotten_while_it_is_embedded_leaves_no_row(
    memory: Memory, provider: Provider, tmp_path: Path
) -> None:
    """The provider has its text and has not answered: whatever it answers, nothing of it is filed, nor found later."""
    for session in ("s", "t"):
        memory.remember(session=session, messages=[{"role": "user", "content": f"The gneiss of {session} arrives."}])
    forgotten: list[Any] = []

    def forgets(text: str) -> list[float]:
        if not forgotten:
            forgotten.append(memory.forget(sessions=["s"]))
        return towards(0.9)

    provider.answers = forgets
    memory.index(spend=True)
    assert (forgotten[0].status, forgotten[0].turns) == ("forgotten", 1)
    assert any("gneiss of s" in text for text in provider.asked), "it was on its way"
    provider.answers = None
    assert filed(memory) == 3 + 2
    assert not any("of s" in text for text in rows(memory))
    assert not any("of s" in hit.excerpt for hit in memory.search("gneiss", max_results=50).hits)
    assert memory.search("which wall", sources=("sessions",), session="s").hits == ()
    assert filed(memory, full=True) == 3 + 2
    assert not any("of s" in text for text in rows(memory))


# --- searching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["nothing", "the extension", "the extension and NumPy"])
def test_inv_032_without_the_extension_everything_is_compared(
    memory: Memory, workspace: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """What is near in meaning is found all the same, by the same functions, in the same order; no word of the question
    is in it."""
    near = {"basalt": 0.95, "gneiss": 0.9, "chalk": 0.85}
    provider.answers = lambda text: towards(next((near[word] for word in near if word in text), -1.0))
    for word in near:
        (workspace / "memory" / f"{word}.md").write_text(f"{word} plan\n")
    assert filed(memory) == 6
    if missing != "nothing":
        monkeypatch.setattr(extension, "load", lambda connection: False)
    if missing == "the extension and NumPy":
        monkeypatch.setitem(sys.modules, "numpy", None)
    page = memory.search("which wall", sources=("memory",))
    assert [hit.path for hit in page.hits][:3] == [f"memory/{word}.md" for word in near]


def test_inv_035_what_filters_leave_is_found_however_far_it_is(
    memory: Memory, workspace: Path, provider: Provider
) -> None:
    """Filters come before selection: hundreds of nearer passages that are not asked for take no place of those that
    are."""
    provider.answers = lambda text: towards(0.6 if "basalt" in text else 0.99)
    for number in range(300):
        (workspace / "memory" / f"n{number}.md").write_text(f"pebble {number}\n")
    memory.remember(session="s", messages=[{"role": "user", "content": "The basalt arrives."}])
    assert filed(memory) == 3 + 300 + 2
    hits = memory.search("which wall", sources=("sessions",)).hits
    assert [hit.excerpt for hit in hits] == ["user: The basalt arrives."]
