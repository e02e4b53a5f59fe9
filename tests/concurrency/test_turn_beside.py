"""The memory's lock for a thread beside it: held, given back, and nothing to do once the memory is closed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite.agent.turn import turn


@pytest.mark.parametrize(
    ("closed", "ended", "mine"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_a_turn_is_had_while_there_is_a_memory(closed: bool, ended: bool, mine: bool) -> None:
    """Neither after the memory was closed nor when the thread is to end; the lock is held for it and free after."""
    opened: Any = SimpleNamespace(closed=closed)
    lock, end = threading.RLock(), threading.Event()
    if ended:
        end.set()
    free: list[bool] = []

    def try_it() -> None:
        free.append(lock.acquire(blocking=False))
        if free[-1]:
            lock.release()

    def from_another_thread() -> bool:
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        return free[-1]

    with turn(opened, lock, end) as had:
        assert had is mine
        assert not from_another_thread()
    assert from_another_thread()


def test_a_turn_that_fails_gives_the_lock_back() -> None:
    """What goes wrong in it is the thread's own."""
    opened: Any = SimpleNamespace(closed=False)
    lock = threading.RLock()
    with pytest.raises(ValueError), turn(opened, lock, threading.Event()):
        raise ValueError
    took: list[bool] = []
    thread = threading.Thread(target=lambda: took.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    assert took == [True]
