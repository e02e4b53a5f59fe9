"""What a tool answers, in its two forms: framed text for a model, and the same as JSON; both harmless and bounded.

Hosts show a model the one or the other, so that each is bounded and each says that it is untrusted history. No stored
text can close the frame, drive a terminal or break a line. Not here: the frame (``text.frame``), reference words
(``runtime.tool_text``), what is searched or read (``operations``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.clock import iso
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.model import (
    Hit,
    Page,
    Passage,
)
from memory_sqlite.runtime.listing import WITHHELD
from memory_sqlite.runtime.shapes import Reference
from memory_sqlite.runtime.tool_text import indented, reference_text
from memory_sqlite.runtime.visibility import PROVIDER_ID
from memory_sqlite.text.frame import CLOSE, ITEM, NOTICE, OPEN, close_frame, one_line
from memory_sqlite.text.units import utf16_length
from memory_sqlite.transcripts.sessions import Session
from memory_sqlite.values import dataclass

_TEXT_ROOM: Final = limits.TOOL_ANSWER_MAX_UNITS - len(OPEN) - len(NOTICE) - len(CLOSE) - 3 - 1_000
"""For items; the rest is for what is said beside the frame: warnings and how to go on."""
_JSON_ROOM: Final = limits.TOOL_STRUCTURED_MAX_UNITS - 2_000
_REMARK_UNITS: Final = 200
_REMARKS: Final = 4
_MORE: Final = "…"

Shown = Callable[[str], str]
"""A path or reference as others may know it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One tool's answer: text for a model, and the same as a JSON object."""

    text: str
    structured: Mapping[str, Any]


def word(reference: str) -> str:
    """A reference as the one word that tools show and take back."""
    return reference_text(Reference(PROVIDER_ID, reference))


def hits(page: Page, shown: Shown) -> Answer:
    """The hits of a search, best first, as many as find room."""
    lines: list[str] = []
    items: list[dict[str, Any]] = []
    text_left, json_left = _TEXT_ROOM, _JSON_ROOM
    for hit in page.hits:
        item = _hit(hit, shown)
        line = f"{ITEM}{item['reference']}] ({_about(item)}) {item['excerpt']}"
        text_left -= utf16_length(line) + 1
        json_left -= _json_units(item)
        if text_left < 0 or json_left < 0:
            break
        lines.append(line)
        items.append(item)
    more = len(page.hits) - len(items)
    warnings = [*page.warnings, *([WITHHELD] if page.withheld else [])]
    remarks = _remarks(warnings)
    told = [close_frame(lines) or "Nothing matched."]
    if more:
        told.append(f"{more} more matched; ask for fewer or with other words.")
    if page.coverage == "partial":
        told.append("Not everything could be searched.")
    if page.stale:
        told.append("Some changed notes are not searched yet.")
    told += [f"Warning: {remark}" for remark in remarks]
    return Answer(
        "\n".join(told),
        {
            "notice": NOTICE,
            "hits": items,
            "more": more,
            "coverage": page.coverage,
            "stale": page.stale,
            "warnings": remarks,
        },
    )


def passage(read: Passage, offset: int, shown: Shown) -> Answer:
    """What was read, line by line with numbers, and where to read on. ``offset`` is where its first line began."""
    if read.status != "ok":
        nothing = {"notice": NOTICE, "status": "not_found", "text": "", "lines": 0, "next_from": None, "next_offset": 0}
        return Answer("There is no such memory, or not any more.", nothing)
    lines, (next_from, next_offset) = _numbered(read, offset)
    text = close_frame(lines)
    told = text or "There are no more lines."
    if next_from is not None:
        told += f"\nThere is more: from_line {next_from}" + (f", offset {next_offset}" if next_offset else "")
    return Answer(
        told,
        {
            "notice": NOTICE,
            "status": "ok",
            "path": _short(shown(read.path)),
            "text": text,
            "from_line": read.from_line,
            "lines": len(lines),
            "next_from": next_from,
            "next_offset": next_offset,
            "source": read.source,
            "time": read.time,
            "origin": read.provenance.get("origin"),
        },
    )


def _numbered(read: Passage, offset: int) -> tuple[list[str], tuple[int | None, int]]:
    """The lines that find room in both forms, and where to read on: a line and what to leave out of it."""
    lines: list[str] = []
    text_left, json_left = _TEXT_ROOM, _JSON_ROOM
    given = read.text.removesuffix("\n").split("\n") if read.lines else []
    for number, raw in enumerate(given, read.from_line):
        line = f"{ITEM}{number}] {indented(raw)}"
        if not _fits(line, text_left, json_left):
            if lines:
                return lines, (number, 0)
            # a line that no answer holds is read on inside of it
            shown = _longest(raw, f"{ITEM}{number}] ")
            return [f"{ITEM}{number}] {indented(raw[:shown])}{_MORE}"], (number, offset + shown)
        lines.append(line)
        text_left -= utf16_length(line) + 1
        json_left -= _json_units(line)
    return lines, (read.next_from, read.next_offset)


def _fits(line: str, text_left: int, json_left: int) -> bool:
    return utf16_length(line) < text_left and _json_units(line) < json_left


def _longest(text: str, label: str) -> int:
    """How long a beginning of the text fits behind its label into an answer of its own."""
    low, high = 1, len(text)
    while low < high:  # what is longer takes no less room
        middle = (low + high + 1) // 2
        fits = _fits(label + indented(text[:middle]) + _MORE, _TEXT_ROOM, _JSON_ROOM)
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def listed_sessions(found: Sequence[Session], offset: int, more: bool) -> Answer:
    """Sessions, the most recently active first."""
    items: list[dict[str, Any]] = []
    lines: list[str] = []
    for session in found:
        item = {
            "reference": word(f"sessions/{session.token}"),
            "session": _short(session.key),
            "chat_type": session.chat_type,
            "messages": session.message_count,
            "started_at": iso(session.started_at),
            "active_at": iso(session.active_at),
        }
        items.append(item)
        lines.append(
            f"{ITEM}{item['reference']}] {item['session']}: {item['chat_type']}, {item['messages']} messages,"
            f" {item['started_at']} to {item['active_at']}"
        )
    told = close_frame(lines) or "No conversations."
    if more:
        told += f"\nThere are more: offset {offset + len(items)}"
    structured = {"notice": NOTICE, "sessions": items, "next_offset": offset + len(items) if more else None}
    return Answer(told, structured)


def forgotten(report: ForgetReport, shown: Shown) -> Answer:
    """What was forgotten, or would be."""
    counts = {
        name: getattr(report, name)
        for name in ("sessions", "turns", "messages", "episodes", "scenarios", "facts", "notes_left", "mixed_turns")
    }
    notes = [{"path": _short(shown(note.path)), "lines": note.lines, "outcome": note.outcome} for note in report.notes]
    told = {
        "planned": "Would forget",
        "forgotten": "Forgot",
        "unfinished": "Forgot, but not finished yet:",
        "nothing": "Nothing to forget.",
        "disabled": "Memory is disabled.",
    }[report.status]
    if report.status in ("planned", "forgotten", "unfinished"):
        parts = [(number, name) for name, number in counts.items() if name not in ("notes_left", "mixed_turns")]
        told += f" {counted([*parts, (len(notes), 'notes')]) or 'nothing'}."
    if report.notes_left:
        told += f"\n{report.notes_left} blocks in notes say the same; with notes they go, too."
    if report.unresolved:
        told += f"\n{len(report.unresolved)} of the references name nothing."
    reasons = _remarks(report.reasons)
    told += "".join(f"\nNot finished: {reason}" for reason in reasons)
    return Answer(
        told,
        {
            "status": report.status,
            "dry_run": report.dry_run,
            **counts,
            "notes": notes[: limits.FORGET_REFERENCES_MAX],
            "unresolved": len(report.unresolved),
            "verified": report.verified,
            "reasons": reasons,
        },
    )


def counted(parts: Sequence[tuple[int, str]]) -> str:
    """``1 turn, 2 messages``: of names in the plural, those of which there are any."""
    return ", ".join(f"{number} {name if number != 1 else name.removesuffix('s')}" for number, name in parts if number)


def _hit(hit: Hit, shown: Shown) -> dict[str, Any]:
    return {
        "reference": word(shown(hit.reference)),
        "source": hit.source,
        "layer": hit.layer,
        "score": round(hit.score, 4),
        "time": hit.time,
        "path": _short(shown(hit.path)),
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "session": None if hit.session is None else _short(hit.session),
        "speaker": None if hit.speaker is None else _short(hit.speaker),
        "origin": str(hit.provenance.get("origin", "untrusted")),
        "excerpt": one_line(hit.excerpt),
    }


def _about(item: Mapping[str, Any]) -> str:
    """``sessions, 2026-05-01T08:00:00.000Z, Mia``: what there is to say of a hit in its line."""
    return ", ".join(str(item[name]) for name in ("source", "time", "speaker") if item[name])


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _REMARK_UNITS else line[: _REMARK_UNITS - 1] + "…"


def _remarks(texts: Sequence[str]) -> list[str]:
    return [_short(text) for text in texts[:_REMARKS]]


def _json_units(item: Mapping[str, Any] | str) -> int:
    return utf16_length(json.dumps(item, ensure_ascii=False)) + 2
