"""Searching by meaning through the door: what a provider adds, and that no fault of one ever costs the words."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from memory_sqlite import Memory
from memory_sqlite.agent.embedding import Embedding
from memory_sqlite.agent.meaning import NOT_SEARCHED, vector_of
from memory_sqlite.cli.app import root
from memory_sqlite.config import Settings
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY
from memory_sqlite.embeddings.service import Unavailable
from memory_sqlite.errors import EmbeddingFailed
from memory_sqlite.generations import vector_rows
from memory_sqlite.model import Page
from memory_sqlite.search.fusion import STILL_FILLING
from memory_sqlite.search.vectors import extension

MEANING = {"kitten": 0, "tabby": 0, "feline": 0, "hound": 1, "dog": 1, "ledger": 2, "account": 2}
"""Words by what they mean; all others mean nothing in particular."""


class Toy:
    """A provider that knows seven words. ``spoil`` changes what it returns, ``gate`` holds its questions back."""

    cost: CostClass = "free"
    limits = InputLimits(text_chars=2_000, batch_texts=16, batch_chars=8_000)
    weight = Weight(latin=0.5, cjk=0.5, other=0.5, low=0.0, high=1.0, floor=0.6)

    def __init__(self) -> None:
        self.spoil: Callable[[list[float]], list[float]] = lambda vector: vector
        self.loaded = threading.Event()
        self.gate = threading.Event()
        self.loaded.set()
        self.gate.set()
        self.asked = threading.Event()
        self.loads, self.refuses = True, False

    identity = EmbeddingIdentity("toy", "seven-words", 4)

    def load(self, timeout_s: float) -> None:
        self.loaded.wait()
        if not self.loads:
            raise EmbeddingFailed("no weights")

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        self.asked.set()
        self.gate.wait()
        return self.spoil(self._vector(text))

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> list[list[float]]:
        if self.refuses:
            raise EmbeddingFailed("down")
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0, 0.0, 0.0, 0.1]
        for word in text.lower().replace(".", " ").split():
            if word in MEANING:
                vector[MEANING[word]] += 1.0
        return vector

    def close(self) -> None:
        self.loaded.set()
        self.gate.set()


@pytest.fixture
def toy() -> Iterator[Toy]:
    provider = Toy()
    REGISTRY.plugin("tests", ["toy"]).register("toy", lambda settings: provider)
    yield provider
    REGISTRY.retire("tests", 5.0)


@pytest.fixture
def settings(tmp_path: Path, workspace: Path) -> Settings:
    (workspace / "MEMORY.md").write_text("# House\n\n- The tabby sleeps on the stove.\n", encoding="utf-8")
    (workspace / "memory" / "gate.md").write_text("A hound guards the gate.\n", encoding="utf-8")
    # patient: a busy machine is not a slow provider
    return Settings(
        data_dir=tmp_path / "data", workspace=workspace, embedding_provider="toy", embedding_query_timeout_ms=30_000
    )


def open_memory(settings: Settings, **options: Any) -> Memory:
    memory = Memory.open(settings=settings, **options)
    report = memory.index()
    assert report.vectors is not None and report.vectors.state == "complete"
    return memory


def paths(page: Page) -> list[str]:
    return [hit.path for hit in page.hits]


def test_a_text_without_the_word_is_found(toy: Toy, settings: Settings) -> None:
    """In this process, by whatever route there is, and the answer names it."""
    with open_memory(settings) as memory:
        page = memory.search("kitten")
    assert paths(page) == ["MEMORY.md"]
    assert (page.coverage, page.warnings) == ("complete", ())
    assert page.routes[0] == "lexical" and len(page.routes) == 2


def test_status_names_the_route_before_anybody_asked(toy: Toy, settings: Settings) -> None:
    """And none where there are no vectors."""
    with Memory.open(settings=settings) as memory:
        assert memory.status()["vectors"]["route"] is None
    open_memory(settings).close()
    with Memory.open(settings=settings) as memory:
        route = memory.status()["vectors"]["route"]
        assert route == memory.search("kitten").routes[1]


def test_the_old_model_answers_until_the_new_one_is_complete(toy: Toy, settings: Settings) -> None:
    """Another model is set: questions are asked of the one whose vectors are there, and of the new one after it."""
    other = Toy()
    other.identity = EmbeddingIdentity("other", "seven-words", 4)
    REGISTRY.plugin("tests", ["other"]).register("other", lambda settings: other)
    open_memory(settings).close()
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        page = memory.search("kitten")
        assert (paths(page), page.warnings) == (["MEMORY.md"], ())
        assert toy.asked.is_set() and not other.asked.is_set()
        report = memory.index()
        assert report.vectors is not None and report.vectors.state == "complete"
        toy.asked.clear()
        assert paths(memory.search("kitten")) == ["MEMORY.md"]
        assert other.asked.is_set() and not toy.asked.is_set()


def renamed(provider: str, cost: CostClass = "free", model: str = "seven-words") -> Toy:
    """Another provider, registered under its name."""
    other = Toy()
    other.identity, other.cost = EmbeddingIdentity(provider, model, 4), cost
    REGISTRY.plugin("tests", [provider]).register(provider, lambda settings: other)
    return other


def test_a_server_that_was_left_for_this_machine_is_not_asked(toy: Toy, settings: Settings) -> None:
    """Who sets a model on this machine sends no question away any more; words answer until its vectors are there."""
    far = renamed("far", "paid")
    open_memory(replace(settings, embedding_provider="far")).close()
    far.asked.clear()
    with Memory.open(settings=settings) as memory:
        page = memory.search("hound")
    assert paths(page) == ["memory/gate.md"] and page.coverage == "partial"
    assert not far.asked.is_set()


def test_an_old_model_that_is_another_by_now_is_not_asked(toy: Toy, settings: Settings) -> None:
    """What bears its name has other vectors, or does not load: the vectors of the new one that are there are used."""
    other = renamed("other")
    open_memory(settings).close()
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        toy.identity = EmbeddingIdentity("toy", "seven-words", 4, "later")
        page = memory.search("hound")
        assert "no vectors" in page.warnings[0] and not toy.asked.is_set()
    assert not other.asked.is_set()


def test_a_model_of_this_machine_is_not_looked_for_on_a_server(toy: Toy, settings: Settings) -> None:
    """What bears its name charges now: it is not what made these vectors."""
    renamed("other", "paid")
    open_memory(settings).close()
    toy.cost = "paid"
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        assert "no vectors" in memory.search("hound").warnings[0]
    assert not toy.asked.is_set()


def test_while_the_new_one_is_filled_the_old_one_answers(toy: Toy, settings: Settings) -> None:
    """Also when filling broke off. Where the old one cannot be loaded any more the new vectors that are there do."""
    other = renamed("other")
    open_memory(settings).close()
    other.refuses = True
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        report = memory.index()
        assert report.vectors is not None and report.vectors.state == "failed"
        assert paths(memory.search("kitten")) == ["MEMORY.md"]
        assert toy.asked.is_set() and not other.asked.is_set()
    toy.loads = False
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        assert memory.search("hound").warnings == (STILL_FILLING,)
    assert other.asked.is_set()


def test_vectors_that_were_never_complete_do_not_answer_for_others(toy: Toy, settings: Settings) -> None:
    """Filling with the old model broke off before another was set."""
    renamed("other")
    toy.refuses = True
    with Memory.open(settings=settings) as memory:
        memory.index()
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        assert "no vectors" in memory.search("hound").warnings[0]
    assert not toy.asked.is_set()


def test_an_old_model_that_is_still_loading_is_waited_for_by_the_next(toy: Toy, settings: Settings) -> None:
    """It is whom to ask, and says itself that it loads."""
    renamed("other")
    open_memory(settings).close()
    toy.loaded.clear()
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        embedding: Any = memory._opened.embedding  # type: ignore[union-attr]
        assert embedding.service().identity(30.0) is not None
        former = embedding.answering(0.0)
        assert former is not embedding.service() and former.state()["state"] == "loading"
        toy.loaded.set()


def test_an_old_model_that_is_gone_costs_nothing(toy: Toy, settings: Settings) -> None:
    """Its plugin is not installed any more: words answer, and it is said why meaning is not searched."""
    open_memory(settings).close()
    REGISTRY.retire("tests", 5.0)
    renamed("other")
    with Memory.open(settings=replace(settings, embedding_provider="other")) as memory:
        page = memory.search("hound")
    assert paths(page) == ["memory/gate.md"] and "no vectors" in page.warnings[0]


def test_the_old_model_is_opened_with_what_was_set_for_it(toy: Toy, settings: Settings) -> None:
    """Its name and model; dimensions only where they are asked for now, of the same provider. Closed with the memory,
    and when the new one is complete."""
    asked: list[tuple[str | None, int | None]] = []
    closed: list[str] = []

    def model(one: Settings) -> Toy:
        asked.append((one.embedding_model, one.embedding_dimensions))
        made = Toy()
        made.identity = EmbeddingIdentity("many", one.embedding_model or "", 4)
        made.close = lambda: closed.append(one.embedding_model or "")  # type: ignore[method-assign]
        return made

    REGISTRY.plugin("tests", ["many"]).register("many", model)
    first = replace(settings, embedding_provider="many", embedding_model="first")
    second = replace(first, embedding_model="second")
    open_memory(first).close()
    asked.clear()
    closed.clear()
    with Memory.open(settings=second) as memory:
        assert paths(memory.search("kitten")) == ["MEMORY.md"]
        assert paths(memory.search("feline")) == ["MEMORY.md"]
    assert asked == [("second", None), ("first", None)]
    assert sorted(closed) == ["first", "second"]
    asked.clear()
    closed.clear()
    with Memory.open(settings=replace(second, embedding_dimensions=4)) as memory:
        assert paths(memory.search("kitten")) == ["MEMORY.md"]
        assert asked == [("second", 4), ("first", 4)]
        memory.index()
        assert paths(memory.search("kitten")) == ["MEMORY.md"]
        assert closed == ["first"]


def test_without_any_vectors_nobody_is_asked(toy: Toy, settings: Settings) -> None:
    """A provider may charge for a question whose vector there is nothing to compare with."""
    with Memory.open(settings=settings) as memory:
        page = memory.search("hound")
    assert paths(page) == ["memory/gate.md"]
    assert page.coverage == "partial" and "no vectors" in page.warnings[0]
    assert not toy.asked.is_set()


def test_while_serving_a_worker_finds_it(toy: Toy, settings: Settings) -> None:
    """The same hits as in this process; so few vectors are read where they lie, unless sqlite-vec is not there."""
    with open_memory(settings) as memory:
        here = memory.search("kitten")
    with open_memory(settings, serving=True) as memory:
        page = memory.search("kitten")
        vectors = memory.status()["vectors"]
    assert vectors["route"] == page.routes[1]
    resident = [page.routes[1]] if page.routes[1].startswith("resident") else []
    assert [one["route"] for one in vectors["resident"]] == resident
    assert not resident or not extension.load(apsw.Connection(":memory:"))
    assert page.hits == here.hits
    assert page.routes[0] == "lexical" and len(page.routes) == 2


def test_a_model_that_is_loading_delays_nothing(toy: Toy, settings: Settings) -> None:
    """A serving memory answers by words while the model loads, says so, and by meaning as soon as it has loaded."""
    open_memory(settings).close()
    toy.loaded.clear()
    with Memory.open(settings=settings, serving=True) as memory:
        page = memory.search("hound")
        assert paths(page) == ["memory/gate.md"]
        assert page.coverage == "partial" and "still loading" in page.warnings[0]
        toy.loaded.set()
        report = memory.index()  # waits for the model
        assert report.vectors is not None and report.vectors.state == "complete"
        assert paths(memory.search("kitten")) == ["MEMORY.md"]


def test_a_provider_that_hangs_costs_meaning_alone(toy: Toy, settings: Settings) -> None:
    """The question is given up in time, words answer; it is not asked again at once; nothing is left hanging."""
    with open_memory(replace(settings, embedding_query_timeout_ms=100)) as memory:
        toy.gate.clear()
        toy.asked.clear()
        page = memory.search("hound")
        assert toy.asked.is_set()
        assert paths(page) == ["memory/gate.md"]
        assert page.coverage == "partial" and "did not answer" in page.warnings[0]
        toy.asked.clear()
        page = memory.search("gate")
        assert paths(page) == ["memory/gate.md"] and page.coverage == "partial"
        assert not toy.asked.is_set()


def _raise(vector: list[float]) -> list[float]:
    raise RuntimeError("a plugin's text that nobody may see")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda vector: [math.nan, *vector[1:]],
        lambda vector: [math.inf, *vector[1:]],
        lambda vector: [0.0] * len(vector),
        lambda vector: vector[:-1],
        lambda vector: [*vector, 0.5],
        lambda vector: [],
        lambda vector: "<html>not found</html>",
        lambda vector: None,
        _raise,
    ],
    ids=["nan", "infinite", "zero", "fewer", "more", "none", "html", "nothing", "raises"],
)
def test_bad_vectors_cost_meaning_alone(toy: Toy, settings: Settings, spoil: Any) -> None:
    """Words answer, the answer says that meaning was not searched, and repeats nothing that a plugin said."""
    with open_memory(settings) as memory:
        toy.spoil = spoil
        page = memory.search("hound")
    assert paths(page) == ["memory/gate.md"]
    assert page.coverage == "partial"
    assert page.warnings[0].startswith("meaning was not searched: ")
    assert "nobody may see" not in page.warnings[0] and "html" not in page.warnings[0]


def test_meaning_does_not_show_what_may_not_be_seen(toy: Toy, settings: Settings) -> None:
    """A group's session finds nothing of the owner's notes by their vectors."""
    with open_memory(settings) as memory:
        memory.remember(session="group", chat_type="group", messages=[{"role": "user", "content": "Hello all."}])
        assert memory.search("kitten", session="group").hits == ()
        assert paths(memory.search("kitten")) == ["MEMORY.md"]


def test_a_provider_that_is_not_there_costs_meaning_alone(settings: Settings) -> None:
    """Indexing and searching by words go on, and both say what is wrong."""
    with Memory.open(settings=settings) as memory:
        report = memory.index()
        assert report.vectors is not None and report.vectors.state == "failed"
        page = memory.search("hound")
    assert paths(page) == ["memory/gate.md"]
    assert page.coverage == "partial" and "embedding_provider" in page.warnings[0]


def test_the_command_counts_what_waits_also_where_no_model_was_asked(settings: Settings) -> None:
    """Every passage, where there is none of that model; nothing is said of passages where there are none."""
    options = {"MEMORY_SQLITE_EMBEDDING_PROVIDER": str(settings.embedding_provider)}
    place = ["--data-dir", str(settings.data_dir)]
    done = CliRunner().invoke(root, ["index", *place], env=options)
    assert done.exit_code == 0
    assert "embedding_provider" in done.stderr and "passage" not in done.stderr
    done = CliRunner().invoke(root, ["index", *place, "--workspace", str(settings.workspace)], env=options)
    assert done.exit_code == 0
    assert "embedding_provider" in done.stderr and "2 passages (about " in done.stderr


def test_explain_shows_meaning(toy: Toy, settings: Settings) -> None:
    """The route, and the part of the score."""
    with open_memory(settings) as memory:
        explanation = memory.explain("kitten")
    assert explanation.routes[0] == "lexical" and len(explanation.routes) == 2
    assert explanation.candidates[0].parts["meaning"] > 0.9


def test_a_question_waits_for_half_of_what_is_left() -> None:
    """Words are searched after it, within the caller's time; who serves does not wait for a model to load."""
    asked: list[tuple[float, float]] = []

    waited: list[float] = []

    def query_vector(text: str, timeout_s: float) -> Unavailable:
        asked.append((timeout_s, waited[-1]))
        return Unavailable("no")

    def answering(wait_s: float) -> SimpleNamespace:
        waited.append(wait_s)
        return SimpleNamespace(query_vector=query_vector)

    def ask(left_s: float | None, workers: object) -> tuple[float, float]:
        embedding = SimpleNamespace(answering=answering)
        settings = SimpleNamespace(embedding_query_timeout_ms=1_500)
        opened: Any = SimpleNamespace(embedding=embedding, settings=settings, workers=workers)
        guard: Any = None if left_s is None else SimpleNamespace(left=lambda: left_s)
        assert vector_of(opened, "q", guard) == (None, NOT_SEARCHED + "no")
        return asked[-1]

    assert ask(None, None) == (1.5, 1.5)
    assert ask(0.2, None) == (0.1, 0.1)
    assert ask(0.2, object()) == (0.1, 0.0)


def test_what_waiting_for_a_model_took_is_not_waited_for_again() -> None:
    """Half of what was left went by until there was a model: the question has half of the rest."""
    asked: list[float] = []
    left = iter((1.0, 0.5))

    def query_vector(text: str, timeout_s: float) -> Unavailable:
        asked.append(timeout_s)
        return Unavailable("no")

    service = SimpleNamespace(query_vector=query_vector)
    opened: Any = SimpleNamespace(
        embedding=SimpleNamespace(answering=lambda wait_s: service),
        settings=SimpleNamespace(embedding_query_timeout_ms=1_500),
        workers=None,
    )
    guard: Any = SimpleNamespace(left=lambda: next(left))
    vector_of(opened, "q", guard)
    assert asked == [0.25]


def test_two_models_are_waited_for_within_one_bound(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the new model took to load is not waited for again with the old one; less than nothing is nothing."""
    clock = [100.0]
    waited: list[tuple[str, float]] = []

    def service(name: str, takes_s: float) -> Any:
        def identity(wait_s: float) -> EmbeddingIdentity | None:
            waited.append((name, wait_s))
            clock[0] += takes_s
            return EmbeddingIdentity("toy", name, 4) if name == "new" else None

        return SimpleNamespace(identity=identity, state=lambda: {"state": "loading"})

    space = SimpleNamespace(identity="old", state="complete")
    monkeypatch.setattr(vector_rows, "spaces", lambda index: [space])
    keeper: Any = SimpleNamespace(reader=lambda: nullcontext(None))
    store: Any = None
    for takes_s, left_s in ((0.0, 2.0), (0.75, 1.25), (3.0, 0.0)):
        embedding = Embedding(settings, store, keeper, clock=lambda: clock[0])
        former = service("old", 0.0)
        monkeypatch.setattr(embedding, "service", lambda takes_s=takes_s: service("new", takes_s))
        monkeypatch.setattr(embedding, "_former_service", lambda space, former=former: former)
        waited.clear()
        assert embedding.answering(2.0) is former
        assert waited == [("new", 2.0), ("old", left_s)]
