"""The preparation worker: makes documents and tokens of bytes and text, and opens no file and no database.

``python -m memory_sqlite.workers.preparation``, started by ``processes.pool``; frames on standard input and output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn, TypeVar

from memory_sqlite import errors
from memory_sqlite.processes import prepare, prepared
from memory_sqlite.processes.serving import Answer, Call, serve

T = TypeVar("T")


def _notes(call: Call) -> Answer:
    notes, redact = prepared.notes_of(call.request.body, call.request.blob)
    made = [prepare.prepare_note(place, data, redact=redact) for place, data in _unless(call.cancelled, notes)]
    return prepared.prepared_json(made)


def _words(call: Call) -> Answer:
    documents = prepared.asked_of(call.request.body, call.request.blob)
    return prepared.words_json([prepare.words(document) for document in _unless(call.cancelled, documents)])


def _unless(cancelled: Callable[[], bool], work: Iterable[T]) -> Iterator[T]:
    for one in work:
        if cancelled():
            raise errors.Cancelled("the request was cancelled")
        yield one


def main() -> NoReturn:
    """Serve until the parent is gone."""
    serve("preparation", {"notes": _notes, "words": _words})


if __name__ == "__main__":
    main()
