"""``transcript('pattern')``: what was said in hosts' transcripts, whatever their format, as one virtual table.

OpenClaw, Claude Code, Codex and plain ``{role, content}`` lines are read by the importer's readers
(``sources.transcript_formats``). A line that could not be read is a row with ``error``. Called by ``running``.
"""

# ruff: noqa: N802 - the methods are called as apsw calls them
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite import errors
from memory_sqlite.clock import iso
from memory_sqlite.model import Message
from memory_sqlite.query.files import named
from memory_sqlite.query.line_values import SqlValue
from memory_sqlite.query.reading import Reading
from memory_sqlite.sources.transcript_formats.items import Refused, Spoken
from memory_sqlite.sources.transcript_formats.transcript import open_transcript
from memory_sqlite.text.units import valid_unicode

COLUMNS: Final = (
    "file", "line", "format", "session", "turn", "role", "name", "sender", "text", "tool", "time", "time_ms", "tokens",
    "input_tokens", "message_id", "project", "error",
)  # fmt: skip
_TOOL, _TOKENS, _INPUT = COLUMNS.index("tool"), COLUMNS.index("tokens"), COLUMNS.index("input_tokens")
_CALLS: Final = frozenset({"tool_use", "toolCall", "function_call", "custom_tool_call", "local_shell_call"})
_OUTPUT_TOKENS: Final = ("output_tokens", "completion_tokens", "output")
_INPUT_TOKENS: Final = ("input_tokens", "prompt_tokens", "input")


class TranscriptModule:
    """The module; the pattern comes with the query, as the one hidden column."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def Create(self, *_: Any) -> tuple[str, TranscriptTable]:
        return f"CREATE TABLE x({', '.join(COLUMNS)}, _pattern HIDDEN)", TranscriptTable(self._reading)

    Connect = Create


class TranscriptTable:
    """One use of it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        """Only a plan in which the pattern is known can be carried out."""
        for at in range(info.nConstraint):
            is_pattern = info.get_aConstraint_iColumn(at) == len(COLUMNS)
            is_equal = info.get_aConstraint_op(at) == apsw.SQLITE_INDEX_CONSTRAINT_EQ
            if is_pattern and is_equal and info.get_aConstraint_usable(at):
                info.set_aConstraintUsage_argvIndex(at, 1)
                info.set_aConstraintUsage_omit(at, True)
                info.estimatedCost = 1_000_000.0
                info.estimatedRows = 1_000_000
                return True
        return False

    def Open(self) -> TranscriptCursor:
        return TranscriptCursor(self._reading)

    def Disconnect(self) -> None:
        """Nothing is held."""

    Destroy = Disconnect


class TranscriptCursor:
    """One walk through the transcripts."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def Filter(self, _number: int, _plan: str | None, values: Sequence[Any]) -> None:
        """Begin with the first file."""
        files = named(values[0] if isinstance(values[0], str) else "", self._reading.check)
        self._rowid = 0
        self._rows = self._walk(files)
        self.Next()

    def _walk(self, files: Sequence[Path]) -> Iterator[tuple[tuple[SqlValue, ...], str]]:
        """Rows without what is worked out only when it is asked for, and the host's record it comes from."""
        for path in files:
            self._reading.files_read += 1
            name = valid_unicode(str(path))
            try:
                transcript = open_transcript(path, redact=self._reading.redact)
                turns: dict[str, tuple[int, bool]] = {}
                told = 0
                for item in transcript:
                    if isinstance(item, Spoken):
                        self._reading.tick(max(0, item.end_offset - told))
                        told = item.end_offset
                        yield _row(name, transcript.format, item, _turn(turns, item)), item.message.raw
                    elif isinstance(item, Refused):
                        self._reading.tick(0)
                        yield _failed(name, item.line, transcript.format, item.reason), ""
                    else:
                        self._reading.tick(0)
                if transcript.pending is not None:
                    yield _failed(name, transcript.pending, transcript.format, "the last line has no end"), ""
            except (errors.UnknownFormat, errors.InvalidArgument):
                yield _failed(name, None, None, "in no known transcript format"), ""
            except OSError as error:
                yield _failed(name, None, None, f"the file cannot be read ({error.strerror})"), ""

    def Next(self) -> None:
        self._row = next(self._rows, None)
        self._record: Any = None
        self._rowid += 1

    def Eof(self) -> bool:
        return self._row is None

    def Rowid(self) -> int:
        return self._rowid

    def Column(self, column: int) -> SqlValue:
        assert self._row is not None, "SQLite asks for columns of rows only"
        values, raw = self._row
        if column < 0:
            return self._rowid
        if column not in (_TOOL, _TOKENS, _INPUT):
            return values[column] if column < len(values) else None
        if self._record is None:
            self._record = json.loads(raw) if raw else {}
        if column == _TOOL:
            return ", ".join(tools(self._record)) or values[_TOOL]
        return tokens(self._record, _TOKENS_NAMES[column])

    def Close(self) -> None:
        """The file is closed with its reading."""
        self._rows = iter(())


_TOKENS_NAMES: Final = {_TOKENS: _OUTPUT_TOKENS, _INPUT: _INPUT_TOKENS}


def _turn(turns: dict[str, tuple[int, bool]], item: Spoken) -> int:
    """Turns of a session are counted as the importer cuts them: a person's message after anything else begins one."""
    number, was_person = turns.get(item.session.key, (0, False))
    is_person = item.message.role == "user" and not item.message.is_tool_output
    if number == 0 or (is_person and not was_person):
        number += 1
    turns[item.session.key] = (number, is_person)
    return number


def _row(file: str, kind: str, item: Spoken, turn: int) -> tuple[SqlValue, ...]:
    said: Message = item.message
    time = None if said.at is None else iso(said.at)
    of_tool = said.name if said.is_tool_output else None
    return (
        file, item.line, kind, item.session.key, turn, said.role, said.name, said.sender, said.text, of_tool, time,
        said.at, None, None, said.host_id, item.session.project, None,
    )  # fmt: skip


def _failed(file: str, line: int | None, kind: str | None, reason: str) -> tuple[SqlValue, ...]:
    return (file, line, kind, *(None,) * (len(COLUMNS) - 4), reason)


def tools(record: Any) -> list[str]:
    """Names of the tools that a host's record calls, in order, each once."""
    found: dict[str, None] = {}
    waiting = [record]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            name = value.get("name")
            if value.get("type") in _CALLS and isinstance(name, str):
                found[valid_unicode(name)] = None
            answered = value.get("toolName")
            if isinstance(answered, str):
                found[valid_unicode(answered)] = None
            function = value.get("function")
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                found[valid_unicode(function["name"])] = None
            waiting += reversed([inner for key, inner in value.items() if key not in ("input", "arguments")])
        elif isinstance(value, list):
            waiting += reversed(value)
    return list(found)


def tokens(record: Any, names: Sequence[str]) -> int | None:
    """What the host says the message took, from ``usage`` of the record or of the message in it; else nothing."""
    if isinstance(record, list):  # an answer that was written as several lines: the last one knows
        return next((said for one in reversed(record) if (said := tokens(one, names)) is not None), None)
    if not isinstance(record, dict):
        return None
    for holder in (record.get("message"), record):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            for name in names:
                value = usage.get(name)
                if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
                    return value
    return None
