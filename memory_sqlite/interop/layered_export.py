"""Everything that the layered-memory format can hold, as a directory that its product opens, clear or encrypted.

Facts: the product's newest layout; files by session, layer and day, one record a line, the key of the session tokens
and the check file beside ``agents/``. Citations keep their meaning: where a record is gone, a line without content
keeps its place. Not here: what a record looks like (``layered_lines``), the folder (``output``). Called by
``Memory.export_layered``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import apsw

from memory_sqlite import limits, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock, utc_day
from memory_sqlite.interop import output
from memory_sqlite.interop.export_reports import LayeredExportReport
from memory_sqlite.interop.jsonl_export import dump, refuse_while_forgetting
from memory_sqlite.interop.layered_cipher import NONCE_BYTES, LineCipher, check_line
from memory_sqlite.interop.layered_directory import REMOVED
from memory_sqlite.interop.layered_files import CHECK_FILE, KEY_FILE, PROFILES_DIRECTORY, SESSIONS_DIRECTORY
from memory_sqlite.interop.layered_lines import RECORD_SQL, Record, lost_of_store, record_line, turn_line
from memory_sqlite.storage.fetch import Row, all_rows, integer
from memory_sqlite.storage.store import Store

Progress = Callable[[str, int, int | None], None]

_DAY_NUMBER: Final = f"(recorded_at + {1_000_000 * 86_400_000}) / {86_400_000}"
"""Days since long before the year 1: division rounds towards zero, and nothing may be below it."""
_PAGE: Final = 200
_EVERY: Final = 1_000
"""Lines between two words about progress."""
_GAP: Final[Record] = {"type": REMOVED}


def export(
    opened: Opened, path: Path, clock: Clock, progress: Progress | None, *, secret: bytes | None = None
) -> LayeredExportReport:
    """Write the directory; it is there whole when this returns, and not at all when this raises.

    It shows one moment of the store. Raises ``OutputExists`` for a folder that holds something, ``InvalidArgument``
    (also for a secret below 32 bytes), ``DiskFull``, ``StoreReadOnly``, ``StoreBusy`` while a forgetting is under way.
    """
    started = clock.monotonic()
    store = opened.store
    cipher = LineCipher(secret) if secret is not None else None
    with output.new_folder(path, clock) as folder, store.readers.borrow() as connection:
        connection.execute("BEGIN DEFERRED")
        try:
            refuse_while_forgetting(connection)
            writer = _Writer(folder, store, connection, cipher, clock, progress)
            writer.head()
            writer.sessions()
            writer.profiles()
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    return LayeredExportReport(
        "ok",
        str(path),
        store.agent,
        encrypted=cipher is not None,
        files=folder.files,
        bytes=folder.bytes,
        counts={layer: writer.counts[layer] for layer in ("L0", "L1", "L2", "L3")},
        left_out={kind: count for kind, count in sorted(writer.lost.items()) if count},
        moved=writer.moved,
        seconds=round(clock.monotonic() - started, 3),
    )


class _Writer:
    """One export. Files are written one after the other, so that one is open at a time."""

    def __init__(
        self,
        folder: output.Folder,
        store: Store,
        connection: apsw.Connection,
        cipher: LineCipher | None,
        clock: Clock,
        progress: Progress | None,
    ) -> None:
        self._folder = folder
        self._store = store
        self._connection = connection
        self._cipher = cipher
        self._clock = clock
        self._progress = progress
        self._total = integer(connection, "SELECT (SELECT count(*) FROM turns) + (SELECT count(*) FROM records)")
        self._lines = 0
        self._agent = f"{paths.AGENTS_DIRECTORY}/{paths.agent_directory_name(store.agent)}"
        self.counts: Counter[str] = Counter()
        self.lost = lost_of_store(connection)
        self.moved = 0

    def head(self) -> None:
        """The key of the tokens and the check file."""
        with self._folder.file(KEY_FILE) as file:
            file.write(self._store.key)
        with self._folder.file(CHECK_FILE) as file:
            file.write(self._encoded(check_line(encrypted=self._cipher is not None)))

    def sessions(self) -> None:
        """What was said and remembered in each session."""
        last = -1
        while True:
            rows = all_rows(
                self._connection, "SELECT id, key, token FROM sessions WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)
            )
            for session_id, key, token in rows:
                place = f"{self._agent}/{SESSIONS_DIRECTORY}/{token}"
                self._conversations(session_id, key, token, place)
                where = f"r.session_id = ? AND r.folder <> '{PROFILES_DIRECTORY}' AND (r.folder, r.day, r.ordinal)"
                self._records(place, where, "r.folder, r.day, r.ordinal", (session_id,))
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def profiles(self) -> None:
        """The facts that were kept for the whole agent."""
        where = f"r.folder = '{PROFILES_DIRECTORY}' AND (r.folder, r.day, r.ordinal)"
        self._records(self._agent, where, "r.day, r.ordinal", ())

    def _conversations(self, session_id: int, key: str, token: str, place: str) -> None:
        """L0: one line a turn, in the file of the day on which it was recorded, as there."""
        given: set[str] = set()
        day, last = "", (-1, -1)
        with ExitStack() as stack:
            file: IO[bytes] | None = None
            for row in self._turns(session_id, last):
                record = turn_line(
                    self._connection, self._store.agent, key, token, (row[2], row[1], row[3], row[4]), given, self.lost
                )
                if record is None:
                    continue
                if file is None or utc_day(row[5]) != day:
                    stack.close()
                    day = utc_day(row[5])
                    file = stack.enter_context(self._folder.file(f"{place}/conversations/{day}.jsonl"))
                self._write(file, record, "L0")

    def _turns(self, session_id: int, last: tuple[int, int]) -> Iterator[Row]:
        """Turns by day of recording, then in their order: day number, ordinal, id, run id, time, when recorded."""
        sql = (
            f"SELECT {_DAY_NUMBER}, ordinal, id, run_id, at, recorded_at FROM turns"
            f" WHERE session_id = ? AND ({_DAY_NUMBER}, ordinal) > (?, ?) ORDER BY 1, 2 LIMIT ?"
        )
        while True:
            rows = all_rows(self._connection, sql, (session_id, *last, _PAGE))
            yield from rows
            if len(rows) < _PAGE:
                return
            last = (rows[-1][0], rows[-1][1])

    def _records(self, place: str, where: str, order: str, bindings: tuple[int, ...]) -> None:
        """L1 to L3 of one place: a file for each folder and day, each record on the line it is cited by."""
        current: tuple[str, str] | None = None
        line = gaps = 0
        with ExitStack() as stack:
            file: IO[bytes] | None = None
            for row in self._rows(where, order, bindings):
                if row[11] != "active":
                    continue  # it no longer holds, and there nothing could say so
                if file is None or (row[0], row[1]) != current:
                    stack.close()
                    current, line, gaps = (row[0], row[1]), 0, 0
                    name = f"{row[0]}/{row[1]}.jsonl"
                    file = stack.enter_context(self._folder.file(f"{place}/{name}"))
                while line + 1 < row[2] and gaps < limits.LAYERED_GAP_MAX:
                    self._write(file, _GAP, None)
                    line, gaps = line + 1, gaps + 1
                line += 1
                self.moved += line != row[2]
                self._write(file, record_line(self._store.agent, row), row[4])

    def _rows(self, where: str, order: str, bindings: tuple[int, ...]) -> Iterator[Row]:
        last: tuple[str, str, int] = ("", "", 0)
        sql = f"{RECORD_SQL} WHERE {where} > (?, ?, ?) ORDER BY {order} LIMIT ?"
        while True:
            rows = all_rows(self._connection, sql, (*bindings, *last, _PAGE))
            yield from rows
            if len(rows) < _PAGE:
                return
            last = (rows[-1][0], rows[-1][1], rows[-1][2])

    def _write(self, file: IO[bytes], record: Record, layer: str | None) -> None:
        file.write(self._encoded(dump(record)))
        if layer is None:
            return
        self.counts[layer] += 1
        self._lines += 1
        if self._progress is not None and self._lines % _EVERY == 0:
            self._progress("exporting", self._lines, self._total)

    def _encoded(self, text: str) -> bytes:
        if self._cipher is not None:
            text = self._cipher.seal(text, self._clock.token_bytes(NONCE_BYTES))
        return text.encode("utf-8") + b"\n"
