"""The embedding worker: makes vectors of texts with a model that it has loaded, and opens no database.

``python -m memory_sqlite.workers.embedding``, started by ``processes.pool``; frames on standard input and output. A
model that crashes, hangs or takes all memory takes this process with it and nothing else. Every request names its
model, so that a worker that was started anew knows what it is about.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from memory_sqlite import errors
from memory_sqlite.embeddings.models import loading
from memory_sqlite.embeddings.models.loading import Model
from memory_sqlite.processes import checks
from memory_sqlite.processes.serving import Answer, Call, serve

_MODEL = {"kind": checks.one_of("word_llama", "minilm", "e5"), "directory": checks.text, "files": checks.mapping}
_LOAD = {"model": checks.mapping}
_EMBED = {"model": checks.mapping, "texts": checks.several(checks.text), "query": checks.truth}


class _Loaded:
    """The one model of this process."""

    def __init__(self) -> None:
        self._asked: dict[str, Any] | None = None
        self._model: Model | None = None

    def model(self, asked: dict[str, Any]) -> Model:
        if self._model is None or self._asked != asked:
            wanted = checks.fields(asked, _MODEL)
            self._model = None  # never two in memory
            self._model = loading.load(wanted["kind"], Path(wanted["directory"]), wanted["files"])
            self._asked = asked
        return self._model


def main() -> NoReturn:
    """Serve until the parent is gone."""
    loading.leave_cores()
    loaded = _Loaded()

    def load(call: Call) -> Answer:
        loaded.model(checks.fields(call.request.body, _LOAD)["model"])
        return {}, b""

    def embed(call: Call) -> Answer:
        asked = checks.fields(call.request.body, _EMBED)
        model = loaded.model(asked["model"])
        if call.cancelled():
            raise errors.Cancelled("the request was cancelled")
        rows = model.vectors(list(asked["texts"]), asked["query"])
        return {"count": rows.shape[0], "dimensions": rows.shape[1]}, rows.astype("<f4", "C", copy=False).tobytes()

    serve("embedding", {"load": load, "embed": embed})


if __name__ == "__main__":
    main()
