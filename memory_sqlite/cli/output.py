"""What is printed: one JSON document, or lines for people, safe on any console.

Stored text is untrusted: escape sequences and control characters are taken out before a person's terminal sees it.
Called by every command. No rich here; ``progress`` imports it when there is a terminal to draw on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS: Final = re.compile(
    # C0 without tab and newline, DEL, C1; then marks that reorder or hide what a person reads
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\ufeff]"
)


def plain(text: str) -> str:
    """The text without escape sequences and control characters; newlines and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line and bounded, for names, paths and labels."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines whose cells stand below each other, two spaces apart; nothing is padded at the end of a line."""
    widths = [max(_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns of a terminal: two for wide characters, none for those that combine."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def prepare_streams() -> None:
    """Let a console that cannot show a character show ``?`` instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


class OutputFailed(Exception):
    """Standard output could not be written; not a failure of the memory."""


class Output:
    """Where a command puts its answer. ``json`` decides its form; lines are ignored then, so nothing can slip in."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.written = False

    @property
    def styled(self) -> bool:
        """Whether matches may be emphasised: a terminal that understands it, and nobody who set ``NO_COLOR``."""
        dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb")
        return not self.json and not dull and _is_terminal(sys.stdout)

    @property
    def interactive(self) -> bool:
        """Whether progress may be drawn: on the terminal's error stream, beside the answer."""
        return not self.json and _is_terminal(sys.stderr)

    def document(self, value: Mapping[str, Any]) -> None:
        """The one JSON document of a command. A second call would break the promise and is a bug."""
        if not self.json or self.written:
            return
        import json

        indent = 2 if _is_terminal(sys.stdout) else None
        # a console that is not UTF-8 gets escapes, which are the same JSON
        utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").replace("_", "") == "utf8"
        text = json.dumps(value, ensure_ascii=not utf8, indent=indent, default=str)
        if utf8 and _CONTAINS_SURROGATE.search(text):
            text = json.dumps(value, ensure_ascii=True, indent=indent, default=str)
        self.written = True
        self._write(sys.stdout, text)

    def event(self, value: Mapping[str, Any]) -> None:
        """One JSON document a line, for commands that go on: printed at once, and as many as there are."""
        if not self.json:
            return
        import json

        self.written = True
        self._write(sys.stdout, json.dumps(value, ensure_ascii=True, default=str))
        self.flush()

    @staticmethod
    def flush() -> None:
        """Let a reader on a pipe see what was printed so far."""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailed(error.strerror or "") from None

    def line(self, text: str = "") -> None:
        """One line of the human answer; ``text`` must have gone through ``plain`` where it holds stored text."""
        if not self.json:
            self.written = True
            self._write(sys.stdout, text)

    def note(self, text: str) -> None:
        """A remark beside the answer, on the error stream; in JSON it is part of the document instead."""
        if not self.json:
            self.complain(text)

    def complain(self, text: str) -> None:
        """A line on the error stream, whatever the form of the answer."""
        self._write(sys.stderr, plain(text))

    @staticmethod
    def _write(stream: TextIO | None, text: str) -> None:
        if stream is None:  # the caller has closed it: `>&-`
            return
        try:
            stream.write(f"{text}\n")
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailed(error.strerror or "") from None


_CONTAINS_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
