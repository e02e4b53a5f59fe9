"""What a host and its query process say to each other: requests, columns, rows, the end; all as frames.

Rows travel as JSON in the frames' bytes, cut where they are larger than one frame. Bytes of a cell are an object
``{"$b": base64}``, which no other cell is. Called by ``asking`` (the host's side) and ``serving`` (the process's).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, Final, Literal

from memory_sqlite import errors, limits
from memory_sqlite.processes.frames import Frame, WireError
from memory_sqlite.query.running import Asked, Row, Summary
from memory_sqlite.values import dataclass

WORKER: Final = "query"
_PIECE: Final = limits.FRAME_MAX_BYTES // 2


@dataclass(frozen=True, slots=True)
class Request:
    """One query with the bounds that its process keeps, over a store or over files alone. ``directory`` is where
    relative patterns begin."""

    asked: Asked
    store: str | None
    directory: str
    timeout_s: float
    memory_bytes: int


def request(asked: Request) -> tuple[dict[str, Any], bytes]:
    """Header and bytes of a request."""
    said = asked.asked
    body = {
        "sql": said.sql,
        "parameters": said.parameters,
        "max_rows": said.max_rows,
        "max_bytes": said.max_bytes,
        "explain": said.explain,
        "redact": said.redact,
        "store": asked.store,
        "directory": asked.directory,
        "timeout_s": asked.timeout_s,
        "memory_bytes": asked.memory_bytes,
    }
    return {"say": "query"}, _dumped(body)


def request_of(frame: Frame) -> Request:
    """The request in a frame. Raises ``WireError`` for anything else."""
    try:
        body = _loaded(frame.blob)
        parameters = body["parameters"]
        asked = Asked(
            body["sql"],
            {name: _cell(value) for name, value in parameters.items()}
            if isinstance(parameters, dict)
            else tuple(_cell(value) for value in parameters),
            body["max_rows"],
            body["max_bytes"],
            body["explain"],
            body["redact"],
        )
        return Request(asked, body["store"], body["directory"], body["timeout_s"], body["memory_bytes"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError("a frame holds no query") from error


def rows(batch: list[Row]) -> list[tuple[dict[str, Any], bytes]]:
    """Headers and bytes of the frames of one batch; the last one says so."""
    data = _dumped(batch)
    pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
    return [({"say": "rows", "last": number == len(pieces)}, piece) for number, piece in enumerate(pieces, 1)]


def rows_of(data: bytes) -> list[Row]:
    """The rows of one batch. Raises ``WireError``."""
    try:
        return [tuple(_cell(value) for value in row) for row in _loaded(data)]
    except (TypeError, ValueError) as error:
        raise WireError("a frame holds no rows") from error


def end(summary: Summary) -> dict[str, Any]:
    """The header of the last frame of an answer."""
    return {
        "say": "end",
        "rows": summary.rows,
        "truncated": summary.truncated,
        "plan": summary.plan,
        "remarks": summary.remarks,
        "files": summary.files,
        "bytes_read": summary.bytes_read,
        "seconds": summary.seconds,
    }


def summary_of(header: dict[str, Any]) -> Summary:
    """The summary in such a header. Raises ``WireError``."""
    try:
        return Summary(
            header["rows"],
            header["truncated"],
            tuple(header["plan"]),
            tuple(header["remarks"]),
            header["files"],
            header["bytes_read"],
            header["seconds"],
        )
    except (KeyError, TypeError) as error:
        raise WireError("a frame holds no summary") from error


def failure(error: errors.MemorySqliteError) -> dict[str, Any]:
    """The header that ends an answer with an error."""
    kind = error.kind if isinstance(error, errors.QueryLimit) else None
    return {"say": "error", "code": error.code, "message": error.message, "hint": error.hint, "kind": kind}


def error_of(header: dict[str, Any]) -> errors.MemorySqliteError:
    """The error in such a header. Raises ``WireError`` for one that is not in the catalogue."""
    found = errors.catalogue().get(str(header.get("code")))
    message = header.get("message")
    if found is None or not isinstance(message, str):
        raise WireError("a frame holds no error")
    if found is errors.QueryLimit:
        kind: Literal["time", "memory"] = "memory" if header.get("kind") == "memory" else "time"
        return errors.QueryLimit(kind, message)
    return found(message, hint=header.get("hint"))


def store_of(asked: Request) -> Path | None:
    """The store's path."""
    return None if asked.store is None else Path(asked.store)


def _dumped(value: Any) -> bytes:
    # infinities travel as Python spells them: both ends are Python
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_bytes).encode("utf-8", "surrogatepass")


def _loaded(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"$b": b64encode(value).decode()}
    raise TypeError("not a value of SQLite")


def _cell(value: Any) -> Any:
    return b64decode(value["$b"]) if isinstance(value, dict) else value
