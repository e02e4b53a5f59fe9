"""Reading what a reference of our provider names: the very revision, or nothing; whole lines, from where to where.

A note is read once, so that what was compared is what is given; messages and records in one snapshot of the store. An
id that names nothing is ``not_found``; what a caller may not read is an error whether or not it exists, except that the
operator and the owner are told ``not_found`` of what is not there. Not here: making references (``references``).
Called by ``handle``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.model import Passage, SourceProblem
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.references import Named, Naming, note_revision, stored_revision
from memory_sqlite.runtime.shapes import Citation, Found, GetRequest, GetResult, NotFound
from memory_sqlite.runtime.visibility import View
from memory_sqlite.sources import notes, reading
from memory_sqlite.sources.lines import split_lines
from memory_sqlite.text.units import utf16_length


@dataclass(frozen=True)
class _Lines:
    """Lines of something, numbered as its citations number them."""

    text: str
    first: int
    count: int
    next_from: int | None


def read(rooms: AgentRooms, view: View, request: GetRequest, from_line: int | None, lines: int | None) -> GetResult:
    """What the reference names, from ``from_line``, at most ``lines`` lines. Raises ``AccessDenied``."""
    naming = Naming(rooms.opened)
    named = naming.parse(request.reference.id)
    if named is None:
        return NotFound()
    if named.kind == "note":
        found = _note(rooms, view, named, request.reference.revision, from_line, lines)
    else:
        with rooms.opened.store.readers.borrow() as store, _one_snapshot(store):
            found = _stored(rooms, store, view, named, request.reference.revision, from_line, lines)
    if found is None:
        return NotFound()
    path, read_back = found
    last = read_back.first + max(read_back.count, 1) - 1
    label = f"{naming.shown(path)}#L{read_back.first}" + ("" if last == read_back.first else f"-L{last}")
    return Found(
        request.reference,
        read_back.text,
        (Citation(label, request.reference, start_line=read_back.first, end_line=last),),
        truncated=read_back.next_from is not None,
        from_line=read_back.first,
        lines=read_back.count,
        next_from=read_back.next_from,
    )


# --- notes ---------------------------------------------------------------------------------------------------------


def _note(
    rooms: AgentRooms, view: View, named: Named, revision: str | None, from_line: int | None, lines: int | None
) -> tuple[str, _Lines] | None:
    view.audience.require(session_id=None, owner_private=True, what="note")
    with rooms.opened.store.readers.borrow() as store:
        _admitted(view, store, rooms, "memory", None)
    workspace = rooms.opened.workspace
    if workspace is None:
        return None
    try:
        place = notes.resolve_note(workspace, rooms.settings.extra_paths, named.key)
    except errors.PathNotAllowed:
        return None  # no note of ours is called so
    note = None if place is None else notes.read_note(place)
    if note is None or isinstance(note, SourceProblem):
        return None
    every = split_lines(note.text)
    first, count = _asked(rooms, named, from_line, lines)
    now = note_revision(rooms.opened.store.key, note.hash, note.text, named.first, named.last)
    inside = named.first is not None and named.last is not None and named.first <= first
    if revision is not None and not _same_note(revision, now, inside and first + count - 1 <= (named.last or 0)):
        return None
    return named.key, _cut(every, first, count, 1)


def _same_note(asked: str, now: str, inside: bool) -> bool:
    """Whether what is read is what was found: the file is the same, or the lines are, and no others are read."""
    file, _, lines = asked.partition(".")
    now_file, _, now_lines = now.partition(".")
    return file == now_file or (inside and bool(lines) and lines == now_lines)


def _asked(rooms: AgentRooms, named: Named, from_line: int | None, lines: int | None) -> tuple[int, int]:
    most = min(lines or rooms.settings.max_read_lines, rooms.settings.max_read_lines)
    if from_line is not None:
        return from_line, most
    if named.first is None or named.last is None:
        return 1, most
    return named.first, min(most, named.last - named.first + 1) if lines is None else most


def _cut(every: list[str], first: int, count: int, base: int) -> _Lines:
    """At most ``count`` lines from number ``first`` on (the first of all is ``base``), whole, and as many as fit."""
    taken: list[str] = []
    used = 0
    for line in every[first - base : first - base + count]:
        used += utf16_length(line) + 1
        if taken and used > limits.GET_MAX_CHARS:
            break
        taken.append(line[: limits.READ_LINE_MAX_CHARS] + "\n")
    following = first + len(taken)
    return _Lines("".join(taken), first, len(taken), following if following < base + len(every) else None)


# --- messages and records ------------------------------------------------------------------------------------------


@contextmanager
def _one_snapshot(store: apsw.Connection) -> Iterator[None]:
    """What is read inside is of one moment: what was compared is what is given."""
    store.execute("BEGIN DEFERRED").fetchall()
    try:
        yield
    finally:
        if store.in_transaction:  # an error may have ended it
            store.execute("ROLLBACK").fetchall()


def _stored(
    rooms: AgentRooms,
    store: apsw.Connection,
    view: View,
    named: Named,
    revision: str | None,
    from_line: int | None,
    lines: int | None,
) -> tuple[str, _Lines] | None:
    now = stored_revision(rooms.opened.store.key, store, named)
    if now is None and (view.audience.operator or view.audience.owner_private):
        return None
    most = min(lines or rooms.settings.max_read_lines, rooms.settings.max_read_lines)
    place = reading.Place(rooms.opened.workspace, rooms.settings.extra_paths)
    passage = reading.read(store, view.audience, place, f"{named.kind}:{named.key}", 1, most, 0)
    if passage.status != "ok":
        return None
    _admitted(view, store, rooms, passage.source or "memory", passage.provenance.get("session"))
    if revision is not None and revision != now:
        return None
    if named.kind == "record":
        return passage.path, _cut(split_lines(passage.text), from_line or 1, most, 1)
    if from_line is not None or lines is not None:
        first = from_line or passage.from_line
        passage = reading.read(store, view.audience, place, passage.path, first, most, 0)
    return passage.path, _whole(store, view, place, passage)


def _whole(store: apsw.Connection, view: View, place: reading.Place, passage: Passage) -> _Lines:
    """A passage of a transcript whose only line was too long for one answer, whole: the contract reads on by lines."""
    text, next_from = passage.text, passage.next_from
    offset, number = passage.next_offset, passage.next_from or passage.from_line
    while offset and len(text) < limits.READ_LINE_MAX_CHARS:
        more = reading.read(store, view.audience, place, passage.path, number, 1, offset)
        text, offset, next_from = text + more.text, more.next_offset, more.next_from
    if offset:  # longer than anything that is stored today: what follows is read on behind it
        next_from = number + 1
    return _Lines(text, passage.from_line, passage.lines, next_from)


def _admitted(view: View, store: apsw.Connection, rooms: AgentRooms, source: str, session_key: str | None) -> None:
    if not view.admits(store, rooms.settings.agent, source, session_key):
        raise errors.AccessDenied("the recall pass does not admit that")
