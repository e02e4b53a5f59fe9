"""The retrieval worker: reads generations for its parent, and can do nothing else.

``python -m memory_sqlite.workers.retrieval``, started by ``processes.pool``; frames on standard input and output. It
opens index files read-only and never the store. A new kind of question is a function here and a line in ``_kinds``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import apsw

from memory_sqlite import errors
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.processes import checks, hits
from memory_sqlite.processes.holds import Holds
from memory_sqlite.processes.questions import QUESTIONS, Question
from memory_sqlite.processes.serving import Answer, Call, Handler, serve
from memory_sqlite.search import run
from memory_sqlite.search.vectors.residents import Residents, one_thread
from memory_sqlite.storage.failures import translated_index

_ASKED = {"path": checks.text, "number": checks.whole, "ask": checks.mapping}


def _kinds(holds: Holds, residents: Residents) -> dict[str, Handler]:
    def reading(call: Call, ask: Callable[[apsw.Connection], Answer], path: str, number: int) -> Answer:
        connection = holds.connection(path, number)
        try:
            with translated_index(), call.interruptible(connection):
                return ask(connection)
        except errors.Cancelled:
            raise
        except (errors.MemorySqliteError, apsw.Error):
            holds.let_go(path)  # whatever it was, it is not kept in a connection
            raise

    def search(call: Call) -> Answer:
        asked = checks.fields(call.request.body, _ASKED)
        request = hits.request_of(asked["ask"])

        def ask(connection: apsw.Connection) -> Answer:
            found = run.search(
                connection,
                request.text,
                request.filters,
                now_ms=request.now_ms,
                zone=request.zone,
                max_results=request.max_results,
                min_score=request.min_score,
                max_bytes=request.max_bytes,
                sort=request.sort,
                explain=request.explain,
                cancelled=call.cancelled,
                vector=request.vector,
                residents=lambda space: residents.get(connection, space, call.cancelled),
            )
            return hits.answer_json(found), b""

        return reading(call, ask, asked["path"], asked["number"])

    def answering(kind: type[Question]) -> Handler:
        def handler(call: Call) -> Answer:
            asked = checks.fields(call.request.body, _ASKED)
            question = kind.of(asked["ask"])
            return reading(call, lambda connection: (question.ask(connection), b""), asked["path"], asked["number"])

        return handler

    def let_go(call: Call) -> Answer:
        path = checks.fields(call.request.body, {"path": checks.text})["path"]
        return {"closed": holds.let_go(path)}, b""

    def kept(call: Call) -> Answer:
        checks.fields(call.request.body, {})
        told = ("route", "whole", "rows", "gone", "bytes")
        return {"residents": [{name: one[name] for name in told} for one in residents.describe()]}, b""

    return {
        "search": search,
        "let_go": let_go,
        "residents": kept,
        **{name: answering(question) for name, question in QUESTIONS.items()},
    }


def main() -> NoReturn:
    """Serve until the parent is gone."""
    one_thread()
    holds, residents = Holds(), Residents()

    def unlock(key: FileKey | None) -> None:
        holds.key = key

    serve("retrieval", _kinds(holds, residents), on_idle=holds.let_go_idle, ahead=residents.go_on, on_key=unlock)


if __name__ == "__main__":
    main()
