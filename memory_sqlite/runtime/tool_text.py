"""What our tools show a model: framed as untrusted history, one harmless line an item, bounded.

A reference is shown as one word that ``parse_reference`` reads back. Not here: what is searched or read (``tools``),
the frame itself (``text.frame``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from memory_sqlite import errors, limits
from memory_sqlite.runtime.shapes import Found, ProviderHit, Reference
from memory_sqlite.text.frame import CLOSE, ITEM, NOTICE, OPEN, close_frame, one_line, whole_escapes
from memory_sqlite.text.units import cut_utf16, utf16_length

_MORE: Final = "…"
_INDENT_MAX: Final = 64
_ROOM: Final = limits.TOOL_ANSWER_MAX_UNITS - len(OPEN) - len(NOTICE) - len(CLOSE) - 3
_REVISION: Final = "@"
_FRAGMENT: Final = "~"
_MARKS: Final = frozenset('%[]<>&"' + _REVISION + _FRAGMENT)
_SHOWN: Final = re.compile(r"([^@~]+)(?:@([^@~]+))?(?:~([^@~]+))?")


def reference_text(reference: Reference) -> str:
    """A reference as one word without brackets, markup or anything invisible."""
    text = _quoted(reference.id)
    if reference.revision is not None:
        text += _REVISION + _quoted(reference.revision)
    if reference.fragment is not None:
        text += _FRAGMENT + _quoted(reference.fragment)
    return text


def parse_reference(provider_id: str, text: str) -> Reference:
    """Back from ``reference_text``. Raises ``InvalidArgument``."""
    found = _SHOWN.fullmatch(text.strip())
    if found is None:
        raise errors.InvalidArgument("reference must be one that memory_search showed")
    revision, fragment = (None if part is None else unquote(part) for part in found.group(2, 3))
    return Reference(provider_id, unquote(found[1]), revision, fragment)


def hits_text(hits: Sequence[ProviderHit]) -> tuple[str, int]:
    """The framed hits, best first, and how many found room."""
    lines: list[str] = []
    left = _ROOM
    for hit in hits:
        label = f"{ITEM}{reference_text(hit.reference)}] ({one_line(hit.source or 'memory')}) "
        line = label + harmless(hit.excerpt)
        left -= utf16_length(line) + 1
        if left < 0:
            break
        lines.append(line)
    return close_frame(lines), len(lines)


def lines_text(found: Found) -> tuple[str, int, int | None]:
    """The framed lines with their numbers, how many found room, and the number of the next line there is to read."""
    first = found.from_line or 1
    lines: list[str] = []
    left = _ROOM
    for number, text in enumerate(found.text.removesuffix("\n").split("\n"), first):
        line = f"{ITEM}{number}] " + indented(text)
        size = utf16_length(line) + 1
        if size > left:
            if lines:
                return close_frame(lines), len(lines), number
            # a line that fills an answer alone is shown as far as it goes, and counts as read
            line = whole_escapes(cut_utf16(line, left - 2)) + _MORE
        lines.append(line)
        left -= size
    return close_frame(lines), len(lines), found.next_from


def harmless(text: str) -> str:
    """An excerpt as one line. What a provider made safe stays as it is; markup that it left open is escaped here."""
    return one_line(text).replace("&amp;", "&")


def indented(text: str) -> str:
    """A line that is read back, harmless, with its indentation."""
    expanded = text.replace("\t", "    ")
    indent = len(expanded) - len(expanded.lstrip(" "))
    return " " * min(indent, _INDENT_MAX) + one_line(expanded)


def _quoted(text: str) -> str:
    return "".join(
        character
        if character not in _MARKS and unicodedata.category(character)[0] not in "CZ"
        else "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "replace"))
        for character in text
    )
