"""Envelopes: the five things that parent and worker can say, and what makes each of them valid.

Parent: setup (first, once), request, cancel. Worker: hello (first, once), reply. A worker has one request at a time.
Not here: what is in a body (``codec``, ``requests``, ``prepare``). Called by ``child`` and ``serving``.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from memory_sqlite.crypto.file_key import CIPHERS, FileKey
from memory_sqlite.limits import FILE_KEY_BYTES
from memory_sqlite.processes.frames import Frame, WireError
from memory_sqlite.values import dataclass

PROTOCOL: Final = 2
"""Raised with every change of what travels: parent and worker may come from two installations for a moment."""

Outcome = Literal["ok", "gone", "large", "error", "defect"]
_OUTCOMES: Final = ("ok", "gone", "large", "error", "defect")


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. ``deadline_s`` is what was left when it was made, ``None`` for no deadline; the parent, who knows
    how long it waited for a worker, cancels it earlier."""

    id: int
    kind: str
    body: dict[str, Any]
    blob: bytes = b""
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop working on a request; no answer of its own follows, the request's does."""

    id: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a request.

    ``ok`` with an answer; ``gone``: the generation is not there (any more), ask which is current; ``large``: the answer
    does not fit into a frame; ``error``: a typed error as ``{"code", "message"}``; ``defect``: anything else, by the
    exception's name alone.
    """

    id: int
    kind: str
    outcome: Outcome
    body: dict[str, Any]
    blob: bytes = b""


def setup(worker: str, key: FileKey | None = None) -> dict[str, Any]:
    """The parent's first words. A key travels here and nowhere else: never as an argument or in the environment."""
    words: dict[str, Any] = {"say": "setup", "protocol": PROTOCOL, "worker": worker}
    if key is not None:
        words["key"] = {"cipher": key.cipher, "raw": key.raw.hex(), "key_id": key.key_id}
    return words


def key_of_setup(frame: Frame) -> FileKey | None:
    """Take the key out of a setup frame. Raises ``WireError`` for anything else in its place."""
    words = frame.header.pop("key", None)
    if words is None:
        return None
    if not isinstance(words, dict) or words.keys() != {"cipher", "raw", "key_id"} or words["cipher"] not in CIPHERS:
        raise WireError("the key of a setup is not one")
    try:
        raw = bytes.fromhex(words["raw"])
    except (TypeError, ValueError):
        raise WireError("the key of a setup is not one") from None
    if len(raw) != FILE_KEY_BYTES or not isinstance(words["key_id"], str):
        raise WireError("the key of a setup is not one")
    return FileKey(words["cipher"], raw, words["key_id"])


def hello(worker: str) -> dict[str, Any]:
    """The worker's first words."""
    return {"say": "hello", "protocol": PROTOCOL, "worker": worker}


def request(asked: Request) -> dict[str, Any]:
    """The header of a request."""
    header = {"say": "request", "id": asked.id, "kind": asked.kind, "body": asked.body}
    if asked.deadline_s is not None:
        header["deadline_s"] = asked.deadline_s
    return header


def cancel(number: int) -> dict[str, Any]:
    """The header of a cancel."""
    return {"say": "cancel", "id": number}


def reply(answer: Reply) -> dict[str, Any]:
    """The header of a reply."""
    return {"say": "reply", "id": answer.id, "kind": answer.kind, "outcome": answer.outcome, "body": answer.body}


def check_greeting(frame: Frame, say: Literal["setup", "hello"], worker: str) -> None:
    """Raises ``WireError`` unless the first frame is the greeting of this protocol and this kind of worker."""
    if frame.header != {"say": say, "protocol": PROTOCOL, "worker": worker} or frame.blob:
        raise WireError("the first frame is not the greeting that was agreed")


def from_parent(frame: Frame) -> Request | Cancel:
    """A request or a cancel. Raises ``WireError`` for anything else."""
    header = frame.header
    say = header.get("say")
    if say == "cancel" and header.keys() == {"say", "id"} and not frame.blob:
        return Cancel(_number(header["id"]))
    deadline = header.pop("deadline_s", None)
    if say != "request" or header.keys() != {"say", "id", "kind", "body"}:
        raise WireError("a frame is neither a request nor a cancel")
    if deadline is not None and (isinstance(deadline, bool) or not isinstance(deadline, int | float) or deadline < 0):
        raise WireError("deadline_s is not a number of seconds")
    return Request(_number(header["id"]), _name(header["kind"]), _object(header["body"]), frame.blob, deadline)


def from_worker(frame: Frame) -> Reply:
    """A reply. Raises ``WireError`` for anything else."""
    header = frame.header
    if header.keys() != {"say", "id", "kind", "outcome", "body"} or header["say"] != "reply":
        raise WireError("a frame is not a reply")
    outcome = header["outcome"]
    if outcome not in _OUTCOMES:
        raise WireError("the outcome of a reply is unknown")
    return Reply(_number(header["id"]), _name(header["kind"]), outcome, _object(header["body"]), frame.blob)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WireError("an id is not a positive whole number")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not value.isascii() or not 0 < len(value) <= 64:
        raise WireError("a kind is not a name")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WireError("a body is not an object")
    return value
