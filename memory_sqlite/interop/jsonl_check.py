"""Whether a file is a whole and sound export, before the first row of it is stored: one pass, nothing written.

Checked are form, order, counts, checksum, ids that come twice, and what refers to what. Held in memory are bits for
turns and messages, and eight bytes of a keyed hash for each other id, so that the size of a file hardly matters and
nobody can choose ids that collide. Called by ``jsonl_import``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Final

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.interop.jsonl_files import Source, decode
from memory_sqlite.interop.jsonl_format import (
    ARRIVED_WITHOUT_ID,
    END,
    FIELDS,
    FORMAT,
    HEADER,
    SECTIONS,
    VERSION,
    Record,
    wrong_field,
)
from memory_sqlite.interop.jsonl_keys import subject_under
from memory_sqlite.storage.session_key import fingerprint
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts.identity import run_digest
from memory_sqlite.values import dataclass

Progress = Callable[[str, int, int | None], None]

EVERY: Final = 1_000
"""Lines between two words about progress."""
_BLOCK: Final = 4_096


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that was found sound. ``sha256`` is over all lines but the last; ``lines`` counts all."""

    header: Record
    lines: int
    sha256: str
    same_key: bool


class _Numbers:
    """A set of numbers from 1, most of them following one another: one bit each."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def add(self, number: int) -> bool:
        """``False`` when it was in already."""
        block, bit = number // _BLOCK, 1 << number % _BLOCK
        bits = self._blocks.get(block, 0)
        self._blocks[block] = bits | bit
        return not bits & bit

    def __contains__(self, number: int) -> bool:
        return bool(self._blocks.get(number // _BLOCK, 0) >> number % _BLOCK & 1)


def check(source: Source, store: Store, clock: Clock, progress: Progress | None) -> Checked:
    """Read the file once. Raises ``UnknownFormat`` for one that is no export, ``ExportInvalid`` with the line number
    for one that is not sound, and for one of a version that is not known here."""
    digest = hashlib.sha256()
    checker: _Checker | None = None
    end: Record | None = None
    number = 0
    for number, data in source.lines():
        if end is not None:
            raise errors.ExportInvalid("there is something after the last line", number)
        line = _decode(data, number)
        if checker is None:
            checker = _Checker(_header(line), store, clock)
        elif line.get("kind") == "end":
            checker.finish(number)
            end = _end(line, number, digest.hexdigest())
            continue
        else:
            checker.take(line, number)
        digest.update(data)
        if progress is not None and number % EVERY == 0:
            progress("checking", number, checker.expected)
    if checker is None:
        raise errors.UnknownFormat("the file is empty", hint="Make an export with `memory-sqlite export PATH`.")
    if end is None:
        raise errors.ExportInvalid("the file is cut: its last line is missing", number + 1)
    if progress is not None:
        progress("checking", number, number)
    return Checked(checker.header, number, digest.hexdigest(), checker.same_key)


def _decode(data: bytes, number: int) -> Record:
    try:
        return decode(data, number)
    except errors.ExportInvalid:
        if number == 1:
            raise _no_export() from None
        raise


def _no_export() -> errors.UnknownFormat:
    return errors.UnknownFormat(
        "the file does not begin as an export of memory-sqlite does",
        hint="Transcripts of hosts are read by `memory-sqlite import transcripts PATH`.",
    )


def _header(line: Record) -> Record:
    if line.get("kind") != "header" or line.get("format") != FORMAT:
        raise _no_export()
    version = line.get("version")
    if type(version) is int and version > VERSION:
        raise errors.ExportInvalid(
            f"version {version} of the format is newer than this program", 1, hint="Upgrade memory-sqlite."
        )
    if (wrong := wrong_field(line, HEADER)) is not None:
        raise errors.ExportInvalid(wrong, 1)
    if ("hold" in line["counts"]) != (version != 1):
        raise errors.ExportInvalid("the field counts is not what it must be", 1)
    # what the version did not have yet there is none of
    return {**line, "counts": {**dict.fromkeys(FIELDS, 0), **line["counts"]}}


def _end(line: Record, number: int, digest: str) -> Record:
    if (wrong := wrong_field(line, END)) is not None:
        raise errors.ExportInvalid(wrong, number)
    if line["lines"] != number - 1:
        raise errors.ExportInvalid(f"the file has {number - 1} lines before this one, and should have more or fewer",
                                   number)  # fmt: skip
    if line["sha256"] != digest:
        raise errors.ExportInvalid("the checksum is another: the file was changed after it was written", number)
    return line


class _Checker:
    """The lines one after the other, with what has to be remembered of those before."""

    def __init__(self, header: Record, store: Store, clock: Clock) -> None:
        self.header = header
        self.expected = sum(header["counts"].values()) + 2
        self.same_key = header["session_key"] == fingerprint(store.key)
        self._store = store
        self._hash_key = clock.token_bytes(16)
        self._seen: set[bytes] = set()
        self._counts: Counter[str] = Counter()
        self._section = 0
        self._turns: dict[str, _Numbers] = {}
        self._messages: dict[str, _Numbers] = {}
        self._session: Record = {}
        self._turn: Record = {}
        self._record: Record = {}
        self._sources: set[tuple[object, ...]] = set()
        self._waiting: dict[bytes, int] = {}
        """Records that were named as successors and have not come yet, with the line that named them."""

    def take(self, line: Record, number: int) -> None:
        """One line. Raises ``ExportInvalid``."""
        kind = line.get("kind")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise errors.ExportInvalid("there is no such kind of line", number)
        if (wrong := wrong_field(line, FIELDS[kind])) is not None:
            raise errors.ExportInvalid(wrong, number)
        if SECTIONS[kind] < self._section:
            raise errors.ExportInvalid(f"a line of kind {kind} has its place earlier in the file", number)
        self._section = SECTIONS[kind]
        self._counts[kind] += 1
        if self._counts[kind] > self.header["counts"][kind]:
            raise errors.ExportInvalid(f"there are more lines of kind {kind} than the header says", number)
        wrong = getattr(self, f"_{kind}_line")(line, number)
        if wrong is not None:
            raise errors.ExportInvalid(str(wrong), number)

    def finish(self, number: int) -> None:
        """All lines but the last have come. Raises ``ExportInvalid``."""
        for kind in FIELDS:
            if self._counts[kind] != self.header["counts"][kind]:
                raise errors.ExportInvalid(f"there are fewer lines of kind {kind} than the header says", number)
        for line in sorted(self._waiting.values()):
            raise errors.ExportInvalid("it names a record that is not in the file", line)

    def _id(self, *parts: object) -> bytes:
        return hashlib.blake2b(repr(parts).encode("utf-8"), digest_size=8, key=self._hash_key).digest()

    def _twice(self, *parts: object) -> bool:
        own = self._id(*parts)
        if own in self._seen:
            return True
        self._seen.add(own)
        return False

    def _tombstone_line(self, line: Record, number: int) -> str | None:
        if self._twice("tombstone", line["subject_kind"], line["subject"], line["since_at"], line["until_at"]):
            return "this tombstone comes twice"
        if not self.same_key or line["of"] is None:
            return None
        fits = subject_under(self._store, line, same_key=False) == line["subject"]
        return None if fits else "the subject of the tombstone does not belong to its name"

    def _session_line(self, line: Record, number: int) -> str | None:
        if self._twice("session", line["key"]) or self._twice("token", line["token"]):
            return "this session comes twice"
        if any(self._twice("name", name) for name in line["names"]):
            return "a further name of a session comes twice"
        if self.same_key and self._store.token(line["key"]) != line["token"]:
            return "the token does not belong to the session's key"
        self._session, self._turn = line, {}
        self._turns[line["key"]], self._messages[line["key"]] = _Numbers(), _Numbers()
        return None

    def _turn_line(self, line: Record, number: int) -> str | None:
        if line["session"] != self._session.get("key"):
            return "a turn does not follow its session"
        if not self._turn.get("ordinal", 0) < line["ordinal"] <= self._session["turn_count"]:
            return "the turns of a session are not in order, or more than the session has had"
        for digest, part in line["runs"]:
            if self._twice("run", digest):
                return "an accepted run comes twice"
            if part is not None and (
                line["run_id"] is None or run_digest(self._session["token"], line["run_id"], part).hex() != digest
            ):
                return "the digest of a run does not belong to its id"
        if any(self._twice("advancement", digest) for digest in line["advancements"]):
            return "an accepted advancement comes twice"
        if line["advancement_key"] is not None and self._twice("advancement key", line["advancement_key"]):
            return "an advancement key comes twice"
        self._turn = line
        self._turns[line["session"]].add(line["ordinal"])
        return None

    def _message_line(self, line: Record, number: int) -> str | None:
        if line["session"] != self._session.get("key") or line["turn"] != self._turn.get("ordinal"):
            return "a message does not follow its turn"
        if line["position"] > self._session["message_count"]:
            return "there are more messages than the session has had"
        if not self._messages[line["session"]].add(line["position"]):
            return "a message comes twice"
        if len({tuple(entry) for entry in line["entries"]}) != len(line["entries"]):
            return "an entry of a message comes twice"
        if any(entry is not None and entry.startswith(ARRIVED_WITHOUT_ID) for entry, _ in line["entries"]):
            return "an entry has an id that means that it has none"
        return None

    def _record_line(self, line: Record, number: int) -> str | None:
        own = self._id("record", line["record_id"])
        if own in self._seen:
            return "a record comes twice"
        self._seen.add(own)
        self._waiting.pop(own, None)
        if line["session"] not in self._turns:
            return "it names a session that is not in the file"
        if line["turn"] is not None and not self._has_turn(line["turn"]):
            return "it names a turn that is not in the file"
        if line["superseded_by"] is not None:
            if line["status"] != "superseded" or line["superseded_by"] == line["record_id"]:
                return "what is superseded and what supersedes do not fit"
            successor = self._id("record", line["superseded_by"])
            if successor not in self._seen:
                self._waiting.setdefault(successor, number)
        self._record = line
        self._sources.clear()
        return None

    def _record_source_line(self, line: Record, number: int) -> str | None:
        if line["record"] != self._record.get("record_id"):
            return "a source does not follow its record"
        if not self._has_turn(line["turn"]):
            return "it names a turn that is not in the file"
        source = tuple(line["turn"])
        if source in self._sources:
            return "a source comes twice"
        self._sources.add(source)
        return None

    def _has_turn(self, turn: list[object]) -> bool:
        key, ordinal = turn
        return str(key) in self._turns and int(str(ordinal)) in self._turns[str(key)]

    def _accepted_run_line(self, line: Record, number: int) -> str | None:
        return "an accepted run comes twice" if self._twice("run", line["digest"]) else None

    def _accepted_advancement_line(self, line: Record, number: int) -> str | None:
        return "an accepted advancement comes twice" if self._twice("advancement", line["digest"]) else None

    def _outbox_line(self, line: Record, number: int) -> str | None:
        return "a waiting turn comes twice" if self._twice("outbox", line["advancement_key"]) else None

    def _hold_line(self, line: Record, number: int) -> str | None:
        if self._twice("hold", line["session"], line["hold_kind"]):
            return "a hold comes twice"
        return None if line["session"] in self._turns else "it names a session that is not in the file"

    def _recall_line(self, line: Record, number: int) -> str | None:
        ranks = set()
        for hit in line["hits"]:
            ranks.add(hit["rank"])
            if (hit["reference"] is None) == (hit["message"] is None):
                return "a hit names nothing, or two things"
            if hit["message"] is not None:
                key, position = hit["message"]
                if key not in self._messages or position not in self._messages[key]:
                    return "it names a message that is not in the file"
        return "a rank comes twice" if len(ranks) != len(line["hits"]) else None
