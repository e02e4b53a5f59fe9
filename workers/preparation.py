"""The preparation worker: makes documents and tokens of bytes and text, and opens no file and no database.

``python -m memory_sqlite.workers.preparation``, started by ``processes.pool``; frames on standard input and output.
"""

from __future__ import annotations

from typing import NoReturn

from memory_sqlite import errors
from memory_sqlite.processes import prepare, prepared
from memory_sqlite.processes.serving import Answer, Call, serve


def _note(call: Call) -> Answer:
    place = prepared.place_of(call.request.body)
    return prepared.note_json(prepare.prepare_note(place, call.request.blob)), b""


def _words(call: Call) -> Answer:
    words = []
    for document in prepared.asked_of(call.request.body):
        if call.cancelled():
            raise errors.Cancelled("the request was cancelled")
        words.append(prepare.words(document))
    return prepared.words_json(tuple(words)), b""


def main() -> NoReturn:
    """Serve until the parent is gone."""
    serve("preparation", {"note": _note, "words": _words})


if __name__ == "__main__":
    main()
