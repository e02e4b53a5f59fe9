"""Running a statement in this process: what the tests of the tables share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_sqlite import limits
from memory_sqlite.query.reading import Reading
from memory_sqlite.query.running import Asked, Row, Summary, run


class Answer:
    """Columns, rows and summary of one statement."""

    def __init__(
        self, sql: str, parameters: Any = (), *, store: Path | None = None, rows: int = 1_000, explain: bool = False
    ) -> None:
        self.columns: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self.reading = Reading(600.0, lambda _done: None, redact=True)
        asked = Asked(sql, parameters, rows, limits.QUERY_ANSWER_MAX_BYTES, explain)
        self.summary: Summary = run(
            asked, store, None, self.reading, self._take_columns, lambda batch, _size: self.rows.extend(batch)
        )

    def _take_columns(self, names: tuple[str, ...]) -> None:
        self.columns = names
