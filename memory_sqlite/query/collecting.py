"""From a caller's question to a result: arguments checked, asked, rows collected or handed on.

Called by the door, and by the command line where there is no memory to open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_sqlite import errors, limits
from memory_sqlite.config import Settings
from memory_sqlite.query import wire
from memory_sqlite.query.asking import Asker, Listening, Progress
from memory_sqlite.query.result import QueryResult, Row, checked_bounds, checked_parameters
from memory_sqlite.query.running import Asked
from memory_sqlite.query.sql_text import statement
from memory_sqlite.values import dataclass


def _directory() -> str:
    """Where relative patterns begin; a working directory that is gone names nothing."""
    try:
        return str(Path.cwd())
    except OSError:
        return os.sep


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks."""

    sql: str
    parameters: Sequence[Any] | Mapping[str, Any] | None
    max_rows: int
    timeout_s: float
    memory_bytes: int
    explain: bool = False


def ask(
    asker: Asker,
    question: Question,
    settings: Settings,
    on_rows: Callable[[tuple[str, ...], list[Row]], None] | None,
    abort: threading.Event | None,
    progress: Progress | None,
) -> QueryResult:
    """Ask and collect. Raises what ``Memory.query`` raises."""
    if not isinstance(question.sql, str):
        raise errors.QueryInvalid("the SQL is a text")
    checked_bounds(question.max_rows, question.timeout_s, question.memory_bytes)
    parameters = checked_parameters(question.parameters)
    statement(question.sql, parameters)  # what is no statement needs no process
    columns: tuple[str, ...] = ()
    rows: list[Row] = []

    def take_columns(names: tuple[str, ...]) -> None:
        nonlocal columns
        columns = names

    def take_rows(batch: list[Row]) -> None:
        if on_rows is None:
            rows.extend(batch)
        else:
            on_rows(columns, batch)

    summary = asker.ask(
        wire.Request(
            Asked(
                question.sql,
                parameters,
                question.max_rows,
                limits.QUERY_ANSWER_MAX_BYTES if on_rows is None else None,
                question.explain,
                settings.redact_secrets,
            ),
            None if asker.store is None else str(asker.store),
            _directory(),
            question.timeout_s,
            question.memory_bytes,
        ),
        Listening(take_columns, take_rows, abort, progress),
    )
    return QueryResult(
        columns,
        tuple(rows),
        summary.rows,
        summary.truncated,
        summary.plan,
        summary.remarks,
        summary.files,
        summary.bytes_read,
        summary.seconds,
    )
