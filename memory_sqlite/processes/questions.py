"""The other questions to a generation: texts by chunk, which documents there are, what the file says of itself.

Each is a request type with its JSON both ways; ``ask`` is what a worker (or a process that reads for itself) runs on a
read-only connection. Called by ``retrieval`` (parent) and ``workers.retrieval``.
"""

from __future__ import annotations

import json
from typing import Any, Final

import apsw

from memory_sqlite.generations.layout import read_meta
from memory_sqlite.limits import FRAME_MAX_BYTES, HYDRATE_CHUNKS_MAX, PRESENCE_KEYS_MAX
from memory_sqlite.model import DocumentKind
from memory_sqlite.processes import checks
from memory_sqlite.processes.checks import Check
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.hits import KINDS
from memory_sqlite.values import dataclass

_HYDRATE_BYTES: Final = FRAME_MAX_BYTES // 4
"""UTF-8 bytes of text in one answer; JSON escapes make them a few times larger at worst."""

_HYDRATE: Final[dict[str, Check[Any]]] = {"chunks": checks.several(checks.whole, HYDRATE_CHUNKS_MAX)}
_PRESENCE: Final[dict[str, Check[Any]]] = {
    "kind": checks.one_of(*KINDS),
    "keys": checks.several(checks.text, PRESENCE_KEYS_MAX),
}
_TEXT: Final[dict[str, Check[Any]]] = {"chunk": checks.whole, "text": checks.text}
_STATE: Final[dict[str, Check[Any]]] = {
    "meta": checks.mapping,
    "documents": lambda value: {name: checks.count(item) for name, item in checks.mapping(value).items()},
    "chunks": checks.count,
}


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts by chunk id. ``left`` are the ids, in order, that did not fit into one answer: ask again with them."""

    texts: dict[int, str]
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """What a generation says of itself: ``meta`` and how much is in it, documents by kind."""

    meta: dict[str, Any]
    documents: dict[str, int]
    chunks: int


@dataclass(frozen=True, slots=True)
class HydrateRequest:
    """The texts of chunks, at most ``HYDRATE_CHUNKS_MAX``; unknown ids are left out of the answer."""

    chunks: tuple[int, ...]

    @classmethod
    def of(cls, body: object) -> HydrateRequest:
        """From JSON. Raises ``WireError``."""
        return cls(**checks.fields(body, _HYDRATE))

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"chunks": self.chunks}

    def ask(self, connection: apsw.Connection) -> dict[str, Any]:
        """The answer as JSON."""
        sizes: list[Any] = connection.execute(
            "SELECT wanted.value, octet_length(chunks.text) FROM json_each(?) AS wanted"
            " JOIN chunks ON chunks.id = wanted.value ORDER BY wanted.key",
            (json.dumps(self.chunks),),
        ).fetchall()
        taken: list[int] = []
        left: list[int] = []
        used = 0
        for chunk, size in sizes:
            used += size
            # the first always goes: what is too large for any frame is then an error and not a question without end
            (left if taken and used > _HYDRATE_BYTES else taken).append(chunk)
        texts = connection.execute(
            "SELECT id, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(taken),)
        ).fetchall()
        return {"texts": texts, "left": left}

    def answer(self, body: object) -> Texts:
        """The answer from JSON. Raises ``WireError``, also for a text that was not asked for."""
        table = {"texts": checks.several(lambda value: checks.row(value, _TEXT)), "left": checks.several(checks.whole)}
        found = checks.fields(body, table)
        texts = {row["chunk"]: row["text"] for row in found["texts"]}
        if not set(self.chunks).issuperset((*texts, *found["left"])):
            raise WireError("a text that was not asked for")
        return Texts(texts, found["left"])


@dataclass(frozen=True, slots=True)
class PresenceRequest:
    """Which of these documents are in the generation; at most ``PRESENCE_KEYS_MAX``."""

    kind: DocumentKind
    keys: tuple[str, ...]

    @classmethod
    def of(cls, body: object) -> PresenceRequest:
        """From JSON. Raises ``WireError``."""
        return cls(**checks.fields(body, _PRESENCE))

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": self.kind, "keys": self.keys}

    def ask(self, connection: apsw.Connection) -> dict[str, Any]:
        """The answer as JSON."""
        found = connection.execute(
            "SELECT key FROM documents WHERE kind = ? AND key IN (SELECT value FROM json_each(?))",
            (self.kind, json.dumps(self.keys)),
        )
        return {"present": [key for (key,) in found]}

    def answer(self, body: object) -> frozenset[str]:
        """The answer from JSON. Raises ``WireError``, also for a key that was not asked for."""
        present = frozenset(checks.fields(body, {"present": checks.several(checks.text)})["present"])
        if not present.issubset(self.keys):
            raise WireError("a key that was not asked for")
        return present


@dataclass(frozen=True, slots=True)
class StateRequest:
    """What the generation says of itself."""

    @classmethod
    def of(cls, body: object) -> StateRequest:
        """From JSON. Raises ``WireError``."""
        checks.fields(body, {})
        return cls()

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {}

    def ask(self, connection: apsw.Connection) -> dict[str, Any]:
        """The answer as JSON."""
        documents: list[Any] = connection.execute("SELECT kind, count(*) FROM documents GROUP BY kind").fetchall()
        return {
            "meta": read_meta(connection),
            "documents": dict(documents),
            "chunks": connection.execute("SELECT count(*) FROM chunks").get,
        }

    def answer(self, body: object) -> State:
        """The answer from JSON. Raises ``WireError``."""
        return State(**checks.fields(body, _STATE))


Question = HydrateRequest | PresenceRequest | StateRequest
QUESTIONS: Final[dict[str, type[Question]]] = {
    "hydrate": HydrateRequest,
    "presence": PresenceRequest,
    "state": StateRequest,
}
"""By the kind that travels."""
