"""The service: never late, never raising where a search waits, and bad vectors cost the vector leg alone."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.embeddings.lane import Job, Lane, Outcome
from memory_sqlite.embeddings.protocol import EmbeddingIdentity
from memory_sqlite.embeddings.service import CLOSED, LOADING, OFF, EmbeddingService, Unavailable
from memory_sqlite.generations.vector_rows import identity_text
from memory_sqlite.limits import EMBEDDING_BACK_OFF_MAX_S, EMBEDDING_BACK_OFF_S, EMBEDDING_QUERIES_KEPT
from memory_sqlite.search.vectors.query_vector import QueryVector

LONG = 30.0
"""Seconds to wait for what is certain to come."""


def ready(service: EmbeddingService) -> EmbeddingService:
    assert service.identity(LONG) is not None
    return service


def reason(answer: QueryVector | Unavailable) -> str:
    assert isinstance(answer, Unavailable)
    return answer.reason


def raising(error: BaseException) -> Callable[[Any], Any]:
    def call(_: Any) -> Any:
        raise error

    return call


# --- loading ---------------------------------------------------------------------------------------------------------


def test_without_a_provider_it_is_off() -> None:
    """Everything is answered; nothing is started."""
    service = EmbeddingService(None)
    assert service.query_vector("a", LONG, load_s=LONG) == Unavailable(OFF)
    assert service.state() == {"state": "off"}
    assert service.identity(LONG) is None
    with pytest.raises(errors.EmbeddingFailed, match=OFF):
        service.embed(["a"])
    service.close()


def test_nothing_is_loaded_before_it_is_asked(provider: Any, service: EmbeddingService) -> None:
    """A command that searches for nothing loads no model."""
    assert provider.loads == 0
    assert service.state()["state"] == "loading"
    service.close()
    assert (provider.loads, provider.closes) == (0, 1)


def test_a_question_does_not_wait_for_a_model_that_loads(
    provider: Any, service: EmbeddingService, gate: threading.Event
) -> None:
    """Unless it says how long; then it is answered as soon as the model is there."""
    provider.on_load = lambda: gate.wait(LONG)
    assert service.query_vector("a", LONG) == Unavailable(LOADING)
    assert service.query_vector("a", LONG, load_s=0.01) == Unavailable(LOADING)
    assert service.state()["state"] == "loading"
    gate.set()
    answer = service.query_vector("a", LONG, load_s=LONG)
    assert isinstance(answer, QueryVector)
    assert provider.loads == 1


def test_a_model_that_does_not_load_is_tried_again_after_a_while(
    provider: Any, service: EmbeddingService, clock: Any
) -> None:
    """The reason is told; until its time has come nobody waits for it again, then it is loaded and works."""
    provider.on_load = lambda: raising(errors.ExtraMissing("it needs a package"))(None)
    assert reason(service.query_vector("a", LONG, load_s=LONG)) == "it needs a package"
    assert service.state()["error"] == "it needs a package"
    assert service.state()["state"] == "failed"
    provider.on_load = lambda: None
    assert reason(service.query_vector("a", LONG, load_s=LONG)) == "it needs a package"
    assert provider.loads == 1
    clock.now += EMBEDDING_BACK_OFF_S
    assert isinstance(service.query_vector("a", LONG, load_s=LONG), QueryVector)
    assert service.state()["error"] is None


def test_an_error_of_a_plugin_is_told_by_its_name_alone(provider: Any, service: EmbeddingService) -> None:
    """Its message may hold text or a key."""
    provider.on_load = lambda: raising(OSError("the secret is abc"))(None)
    assert reason(service.query_vector("a", LONG, load_s=LONG)) == "the embedding provider failed (OSError)"


# --- a question ------------------------------------------------------------------------------------------------------


def test_a_question_gets_its_vector(provider: Any, service: EmbeddingService) -> None:
    """With the identity of its space, the weight of the model, and length 1."""
    answer = ready(service).query_vector("tea", LONG)
    assert isinstance(answer, QueryVector)
    assert answer.identity == identity_text(provider.identity.json())
    assert (answer.latin, answer.cjk, answer.other) == (0.1, 0.1, 0.0)
    assert (answer.low, answer.high, answer.floor) == (0.2, 0.9, 0.6)
    assert answer.dimensions == 3
    assert service.state() == {
        "state": "ready", "provider": "scripted", "model": "model", "dimensions": 3, "revision": "1",
        "cost": "free", "error": None, "queries": 1, "texts": 0, "refused": 0,
    }  # fmt: skip


def test_the_same_question_is_asked_once(provider: Any, service: EmbeddingService) -> None:
    """Recall before a search, and paging, cost one request; the number of those kept is bounded."""
    first = ready(service).query_vector("tea", LONG)
    assert service.query_vector(" tea ", LONG) == first
    assert provider.questions == ["tea"]
    for number in range(EMBEDDING_QUERIES_KEPT):
        service.query_vector(f"other {number}", LONG)
    service.query_vector("tea", LONG)
    assert provider.questions.count("tea") == 2


def test_a_question_without_words_is_not_sent(provider: Any, service: EmbeddingService) -> None:
    """Some models answer such a one with zeros, some with an error."""
    assert reason(ready(service).query_vector(" \0\n", LONG)) == "the question has no words"
    assert provider.questions == []


def test_a_question_is_cut_and_valid(provider: Any, service: EmbeddingService) -> None:
    """A question of 100,000 characters, with what no UTF-8 can hold."""
    ready(service).query_vector("\ud800" + "x" * 100_000, LONG)
    assert provider.questions == ["\ufffd" + "x" * 4_999]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([1.0, 2.0], "2 dimensions instead of 3"),
        ([1.0, 2.0, 3.0, 4.0], "4 dimensions instead of 3"),
        (None, "no vector"),
        (["a", "b", "c"], "no numbers"),
        ([0.0, 0.0, 0.0], "no meaning"),
        ([1.0, math.nan, 1.0], "no meaning"),
        ([1.0, math.inf, 1.0], "no meaning"),
    ],
)
def test_bad_vectors_cost_the_vector_leg_alone(
    provider: Any, service: EmbeddingService, answer: Any, said: str
) -> None:
    """NaN, zero, infinite, other sizes: a sentence instead of a vector, and no exception."""
    provider.on_query = lambda text: answer
    assert said in reason(ready(service).query_vector("tea", LONG))


@pytest.mark.parametrize("answer", [[], [0.0, 0.0, 0.0, 0.0], [math.nan, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0], None])
def test_case_C024_a_bad_vector_of_a_question_is_named_and_documents_go_on(
    provider: Any, service: EmbeddingService, gate: threading.Event, answer: Any
) -> None:
    """Empty, zero, NaN, three numbers for four, no answer in time: each a cause; documents get theirs all the same."""
    provider.identity = EmbeddingIdentity("scripted", "model", 4, "1")
    provider.on_batch = lambda texts: [[1.0, 2.0, 3.0, 4.0] for _ in texts]
    provider.on_query = (lambda text: gate.wait(LONG)) if answer is None else (lambda text: answer)
    assert reason(ready(service).query_vector("basalt", 0.05 if answer is None else LONG))
    (vector,) = service.embed(["The basalt quay is closed."])
    assert vector is not None
    assert len(vector) == 16


@pytest.mark.parametrize("error", [OSError("key abc"), SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_whatever_a_provider_raises_is_a_sentence(
    provider: Any, service: EmbeddingService, error: BaseException
) -> None:
    """Also what would end the program."""
    provider.on_query = raising(error)
    said = reason(ready(service).query_vector("tea", LONG))
    assert said.startswith("the embedding provider failed (")
    assert "abc" not in said


def test_a_provider_that_failed_is_left_alone_for_a_while(provider: Any, service: EmbeddingService, clock: Any) -> None:
    """The next questions are answered at once with the reason; each further failure doubles the time, up to a bound."""
    provider.on_query = raising(errors.EmbeddingFailed("down"))
    pause = EMBEDDING_BACK_OFF_S
    ready(service)
    for number in range(1, 10):
        assert reason(service.query_vector("tea", LONG)) == "down"
        assert reason(service.query_vector("tea", LONG)) == "down"
        assert len(provider.questions) == number
        clock.now += pause - 0.001
        service.query_vector("tea", LONG)
        assert len(provider.questions) == number
        clock.now += 0.001
        pause = min(2 * pause, EMBEDDING_BACK_OFF_MAX_S)
    provider.on_query = provider.vector
    assert isinstance(service.query_vector("tea", LONG), QueryVector)
    assert service.state()["error"] is None
    provider.on_query = raising(errors.EmbeddingFailed("down"))
    service.query_vector("coffee", LONG)
    clock.now += EMBEDDING_BACK_OFF_S
    service.query_vector("coffee", LONG)
    assert provider.questions.count("coffee") == 2


def test_a_provider_that_hangs_holds_nobody(
    provider: Any, service: EmbeddingService, clock: Any, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question waits its time; while the call hangs, no other waits at all, also after the pause."""
    begun = threading.Event()

    def hang(text: str) -> None:
        begun.set()
        gate.wait(LONG)

    patient = Lane.wait

    def over_at_once(lane: Lane, job: Job, timeout_s: float) -> Outcome:
        assert begun.wait(LONG)
        return patient(lane, job, 0.0)

    provider.on_query = hang
    monkeypatch.setattr(Lane, "wait", over_at_once)
    assert reason(ready(service).query_vector("tea", 1.5)) == "the embedding provider did not answer in 1.5 s"
    assert "did not answer" in reason(service.query_vector("tea", LONG))
    clock.now += EMBEDDING_BACK_OFF_S
    assert "earlier question" in reason(service.query_vector("tea", LONG))
    assert provider.questions == ["tea"]


def test_a_question_that_waits_behind_another_is_no_failure(
    provider: Any, service: EmbeddingService, gate: threading.Event
) -> None:
    """It says that the provider is busy, is never sent, and the provider is not left alone for it."""
    begun = threading.Event()

    def slow(text: str) -> list[float]:
        begun.set()
        gate.wait(LONG)
        return [1.0, 1.0, 1.0]

    provider.on_query = slow
    ready(service)
    found: list[QueryVector | Unavailable] = []
    first = threading.Thread(target=lambda: found.append(service.query_vector("first", LONG)))
    first.start()
    assert begun.wait(LONG)
    assert "busy with other questions" in reason(service.query_vector("second", 0.01))
    gate.set()
    first.join(LONG)
    assert isinstance(found[0], QueryVector)
    assert isinstance(service.query_vector("third", LONG), QueryVector)
    assert provider.questions == ["first", "third"]


def test_a_question_does_not_wait_for_a_batch(provider: Any, service: EmbeddingService, gate: threading.Event) -> None:
    """Filing thousands of texts delays no search."""
    begun = threading.Event()

    def slow(texts: Sequence[str]) -> list[list[float]]:
        begun.set()
        gate.wait(LONG)
        return [provider.vector(text) for text in texts]

    provider.on_batch = slow
    found: list[list[bytes | None]] = []
    filing = threading.Thread(target=lambda: found.append(ready(service).embed(["a", "b"])))
    filing.start()
    assert begun.wait(LONG)
    assert isinstance(service.query_vector("tea", LONG), QueryVector)
    gate.set()
    filing.join(LONG)
    assert len(found[0]) == 2


# --- documents -------------------------------------------------------------------------------------------------------


def test_documents_come_back_in_order(provider: Any, service: EmbeddingService) -> None:
    """In batches within the limits; blank texts get none; the rest is of length 1."""
    found = service.embed(["a", "", "bb", "ccc", "dddd", "eeeee"])
    assert provider.batches == [["a", "bb", "ccc", "dddd"], ["eeeee"]]
    assert [one is None for one in found] == [False, True, False, False, False, False]
    assert len(set(found)) == 6
    assert service.state()["texts"] == 5


def test_one_bad_vector_costs_its_text_alone(provider: Any, service: EmbeddingService) -> None:
    """The other texts of the batch are filed."""
    provider.on_batch = lambda texts: [[math.nan] * 3 if text == "bad" else provider.vector(text) for text in texts]
    assert [one is None for one in service.embed(["a", "bad", "c"])] == [False, True, False]
    assert service.state()["refused"] == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([[1.0, 2.0, 3.0]], "1 vectors for 2 texts"),
        ([], "0 vectors for 2 texts"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], "2 dimensions instead of 3"),
        ([[math.nan] * 3, [0.0] * 3], "point nowhere"),
    ],
)
def test_batches_that_do_not_fit_are_a_failure(
    provider: Any, service: EmbeddingService, clock: Any, answer: Any, said: str
) -> None:
    """Fewer vectors, changed dimensions, nothing but NaN: typed, told by ``state``, tried again later."""
    provider.on_batch = lambda texts: answer
    for _ in range(2):
        with pytest.raises(errors.EmbeddingFailed, match=said):
            service.embed(["a", "b"])
    assert len(provider.batches) == 1
    assert said in service.state()["error"]
    clock.now += EMBEDDING_BACK_OFF_S
    provider.on_batch = lambda texts: [provider.vector(text) for text in texts]
    assert None not in service.embed(["a", "b"])
    assert isinstance(service.query_vector("tea", LONG), QueryVector)


def test_a_batch_that_hangs_is_given_up(provider: Any, gate: threading.Event) -> None:
    """Filing goes on to say so; a second batch is not put behind it."""
    service = EmbeddingService(provider, batch_timeout_s=0.05, clock=lambda: 0.0)
    provider.on_batch = lambda texts: gate.wait(LONG)
    assert service.identity(LONG) is not None
    with pytest.raises(errors.EmbeddingFailed, match=r"did not answer in 0\.05 s"):
        service.embed(["a"])
    assert isinstance(service.query_vector("tea", LONG), QueryVector)
    service.close()


# --- closing ---------------------------------------------------------------------------------------------------------


def test_closing_lets_everybody_go(provider: Any, service: EmbeddingService, gate: threading.Event) -> None:
    """Who waits for a call that hangs hears that it was closed, without waiting for the call."""
    begun = threading.Barrier(3)

    def hang(_: Any) -> None:
        begun.wait(LONG)
        gate.wait(LONG)

    provider.on_query = provider.on_batch = hang
    ready(service)
    found: list[Any] = []

    def file() -> None:
        try:
            service.embed(["a"])
        except errors.EmbeddingFailed as error:
            found.append(error.message)

    threads = [
        threading.Thread(target=lambda: found.append(reason(service.query_vector("tea", LONG)))),
        threading.Thread(target=file),
    ]
    for thread in threads:
        thread.start()
    begun.wait(LONG)
    service.close()
    for thread in threads:
        thread.join(LONG)
    assert found == [CLOSED, CLOSED]
    assert not gate.is_set()
    assert provider.closes == 1


def test_closing_twice_and_asking_afterwards(provider: Any, service: EmbeddingService) -> None:
    """Everything is answered."""
    ready(service)
    service.close()
    service.close()
    assert provider.closes == 1
    assert service.query_vector("tea", LONG, load_s=LONG) == Unavailable(CLOSED)
    with pytest.raises(errors.EmbeddingFailed, match=CLOSED):
        service.embed(["a"])
    assert service.state()["state"] == "closed"


def test_closing_while_it_loads(provider: Any, service: EmbeddingService, gate: threading.Event) -> None:
    """A model that is there too late changes nothing."""
    loading, done = threading.Event(), threading.Event()

    def load() -> None:
        loading.set()
        gate.wait(LONG)
        done.set()

    provider.on_load = load
    service.start()
    assert loading.wait(LONG)
    service.close()
    gate.set()
    assert done.wait(LONG)
    assert service.query_vector("tea", LONG, load_s=LONG) == Unavailable(CLOSED)


def test_a_provider_whose_close_fails_is_closed(provider: Any, service: EmbeddingService) -> None:
    """A plugin's mistake does not keep a memory from closing."""
    provider.close = lambda: raising(OSError("x"))(None)
    ready(service).close()
    assert service.state()["state"] == "closed"
