"""Running one statement to its end or to its bounds, in this process: rows in batches, then what there is to say.

Here the pieces meet: text, connection, tables over files, authorizer, bounds. Called by ``serving`` in a process made
for it, which also bounds the memory; nothing here may run in a host's process, whose SQLite would be bounded with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.query import explaining
from memory_sqlite.query.jsonl_table import JsonlModule
from memory_sqlite.query.opening import open_for_query
from memory_sqlite.query.permitted import Permitted
from memory_sqlite.query.reading import Reading
from memory_sqlite.query.sql_text import JSONL, Statement, statement
from memory_sqlite.query.transcript_table import TranscriptModule
from memory_sqlite.query.wording import complaint
from memory_sqlite.storage.failures import translated
from memory_sqlite.values import dataclass

Row = tuple[Any, ...]
TRANSCRIPT: Final = "transcript"
_STEPS_BETWEEN_LOOKS: Final = 5_000
"""Instructions of SQLite between two looks at the clock: some 0.1 ms."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: what to run, over which store (``None``: files only), within which bounds.

    ``max_bytes`` bounds the rows of an answer that is kept; ``None`` where they are handed out as they come.
    """

    sql: str
    parameters: tuple[Any, ...] | dict[str, Any]
    max_rows: int
    max_bytes: int | None
    explain: bool = False
    redact: bool = True


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known when the last row is out."""

    rows: int
    truncated: bool
    plan: tuple[str, ...]
    remarks: tuple[str, ...]
    files: int
    bytes_read: int
    seconds: float


def run(
    asked: Asked,
    store: Path | None,
    key: FileKey | None,
    reading: Reading,
    on_columns: Callable[[tuple[str, ...]], None],
    on_rows: Callable[[list[Row], int], None],
) -> Summary:
    """Run it. ``on_columns`` is called once, ``on_rows`` with each batch and about how many bytes it takes.

    Raises ``QueryInvalid``, ``QueryRefused``, ``QueryLimit``, ``Cancelled``, ``InvalidArgument`` (a pattern),
    ``ExtraMissing`` and the errors of opening a store.
    """
    started = time.monotonic()
    wanted = statement(asked.sql, asked.parameters)
    connection, permitted, has_index = open_for_query(store, key)
    try:
        if store is not None and not has_index:
            reading.remark("There is no search index at this moment: notes and chunks are empty.")
        _add_tables(connection, permitted, wanted, reading)
        permitted.set()
        connection.set_progress_handler(lambda: reading.due() is not None, _STEPS_BETWEEN_LOOKS)
        with translated("the store"), _spoken(permitted, reading, has_store=store is not None):
            if asked.explain:
                rows, truncated, plan = 0, False, explaining.plan(connection, wanted.sql, asked.parameters)
                on_columns(())
            else:
                rows, truncated = _fetch(connection, wanted, asked, on_columns, on_rows)
                plan = ()
    finally:
        connection.close(True)
    return Summary(
        rows,
        truncated,
        plan,
        tuple(reading.remarks),
        reading.files_read,
        reading.bytes_read,
        round(time.monotonic() - started, 3),
    )


def _add_tables(connection: apsw.Connection, permitted: Permitted, wanted: Statement, reading: Reading) -> None:
    modules: dict[str, Any] = {
        JSONL: JsonlModule(reading, None, ""),
        TRANSCRIPT: TranscriptModule(reading),
        **{table.name: JsonlModule(reading, table.pattern, table.wanted) for table in wanted.tables},
    }
    for name, module in modules.items():
        connection.create_module(
            name, module, use_bestindex_object=True, eponymous=True, eponymous_only=True, read_only=True
        )
        permitted.allow_table(name)


def _fetch(
    connection: apsw.Connection,
    wanted: Statement,
    asked: Asked,
    on_columns: Callable[[tuple[str, ...]], None],
    on_rows: Callable[[list[Row], int], None],
) -> tuple[int, bool]:
    cursor = connection.cursor()

    def begin(begun: apsw.Cursor, _sql: str, _bindings: Any) -> bool:
        # the only moment at which the columns of a statement without rows can be asked for
        on_columns(tuple(str(column[0]) for column in begun.get_description()))
        return True

    cursor.exec_trace = begin
    try:
        cursor.execute(wanted.sql, asked.parameters, can_cache=False)
    except (KeyError, TypeError) as error:
        raise errors.QueryInvalid(
            "a parameter of the SQL was not given, or is of a kind SQLite does not know"
        ) from error
    count = total = size = 0
    batch: list[Row] = []
    for row in cursor:
        if count >= asked.max_rows or (asked.max_bytes is not None and total > asked.max_bytes):
            on_rows(batch, size)
            return count, True
        batch.append(row)
        count += 1
        weight = _weight(row)
        size, total = size + weight, total + weight
        if len(batch) >= limits.QUERY_BATCH_ROWS or size >= limits.QUERY_BATCH_BYTES:
            on_rows(batch, size)
            batch, size = [], 0
    if batch:
        on_rows(batch, size)
    return count, False


def _weight(row: Row) -> int:
    return sum(len(value) + 8 if isinstance(value, str | bytes) else 16 for value in row)


@contextmanager
def _spoken(permitted: Permitted, reading: Reading, *, has_store: bool) -> Iterator[None]:
    """What SQLite raises for a statement, in the words of the catalogue."""
    try:
        yield
    except apsw.InterruptError:
        reading.check()
        raise
    except (apsw.NoMemError, MemoryError) as error:
        raise errors.QueryLimit("memory", "the query needed more memory than it may have") from error
    except apsw.TooBigError as error:
        raise errors.QueryLimit("memory", f"a value is larger than {limits.QUERY_VALUE_MAX_BYTES} bytes") from error
    except UnicodeDecodeError as error:
        raise errors.QueryInvalid(
            "a text of the answer is not Unicode", hint="hex(…) or CAST(… AS BLOB) shows its bytes."
        ) from error
    except apsw.AuthError as error:
        raise errors.QueryRefused(permitted.refused or "the query asks for more than reading") from error
    except apsw.ReadOnlyError as error:
        raise errors.QueryRefused("a query only reads: it changes nothing") from error
    except (apsw.BindingsError, apsw.MismatchError, apsw.RangeError) as error:
        raise errors.QueryInvalid("the parameters do not fit the SQL") from error
    except apsw.SQLError as error:
        if permitted.refused is not None:  # SQLite says "not authorized to use function" as an error of the statement
            raise errors.QueryRefused(permitted.refused) from error
        said = complaint(str(error))
        hint = None
        if not has_store and said.startswith("no such table"):
            hint = "There is no memory here: only jsonl('…') and transcript('…') can be asked."
        raise errors.QueryInvalid(said, hint=hint) from error
