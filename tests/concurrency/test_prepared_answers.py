"""What a preparation worker answers is taken whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.processes import prepare
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.pending import Pending
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.preparation import Preparation
from memory_sqlite.processes.prepare import WordsOf
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.sources.discovery import discover


class Unchecked(Pool):
    """A pool that keeps how each answer would be checked and hands out what the worker said, unchecked."""

    def __init__(self) -> None:
        super().__init__("preparation", bounds=Bounds(workers=1))
        self.checks: list[Callable[[dict[str, Any], bytes], Any]] = []

    def submit(self, kind: str, body: dict[str, Any], check: Callable[..., Any], **more: Any) -> Pending:
        self.checks.append(check)
        return super().submit(kind, body, lambda answer, blob: (answer, blob), **more)


def test_inv_058_a_prepared_answer_that_is_not_what_was_asked_for_is_refused_whole(workspace: Path) -> None:
    """Too little, too much, a field too many or too few, bytes of another length: nothing of it is used. The worker is
    retired for it as for any wrong answer."""
    (workspace / "memory" / "a.md").write_text("granite words\n")
    (workspace / "memory" / "b.md").write_text("# One\n\nbasalt words\n\n# Two\n\n" + "slate words " * 400)
    prepared = [prepare.prepare_note(place, place.absolute.read_bytes()) for place in discover(workspace, ()).places]
    first, second = (WordsOf.of(note.document) for note in prepared if note.document is not None)
    assert 1 == len(first.chunks) < len(second.chunks)
    pool = Unchecked()
    workers = Preparation(pool)
    try:
        answer, blob = workers.submit_words((first, second)).result()
        for other in ((first,), (second,), (first, second, first), ()):
            workers.submit_words(other).result()
    finally:
        workers.close()
    right, *wrong = pool.checks
    assert right(answer, blob) == (prepare.words(first), prepare.words(second))
    for check in wrong:
        with pytest.raises(WireError):
            check(answer, blob)
    for damaged in ({}, {**answer, "more": 1}, {name: answer[name] for name in list(answer)[1:]}):
        with pytest.raises(WireError):
            right(damaged, blob)
    for other_bytes in (blob[:-1], blob + b"x", b"") if blob else ():
        with pytest.raises(WireError):
            right(answer, other_bytes)
