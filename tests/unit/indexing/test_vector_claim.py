"""One pass at a time files the vectors of an agent: the claim, waiting for it, and not waiting for who hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.indexing.vector_claim import Claim

PATIENCE_S = 10.0


class Waiting:
    """Time that passes by pausing alone; ``then`` runs after each pause. Counts the calls of ``waiting``."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told = 0
        self.then: Callable[[], object] = lambda: None

    def pause(self, seconds: float) -> None:
        assert self.now < 100 * PATIENCE_S, "it waits for ever"
        self.now += seconds
        self.then()

    def claim(self, directory: Path) -> Claim:
        return Claim(directory, PATIENCE_S, clock=lambda: self.now, pause=self.pause)

    def tell(self) -> None:
        self.told += 1


def never() -> bool:
    return False


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_a_free_claim_is_taken_at_once_and_leaves_no_file(tmp_path: Path, waiting: Waiting) -> None:
    """Nobody is asked how much is left, nobody is told of a wait, and the directory stays as it was."""
    with waiting.claim(tmp_path) as claim:
        assert claim.take(pytest.fail, never, waiting.tell)
        assert claim.taken
        assert list(tmp_path.iterdir()) == []
    assert not claim.taken
    assert (waiting.now, waiting.told) == (0.0, 0)


def test_the_second_waits_until_the_first_gives_it_back(tmp_path: Path, waiting: Waiting) -> None:
    """Also within one process: two memories of one agent are two."""
    first, second = waiting.claim(tmp_path), waiting.claim(tmp_path)
    assert first.take(pytest.fail, never, waiting.tell)
    waiting.then = first.release
    assert second.take(lambda: 5, never, waiting.tell)
    assert (waiting.told, waiting.now < 1) == (1, True)
    assert not waiting.claim(tmp_path).take(lambda: 5, lambda: True, waiting.tell)
    second.release()


def test_an_agent_of_another_directory_is_not_waited_for(tmp_path: Path, waiting: Waiting) -> None:
    """The claim is the agent's."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with waiting.claim(tmp_path / "a") as one, waiting.claim(tmp_path / "b") as other:
        assert one.take(pytest.fail, never, waiting.tell)
        assert other.take(pytest.fail, never, waiting.tell)


def test_a_wait_that_is_ended_takes_nothing(tmp_path: Path, waiting: Waiting) -> None:
    """The memory was closed, or a patient pass came."""
    with waiting.claim(tmp_path) as first, waiting.claim(tmp_path) as second:
        first.take(pytest.fail, never, waiting.tell)
        assert not second.take(lambda: 5, lambda: waiting.now > 1, waiting.tell)
        assert not second.taken


def test_who_hangs_is_waited_for_once(tmp_path: Path, waiting: Waiting) -> None:
    """After the patience without a vector the second goes to work, though the first still has the claim."""
    with waiting.claim(tmp_path) as first, waiting.claim(tmp_path) as second:
        first.take(pytest.fail, never, waiting.tell)
        assert second.take(lambda: 5, never, waiting.tell)
        assert PATIENCE_S <= waiting.now < PATIENCE_S + 1


def test_who_works_is_waited_for_longer(tmp_path: Path, waiting: Waiting) -> None:
    """As long as less is left each time; there is only so much."""
    left = iter([5, 4, 3, 3])
    with waiting.claim(tmp_path) as first, waiting.claim(tmp_path) as second:
        first.take(pytest.fail, never, waiting.tell)
        assert second.take(lambda: next(left), never, waiting.tell)
        assert 3 * PATIENCE_S <= waiting.now < 3 * PATIENCE_S + 1


def test_without_locks_everybody_works(tmp_path: Path, waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has none, a directory that cannot be opened: better paid for twice than never embedded."""
    with waiting.claim(tmp_path / "gone") as claim:
        assert claim.take(pytest.fail, never, waiting.tell)

    def refused(*_: Any) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr("memory_sqlite.indexing.vector_claim.fcntl.flock", refused)
    with waiting.claim(tmp_path) as first, waiting.claim(tmp_path) as second:
        assert first.take(pytest.fail, never, waiting.tell)
        assert second.take(pytest.fail, never, waiting.tell)
