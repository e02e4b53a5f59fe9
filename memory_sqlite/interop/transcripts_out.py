"""Transcripts out again as JSONL: for each message the host's own record, line for line as it came in.

A record that came in as compact JSON leaves as the same bytes, as long as it is stored as it came: what was masked,
shortened or held base64 is counted. Lines of a transcript that are no messages were never stored, so they are not here
either. Not here: the files (``output``). Called by ``Memory.export_transcripts``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

import apsw

from memory_sqlite import errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock, parse_time
from memory_sqlite.interop import output
from memory_sqlite.interop.export_reports import TranscriptExportReport
from memory_sqlite.interop.jsonl_export import dump, refuse_while_forgetting
from memory_sqlite.storage.fetch import Row, all_rows, integer
from memory_sqlite.transcripts import sessions
from memory_sqlite.values import dataclass

Progress = Callable[[str, int, int | None], None]

_PAGE: Final = 200
_PAGE_OF_TEXTS: Final = 20
_EVERY: Final = 1_000
"""Messages between two words about progress."""
_NAME_MAX: Final = 150
"""File systems take 255 bytes, and the suffix and a token have to fit."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]|^[.-]")
_BASE64: Final = re.compile(r"\[base64:\d+\]")


@dataclass
class _Counted:
    sessions: int = 0
    lines: int = 0
    bytes: int = 0
    messages: int = 0
    masked: int = 0
    shortened: int = 0
    without_data: int = 0


def export(
    opened: Opened, path: Path, session: str | None, clock: Clock, progress: Progress | None, *, overwrite: bool = False
) -> TranscriptExportReport:
    """Write every session into a new folder, one file each; or one session, by key, name or token, to one file.

    Whole or not at all, from one moment of the store. Raises ``InvalidArgument`` for an unknown session,
    ``OutputExists``, ``DiskFull``, ``StoreReadOnly``, ``StoreBusy`` while a forgetting is under way.
    """
    started = clock.monotonic()
    store = opened.store
    with store.readers.borrow() as connection:
        connection.execute("BEGIN DEFERRED")
        try:
            refuse_while_forgetting(connection)
            run = _Run(connection, progress)
            if session is not None:
                run.one(_chosen(connection, session), path, clock, overwrite=overwrite)
            else:
                run.all(path, clock)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    done = run.counted
    report = TranscriptExportReport("ok", str(path), store.agent, seconds=round(clock.monotonic() - started, 3))
    return replace(
        report,
        sessions=done.sessions,
        lines=done.lines,
        bytes=done.bytes,
        messages=done.messages,
        masked=done.masked,
        shortened=done.shortened,
        without_data=done.without_data,
    )


def file_name(key: str) -> str:
    """The file of a session: its key, with what a file name may not hold as ``%XX``, shortened with a mark."""
    name = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8")), key)
    return name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}~"


def _chosen(connection: apsw.Connection, session: str) -> int:
    found = sessions.by_key(connection, session) or sessions.by_token(connection, session)
    if found is None:
        raise errors.InvalidArgument(
            "there is no session of that name", hint="Run `memory-sqlite sessions` to see which there are."
        )
    return found.id


class _Run:
    """One export over one read snapshot."""

    def __init__(self, connection: apsw.Connection, progress: Progress | None) -> None:
        self._connection = connection
        self._progress = progress
        self._total = integer(connection, "SELECT count(*) FROM messages")
        self.counted = _Counted()

    def one(self, session_id: int, path: Path, clock: Clock, *, overwrite: bool) -> None:
        """One session to one file."""
        with output.new_file(path, clock, overwrite=overwrite) as file:
            self._write(session_id, file)
            self.counted.bytes = file.tell()
        self.counted.sessions = 1

    def all(self, path: Path, clock: Clock) -> None:
        """Every session that has messages to a file of its own in a new folder."""
        last = -1
        taken: set[str] = set()
        sql = (
            "SELECT id, key, token FROM sessions s WHERE id > ?"
            " AND EXISTS (SELECT 1 FROM messages m WHERE m.session_id = s.id) ORDER BY id LIMIT ?"
        )
        with output.new_folder(path, clock) as folder:
            while True:
                rows = all_rows(self._connection, sql, (last, _PAGE))
                for session_id, key, token in rows:
                    name = file_name(key)
                    if name.endswith("~") or name.lower() in taken:  # some file systems know no case
                        name = f"{name.rstrip('~')}~{token}"
                    taken.add(name.lower())
                    with folder.file(f"{name}.jsonl") as file:
                        self._write(session_id, file)
                if len(rows) < _PAGE:
                    break
                last = rows[-1][0]
            self.counted.sessions, self.counted.bytes = folder.files, folder.bytes

    def _write(self, session_id: int, file: IO[bytes]) -> None:
        last = -1
        sql = (
            "SELECT ordinal, id, EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = t.id AND substr(raw, 1, 1) = '[')"
            " FROM turns t WHERE session_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ?"
        )
        while True:
            rows = all_rows(self._connection, sql, (session_id, last, _PAGE))
            for _, turn_id, has_parts in rows:
                lines = self._lines(turn_id)
                for line in _in_order(lines) if has_parts else lines:
                    file.write(line.encode("utf-8") + b"\n")
                    self.counted.lines += 1
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def _lines(self, turn_id: int) -> Iterator[str]:
        """The records of a turn's messages, and each line of one that the host wrote as several."""
        last = -1
        sql = (
            "SELECT position, raw, redactions, cut_from_bytes FROM messages WHERE turn_id = ? AND position > ?"
            " ORDER BY position LIMIT ?"
        )
        while True:
            rows = all_rows(self._connection, sql, (turn_id, last, _PAGE_OF_TEXTS))
            for row in rows:
                self._count(row)
                raw = row[1]
                if raw.startswith("["):
                    yield from (dump(part) for part in json.loads(raw))
                else:
                    yield raw
            if len(rows) < _PAGE_OF_TEXTS:
                return
            last = rows[-1][0]

    def _count(self, row: Row) -> None:
        counted = self.counted
        counted.messages += 1
        counted.masked += row[2] > 0
        counted.shortened += row[3] is not None
        counted.without_data += _BASE64.search(row[1]) is not None
        if self._progress is not None and counted.messages % _EVERY == 0:
            self._progress("exporting", counted.messages, self._total)


def _in_order(lines: Iterator[str]) -> list[str]:
    """The lines of a turn by their times: the parts of an answer are one message here, and what came between them
    stands behind it. A line without a time stays behind the one before it."""
    timed: list[tuple[int, str]] = []
    for line in lines:
        value = json.loads(line)
        at = parse_time(value.get("timestamp")) if isinstance(value, dict) else None
        timed.append((at if at is not None else timed[-1][0] if timed else -(2**62), line))
    return [line for _, line in sorted(timed, key=lambda pair: pair[0])]
