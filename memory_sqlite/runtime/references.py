"""The references our provider gives out: which part of which memory, in which revision, and nothing of the machine.

An id is a search's own reference (``note:PATH#L3-L9``, ``message:ID``, ``record:ID``); a note outside of the workspace
goes by an opaque name (``outside``). A revision is a keyed digest of what was found: of a note, of its whole file and
of the lines found, so that an edit elsewhere in the file leaves the reference good. Not here: reading
(``reading_back``), who may (``visibility``). Called by ``listing``, ``candidates`` and ``reading_back``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.model import SourceProblem
from memory_sqlite.runtime.outside import OutsideNotes
from memory_sqlite.runtime.shapes import Citation, Reference
from memory_sqlite.runtime.visibility import PROVIDER_ID
from memory_sqlite.sources import notes
from memory_sqlite.sources.lines import split_lines
from memory_sqlite.text.units import valid_unicode

_DIGEST_BYTES: Final = 6
_RANGE: Final = re.compile(r"#L(\d{1,9})(?:-L(\d{1,9}))?$", re.ASCII)


@dataclass(frozen=True)
class Named:
    """What an id names: ``key`` is a note's path, a message's or a record's id; lines are a note's, both included."""

    kind: Literal["note", "message", "record"]
    key: str
    first: int | None = None
    last: int | None = None


def parse(identity: str, outside: OutsideNotes) -> Named | None:
    """What an id of ours names; ``None`` for what is none."""
    kind, _, rest = identity.partition(":")
    if kind == "message" and rest.isascii() and rest.isdigit() and len(rest) < 19:
        return Named("message", rest)
    if kind == "record" and rest and valid_unicode(rest) == rest:
        return Named("record", rest)
    if kind != "note" or not rest or rest.startswith("/"):
        return None
    match = _RANGE.search(rest)
    path = outside.find(rest[: match.start()] if match else rest)
    if match is None:
        return Named("note", path)
    first = max(1, int(match[1]))
    return Named("note", path, first, max(first, int(match[2] or first)))


def digest(key: bytes, *parts: str) -> str:
    """A piece of a revision: keyed, so that nobody can try out words."""
    text = "\0".join(parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES, key=key[:64]).hexdigest()


def note_revision(key: bytes, file_hash: str, text: str | None, first: int | None, last: int | None) -> str:
    """Of a note's file (SHA-256 of its bytes) and, where its text and lines are known, of those lines."""
    whole = digest(key, "file", file_hash)
    if text is None or first is None or last is None:
        return whole
    return f"{whole}.{digest(key, 'lines', *split_lines(text)[first - 1 : last])}"


def stored_revision(key: bytes, store: apsw.Connection, named: Named) -> str | None:
    """Of a message or a record as the store has it now; ``None`` when it has none."""
    if named.kind == "message":
        row: Any = store.execute("SELECT text FROM messages WHERE id = ?", (int(named.key),)).fetchone()
    else:
        row = store.execute("SELECT content, status FROM records WHERE record_id = ?", (named.key,)).fetchone()
    return None if row is None else digest(key, named.kind, *row)


class Naming:
    """Makes references of what a search found in one agent's memory."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._outside = OutsideNotes(opened)

    def parse(self, identity: str) -> Named | None:
        """What an id of ours names; ``None`` for what is none."""
        return parse(identity, self._outside)

    def shown(self, path: str) -> str:
        """A path or a reference as others may know it."""
        if path.startswith("note:"):
            return "note:" + self._outside.hide(path.removeprefix("note:"))
        return self._outside.hide(path)

    def references(self, found: Sequence[str], held: apsw.Connection | None = None) -> list[Reference]:
        """References to what a search gave, by its own; each with the revision that the search saw, if it is known.

        ``held`` is the generation that was searched, where it is not the current one.
        """
        identities = [self.shown(one) for one in found]
        named = [self.parse(one) for one in identities]
        hashes = self._indexed({one.key for one in named if one is not None and one.kind == "note"}, held)
        files: dict[str, tuple[str, str] | None] = {}
        revisions: list[str | None] = []
        with self._opened.store.readers.borrow() as store:
            for one in named:
                if one is None:
                    revisions.append(None)
                elif one.kind != "note":
                    revisions.append(stored_revision(self._opened.store.key, store, one))
                else:
                    if one.key not in files:
                        files[one.key] = self._file(one.key)
                    revisions.append(self._of_note(one, hashes.get(one.key), files[one.key]))
        return [
            Reference(PROVIDER_ID, identity, revision, _fragment(one))
            for identity, revision, one in zip(identities, revisions, named, strict=True)
        ]

    def citation(self, label: str, reference: Reference, start: int, end: int) -> Citation:
        """The place of a hit."""
        return Citation(self.shown(label), reference, start_line=start, end_line=end)

    def _of_note(self, named: Named, indexed: str | None, file: tuple[str, str] | None) -> str | None:
        if indexed is None:
            return None
        # the lines are vouched for only in the version of the file that was searched
        text = file[1] if file is not None and file[0] == indexed else None
        return note_revision(self._opened.store.key, indexed, text, named.first, named.last)

    def _indexed(self, paths: Iterable[str], held: apsw.Connection | None) -> dict[str, str]:
        wanted = json.dumps(list(paths))
        if wanted == "[]":
            return {}
        with self._opened.keeper.reader() if held is None else nullcontext(held) as index:
            rows: list[Any] = index.execute(
                "SELECT key, hash FROM documents WHERE kind = 'note' AND key IN (SELECT value FROM json_each(?))",
                (wanted,),
            ).fetchall()
        return dict(rows)

    def _file(self, path: str) -> tuple[str, str] | None:
        if self._opened.workspace is None:
            return None
        try:
            place = notes.resolve_note(self._opened.workspace, self._opened.settings.extra_paths, path)
        except errors.PathNotAllowed:
            return None
        note = None if place is None else notes.read_note(place)
        return None if note is None or isinstance(note, SourceProblem) else (note.hash, note.text)


def _fragment(named: Named | None) -> str | None:
    if named is None or named.first is None or named.last is None:
        return None
    return f"L{named.first}" if named.first == named.last else f"L{named.first}-L{named.last}"
