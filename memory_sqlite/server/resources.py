"""Notes and conversations as resources: what there is, by pages, and their text, framed like every other answer.

``memory://notes/<path>`` and ``memory://sessions/<token>``, both with ``?from_line=N&offset=N`` to read on. Not here:
who may see them (``viewpoint``), the text (``rendering``), the protocol (``mcp_server``).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from memory_sqlite import errors, limits
from memory_sqlite.server import rendering
from memory_sqlite.server.viewpoint import Viewpoint
from memory_sqlite.text.frame import one_line
from memory_sqlite.values import dataclass

SCHEME: Final = "memory"
NOTE_TEMPLATE: Final = "memory://notes/{+path}{?from_line,offset}"
SESSION_TEMPLATE: Final = "memory://sessions/{token}{?from_line,offset}"
_CURSOR: Final = re.compile(r"(notes|sessions):(\d{1,9})", re.ASCII)
_TOKEN: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PARAMETERS: Final = {"from_line": 1, "offset": 0}


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource as it is listed."""

    uri: str
    name: str
    description: str


def listing(viewpoint: Viewpoint, cursor: str | None) -> tuple[list[Resource], str | None]:
    """A page of resources, notes first, and the cursor of the next page. Raises ``InvalidArgument``."""
    kind, offset = _place(cursor)
    most = limits.SERVE_RESOURCES_PAGE
    found: list[Resource] = []
    if kind == "notes":
        notes = viewpoint.notes(most + 1, offset)
        found = [_note(viewpoint.shown(path), title) for path, title in notes[:most]]
        if len(notes) > most:
            return found, f"notes:{offset + most}"
        offset = 0
    room = most - len(found)
    sessions = viewpoint.sessions(room + 1, offset)
    for session in sessions[:room]:
        description = f"{session.chat_type}, {session.message_count} messages"
        found.append(Resource(f"{SCHEME}://sessions/{session.token}", _name(session.key), description))
    return found, f"sessions:{offset + room}" if len(sessions) > room else None


def read(viewpoint: Viewpoint, uri: str) -> str | None:
    """The framed text of a resource; ``None`` when there is none of that name.

    Raises ``InvalidArgument`` for what is no name of ours, and ``AccessDenied``.
    """
    reference, first, offset = _named(uri)
    passage = viewpoint.get(reference, first, None, offset)
    if passage.status != "ok":
        return None
    return rendering.passage(passage, offset, viewpoint.shown).text


def _named(uri: str) -> tuple[str, int, int]:
    wrong = errors.InvalidArgument(f"a resource is {NOTE_TEMPLATE} or {SESSION_TEMPLATE}")
    try:
        parts = urlsplit(uri)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise wrong from None
    if parts.scheme != SCHEME or parts.fragment or not given.keys() <= _PARAMETERS.keys():
        raise wrong
    if any(not (value.isascii() and value.isdigit() and len(value) < 10) for value in given.values()):
        raise wrong
    first, offset = (int(given.get(name, default)) for name, default in _PARAMETERS.items())
    name = unquote(parts.path.removeprefix("/"))
    if parts.netloc == "sessions" and _TOKEN.fullmatch(name):
        return f"sessions/{name}", max(first, 1), offset
    if parts.netloc == "notes" and name:
        return f"note:{name}", max(first, 1), offset
    raise wrong


def _place(cursor: str | None) -> tuple[str, int]:
    if cursor is None:
        return "notes", 0
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise errors.InvalidArgument("cursor must be one of an earlier page")
    return match[1], int(match[2])


def _note(path: str, title: str) -> Resource:
    return Resource(f"{SCHEME}://notes/{quote(path, safe='/')}", _name(path), one_line(title)[:200])


def _name(text: str) -> str:
    return one_line(text)[:200] or "-"
