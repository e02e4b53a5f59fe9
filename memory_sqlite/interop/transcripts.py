"""Importing hosts' transcripts: streamed, tolerant, each turn once, in bounded memory.

Reading the formats is ``sources.transcript_formats``; storing is ``layers.remember``. Here: which files, how many turns
a transaction, what is reported, and which files need not be read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turns import apply_quietly, without_frames
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.indexing import rows
from memory_sqlite.layers import retention_rule
from memory_sqlite.layers.remember import remember_turns
from memory_sqlite.model import Expiry, ImportReport, Message, SessionInfo, SourceProblem
from memory_sqlite.sources.transcript_formats.items import Refused, Spoken
from memory_sqlite.sources.transcript_formats.transcript import Transcript, open_transcript
from memory_sqlite.storage.connection import writing
from memory_sqlite.text.secrets import mask_label
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.bounds import bounded
from memory_sqlite.transcripts.identity import split_turns
from memory_sqlite.values import dataclass, field

Progress = Callable[[str, int, int | None], None]

_BATCH_MESSAGES: Final = 400
_BATCH_BYTES: Final = 2 * 1024 * 1024
"""What is held before it is stored in one transaction: 1,000 rows a transaction are as fast as 10,000."""
_OPEN_TURN_BYTES: Final = 8 * 1024 * 1024
"""A turn larger than this is stored in parts, so that memory stays bounded whatever a file holds."""
_BULK_CHANGES: Final = 5_000
"""After this many changes the index is tidied as after a build: it was measured 2 to 4 times faster to search."""
_MISSING: Final = "no such file or directory"
_UNSETTLED_NS: Final = 50_000_000


@dataclass
class _Tally:
    """The report as it grows."""

    files: int = 0
    unchanged: int = 0
    sessions: set[str] = field(default_factory=set)
    turns_stored: int = 0
    turns_known: int = 0
    messages: int = 0
    episodes: int = 0
    facts: int = 0
    shortened: int = 0
    redactions: int = 0
    refused: int = 0
    ignored: int = 0
    forgotten: int = 0
    unknown_sessions: int = 0
    problems: list[SourceProblem] = field(default_factory=list)
    expires: Expiry | None = None

    def problem(self, path: Path, reason: str, line: int | None = None) -> None:
        """Report one thing; the list is bounded, the counts are not."""
        if len(self.problems) < limits.REPORTED_PROBLEMS_MAX:
            self.problems.append(SourceProblem(str(path), reason, line))

    def report(self, seconds: float) -> ImportReport:
        """The finished report."""
        return ImportReport(
            "partial" if self.problems or self.refused else "ok",
            files=self.files,
            sessions=len(self.sessions),
            turns_stored=self.turns_stored,
            turns_known=self.turns_known,
            messages=self.messages,
            episodes=self.episodes,
            facts=self.facts,
            shortened=self.shortened,
            redactions=self.redactions,
            refused=self.refused,
            ignored=self.ignored,
            forgotten=self.forgotten,
            unknown_sessions=self.unknown_sessions,
            unchanged=self.unchanged,
            seconds=seconds,
            problems=tuple(self.problems),
            expires=self.expires,
        )


def import_files(
    opened: Opened,
    paths: list[Path],
    said: SessionInfo,
    format: str | None,
    settings: Settings,
    clock: Clock,
    progress: Progress | None,
) -> ImportReport:
    """Import files, and the ``*.jsonl`` (and ``.jsonl.gz``) below directories, in name order.

    ``said`` is what the caller knows about the sessions; it wins over what the files say. A file that cannot be read is
    a problem in the report; only when nothing at all could be read is it an error.
    """
    sessions.check_info(said)
    if said.key:
        said = replace(said, key=sessions.check_key(said.key))
    started = clock.monotonic()
    tally = _Tally()
    first_error: errors.MemorySqliteError | None = None
    missing = [path for path in paths if not path.exists()]
    for path in missing:
        tally.problem(path, _MISSING)
        first_error = first_error or errors.InvalidArgument(f"{path.name}: {_MISSING}")
    for path in _files([path for path in paths if path not in missing], tally):
        try:
            _import_file(opened, path, said, format, settings, clock, progress, tally)
        except (errors.UnknownFormat, errors.InvalidArgument, errors.SessionConflict) as error:
            tally.problem(path, error.message)
            first_error = first_error or error
        except OSError as error:
            tally.problem(path, f"cannot be read: {error.strerror or type(error).__name__}")
    if first_error is not None and tally.files == 0 and tally.unchanged == 0:
        raise first_error
    tally.unknown_sessions = sum(
        row is not None and row.chat_type == "unknown"
        for row in (sessions.by_key(opened.store.connection, key) for key in tally.sessions)
    )
    tally.expires = retention_rule.expiry(opened.store.connection, settings, tally.sessions, clock.now_ms())
    _bring_up(opened, tally, progress)
    return tally.report(round(clock.monotonic() - started, 3))


def _bring_up(opened: Opened, tally: _Tally, progress: Progress | None) -> None:
    if progress is not None:
        progress("indexing", 0, None)
    warning = apply_quietly(opened)
    if warning is not None:
        tally.problem(opened.store.directory, warning)
    elif tally.messages >= _BULK_CHANGES:
        index = opened.keeper.writer()
        with writing(index):
            rows.finish(index)


def _files(paths: list[Path], tally: _Tally) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.name.endswith((".jsonl", ".jsonl.gz")) and p.is_file())
            if not found:
                tally.problem(path, "holds no *.jsonl file")
            for below in found:
                if below.is_symlink():
                    tally.problem(below, "is a link, which is not followed")
                else:
                    yield below
        else:
            yield path


def _import_file(
    opened: Opened,
    path: Path,
    said: SessionInfo,
    format: str | None,
    settings: Settings,
    clock: Clock,
    progress: Progress | None,
    tally: _Tally,
) -> None:
    status = path.stat()
    key = _cursor_key(path, said)
    stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    known = opened.store.connection.execute(
        "SELECT device, inode, size, mtime_ns FROM import_cursors WHERE path = ?", (key,)
    ).fetchone()
    if not status.st_size:
        tally.files += 1  # begun and nothing said yet: no format to tell, nothing to refuse
        return
    if known == stamp:
        tally.unchanged += 1
        return
    transcript = open_transcript(path, format=format, session=said.key or None, redact=settings.redact_secrets)
    _store_items(opened, path, transcript, said, settings, clock, progress, tally, status.st_size)
    tally.files += 1
    settled = time.time_ns() - status.st_mtime_ns > _UNSETTLED_NS
    if transcript.pending is None and settled:
        with opened.store.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO import_cursors VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, transcript.format, *stamp, clock.now_ms()),
            )


def _cursor_key(path: Path, said: SessionInfo) -> str:
    """An unchanged file is read again when the caller says something else about its sessions than the last time."""
    more = (said.chat_type, said.kind, said.sender_is_owner)
    told = "".join(f"\t{value}" for value in more) if any(value is not None for value in more) else ""
    return f"{path.absolute()}{told}\n{said.key}"


def _store_items(
    opened: Opened,
    path: Path,
    transcript: Transcript,
    said: SessionInfo,
    settings: Settings,
    clock: Clock,
    progress: Progress | None,
    tally: _Tally,
    size: int,
) -> None:
    batch = _Batch(opened, said, settings, clock, tally)
    for item in transcript:
        if isinstance(item, Spoken):
            batch.add(item)
            if progress is not None:
                progress(path.name, min(item.end_offset, size), size)
        elif isinstance(item, Refused):
            tally.refused += 1
            tally.problem(path, item.reason, item.line)
        else:
            tally.ignored += 1
    batch.store(last=True)


class _Batch:
    """Messages held by session until there are enough of them; the open turn of each session is held back."""

    def __init__(self, opened: Opened, said: SessionInfo, settings: Settings, clock: Clock, tally: _Tally) -> None:
        self._opened = opened
        self._said = said
        self._settings = settings
        self._clock = clock
        self._tally = tally
        self._held: dict[str, tuple[SessionInfo, list[Message]]] = {}
        self._count = 0
        self._bytes = 0

    def add(self, item: Spoken) -> None:
        """Hold one message, shortened to the bound where it is larger: an import never loses a turn for its size."""
        message = without_frames(item.message)
        if message is None:
            self._tally.ignored += 1
            return
        message = bounded(message, self._settings.max_record_bytes, "truncate", what=f"line {item.line}")
        self._tally.shortened += message.cut_from_bytes is not None
        self._tally.redactions += message.redactions
        info = self._merged(item.session)
        if message.role != "user" or message.is_tool_output:
            info = replace(info, sender_is_owner=None)  # only who speaks as the user can be the owner
        elif self._is_another_speaker(info):
            self._store_session(*self._held.pop(info.key))
        known, messages = self._held.setdefault(info.key, (info, []))
        messages.append(message)
        self._held[info.key] = (_joined(known, info), messages)
        self._count += 1
        self._bytes += len(message.text) + len(message.raw)
        if self._count >= _BATCH_MESSAGES or self._bytes >= _BATCH_BYTES:
            self.store(last=self._bytes >= _OPEN_TURN_BYTES)

    def _is_another_speaker(self, info: SessionInfo) -> bool:
        """Whether what is held was said by somebody else: in a room the owner's flag is each line's, not the file's."""
        held = self._held.get(info.key)
        if held is None or not any(message.role == "user" for message in held[1]):
            return False
        is_silent = info.sender_is_owner is None and held[0].chat_type == "direct"
        return not is_silent and held[0].sender_is_owner != info.sender_is_owner

    def _merged(self, info: SessionInfo) -> SessionInfo:
        said = self._said
        return replace(
            info,
            chat_type=said.chat_type or info.chat_type,
            kind=said.kind or info.kind,
            sender_is_owner=info.sender_is_owner if said.sender_is_owner is None else said.sender_is_owner,
            # a project is the name of a folder, and folders are named after all sorts of things
            project=mask_label(info.project) if info.project and self._settings.redact_secrets else info.project,
        )

    def store(self, *, last: bool) -> None:
        """Store the complete turns held, and with ``last`` the open ones too."""
        held, self._held, self._count = self._held, {}, 0
        self._bytes = 0
        for key, (info, messages) in held.items():
            open_turn: list[Message] = []
            if not last:
                split = split_turns(messages)
                open_turn = split[-1]
                messages = messages[: len(messages) - len(open_turn)]
            if messages:
                self._store_session(info, messages)
            if open_turn:
                self._held[key] = (info, open_turn)
                self._bytes += sum(len(message.text) + len(message.raw) for message in open_turn)

    def _store_session(self, info: SessionInfo, messages: list[Message]) -> None:
        stored = remember_turns(
            self._opened.store,
            info,
            messages,
            run_id=None,
            way="import",
            settings=self._settings,
            clock=self._clock,
            also=(info.host_key,) if info.host_key is not None else (),
        )
        tally = self._tally
        tally.sessions.add(info.key)
        tally.turns_stored += stored.new_turns
        tally.turns_known += stored.known_turns
        tally.forgotten += stored.forgotten
        tally.messages += stored.messages
        tally.episodes += len(stored.episodes)
        tally.facts += len(stored.facts)


def _joined(known: SessionInfo, info: SessionInfo) -> SessionInfo:
    """What a file says later about its session completes what it said first."""
    return SessionInfo(
        known.key,
        known.chat_type or info.chat_type,
        known.kind or info.kind,
        known.sender_is_owner if known.sender_is_owner is not None else info.sender_is_owner,
        known.project or info.project,
        known.started_at if known.started_at is not None else info.started_at,
        known.host_key or info.host_key,
    )
