"""The vector of a question for one search: asked in time, or left out and said so.

Not here: the provider and how long it is left alone after a failure (``embeddings.service``), what the vector does to
the answer (``search.fusion``). Called by ``answer`` and ``explaining``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_sqlite import errors
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.opened import Opened

if TYPE_CHECKING:
    from memory_sqlite.search.vectors.query_vector import QueryVector

NOT_SEARCHED = "meaning was not searched: "


def vector_of(opened: Opened, text: str, guard: Deadline | None) -> tuple[QueryVector | None, str | None]:
    """The vector of a question, or why there is none; both ``None`` where no provider is set or nothing is asked.

    Asking takes at most ``embedding_query_timeout_ms``, and half of what is left until ``guard`` ends: words come
    after it. Who serves never waits for a model to load, for the next search has it; a single command has no next
    search, and before it asks waits for it, within the same two bounds.
    """
    if opened.embedding is None or not text.strip():
        return None, None
    from memory_sqlite.embeddings.service import Unavailable
    from memory_sqlite.search.fusion import NO_SPACE

    timeout_s = opened.settings.embedding_query_timeout_ms / 1000
    if guard is not None:
        timeout_s = min(timeout_s, guard.left() / 2)
    load_s = timeout_s if opened.workers is None else 0.0
    try:
        service = opened.embedding.answering(load_s)
    except errors.MemorySqliteError as error:
        return None, NOT_SEARCHED + error.message
    if service is None:  # nothing to compare with: a server that charges is not asked
        return None, NOT_SEARCHED + NO_SPACE
    if guard is not None:  # what waiting for a model has taken is gone
        timeout_s = min(timeout_s, guard.left() / 2)
    found = service.query_vector(text, timeout_s)
    if isinstance(found, Unavailable):
        return None, NOT_SEARCHED + found.reason
    return found, None
