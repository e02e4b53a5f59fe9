"""What every format's reader needs: session fallbacks, stable entry ids, and the step from record to ``Spoken``.

Called by the format modules only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from memory_sqlite import limits
from memory_sqlite.clock import parse_time
from memory_sqlite.model import SessionInfo
from memory_sqlite.sources.jsonl import Line
from memory_sqlite.sources.transcript_formats.items import Item, Spoken
from memory_sqlite.text.units import utf8_length, valid_unicode
from memory_sqlite.transcripts.normalise import normalise

COUNTED_TEXTS_MAX: Final = 262_144
"""Different messages without id whose repetitions are counted: about 35 MiB. Later ones are told apart by line."""

_SUFFIX: Final = re.compile(r"\.jsonl\b.*$|\.ndjson\b.*$|\.gz$")
_ROLLOUT: Final = re.compile(r"^rollout-.*?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$")


class Reader(Protocol):
    """One format's reading of one file: values in file order in, items out, and what was held back at the end."""

    def read(self, value: Mapping[str, Any], line: Line) -> list[Item]: ...

    def finish(self) -> list[Item]: ...


class Context:
    """One file being read: how its sessions are called when it does not say, and which ids were made for it."""

    def __init__(self, path: Path, *, session: str | None, redact: bool) -> None:
        self.path = path
        self.override = session
        self.redact = redact
        self.fallback = session_from_name(path)
        self._seen: dict[int, int] = {}

    def session_key(self, said: object) -> str:
        """The key the caller chose, else what the file said where it is usable, else the file's name (C052)."""
        if self.override is not None:
            return self.override
        return usable_key(said) or self.fallback

    def speak(
        self,
        session: SessionInfo,
        line: Line,
        message: Mapping[str, Any],
        *,
        record: Any,
        times: tuple[object, ...] = (),
        entry_ids: tuple[str, ...] = (),
        first_line: int | None = None,
    ) -> Spoken:
        """Normalise ``message`` (role, content, id, name, sender); ``times`` are tried in order.

        Where the host gave no entry id, one is made from session, role, text and time and the number of the occurrence,
        so that reading a grown file again gives the same ids. Raises ``InvalidArgument`` naming the field.
        """
        at = next((time for time in times if parse_time(time) is not None), None)
        number = first_line if first_line is not None else line.number
        said = normalise({**message, "at": at}, redact=self.redact, record=record, entry_ids=entry_ids)
        if not said.entry_ids:
            telling = said.text or said.raw  # a message without text is told by its record
            made = self._made_id(f"{session.key}\0{said.role}\0{said.at}\0{telling}", number)
            said = replace(said, entry_ids=(made,))
        return Spoken(session, said, number, line.end_offset)

    def _made_id(self, content: str, line: int) -> str:
        digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8)
        key = int.from_bytes(digest.digest(), "big")
        if key in self._seen or len(self._seen) < COUNTED_TEXTS_MAX:
            occurrence = self._seen[key] = self._seen.get(key, 0) + 1
            return f"h:{digest.hexdigest()}:{occurrence}"
        return f"h:{digest.hexdigest()}:L{line}"


def session_from_name(path: Path) -> str:
    """The session a file is named after: its stem, or for Codex rollouts the UUID at the end of it."""
    stem = valid_unicode(path.name)
    stem = _SUFFIX.sub("", stem) or stem
    rollout = _ROLLOUT.match(stem)
    return rollout.group(1) if rollout else stem


def usable_key(value: object) -> str | None:
    """A session id or message id as text: trimmed, valid, not blank, within limits; numbers are taken as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    key = valid_unicode(value).strip()
    return key if key and utf8_length(key) <= limits.HOST_ID_MAX_BYTES else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is a JSON object, else an empty one: a field of the wrong type counts as not said."""
    return value if isinstance(value, dict) else {}


def type_of(value: Mapping[str, Any]) -> str | None:
    """The ``type`` of a record where it is a word."""
    kind = value.get("type")
    return kind if isinstance(kind, str) else None


def project_of(cwd: object) -> str | None:
    """The project a working directory stands for: its last component."""
    if not isinstance(cwd, str):
        return None
    return usable_key(re.split(r"[\\/]", cwd.rstrip("\\/"))[-1])
