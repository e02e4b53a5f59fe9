"""Opening a transcript and walking through it: the door of this folder, called by the importer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memory_sqlite.errors import InvalidArgument
from memory_sqlite.sources.jsonl import Line, read_lines
from memory_sqlite.sources.transcript_formats.context import Context, Reader
from memory_sqlite.sources.transcript_formats.detect import detect, format_named
from memory_sqlite.sources.transcript_formats.items import Ignored, Item, Refused


class Transcript:
    """One transcript file. Each iteration reads it anew from the start, in bounded memory, and only reads.

    ``format`` is the format's name. After an iteration ``replaced`` counts the characters that stand for bytes that
    were not UTF-8, and ``pending`` is the number of a last line that is still being written, or ``None``.
    """

    def __init__(self, path: Path, *, format: str, session: str | None, redact: bool) -> None:
        self.path = path
        self.format = format
        self.replaced = 0
        self.pending: int | None = None
        self._session = session
        self._redact = redact

    def __iter__(self) -> Iterator[Item]:
        """Items in file order; an answer written as several lines comes once, where it began."""
        self.replaced, self.pending = 0, None
        reader = format_named(self.format).reader(Context(self.path, session=self._session, redact=self._redact))
        for line in read_lines(self.path):
            self.replaced += line.replaced
            if not line.complete:
                self.pending = line.number
                continue
            if not line.values and line.problem is None:
                yield Ignored(line.number)
            for value in line.values:
                yield from _read_value(reader, value, line)
            if line.problem is not None:
                yield Refused(line.number, line.problem)
        yield from reader.finish()


def open_transcript(
    path: Path, *, format: str | None = None, session: str | None = None, redact: bool = True
) -> Transcript:
    """A transcript ready to be walked through.

    ``format`` is one of ``detect.FORMATS`` or ``None`` to detect it; ``session`` replaces the key the file would give
    (sub-agents inside a file stay apart, under a key below it); ``redact`` masks secrets. Raises ``UnknownFormat``,
    ``InvalidArgument`` for an unknown format name or what is not a regular file, ``OSError`` when it cannot be read.
    """
    name = detect(path) if format is None else format_named(format).name
    return Transcript(path, format=name, session=session, redact=redact)


def _read_value(reader: Reader, value: object, line: Line) -> list[Item]:
    if not isinstance(value, dict):
        return [Refused(line.number, "not a JSON object")]
    try:
        return reader.read(value, line)
    except InvalidArgument as error:
        return [Refused(line.number, error.message)]
    except RecursionError:
        return [Refused(line.number, "nested too deeply")]
