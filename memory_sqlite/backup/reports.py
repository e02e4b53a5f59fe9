"""What making, verifying and restoring a backup say when they are done. Called by the modules of those names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memory_sqlite.values import dataclass, field


@dataclass(frozen=True, slots=True)
class AgentCopy:
    """One agent's store in a backup or a data directory. ``agent`` is ``None`` where a manifest does not say it (that
    of an encrypted backup does not), ``counts`` are rows by table."""

    directory: str
    agent: str | None
    schema: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What was written. ``created_at`` is ms since the epoch, ``bytes`` the size of all files, ``key_ids`` names the
    keys that the backup needs (none for one in clear). ``problems`` are agents that were left out, and why."""

    status: Literal["ok", "partial", "disabled"]
    path: str = ""
    created_at: int | None = None
    encrypted: bool = False
    key_ids: tuple[str, ...] = ()
    agents: tuple[AgentCopy, ...] = ()
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was proved. ``damaged``: each of ``problems`` says what is wrong with which file.

    ``kind`` tells a backup, whose every file is held against its manifest, from a data directory, whose stores are
    checked. ``key_ids`` as in ``BackupReport``.
    """

    status: Literal["ok", "damaged", "disabled"]
    path: str = ""
    kind: Literal["backup", "data_directory"] | None = None
    created_at: int | None = None
    encrypted: bool = False
    key_ids: tuple[str, ...] = ()
    agents: tuple[AgentCopy, ...] = ()
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgottenAgain:
    """What was forgotten since the backup was made and has been forgotten again, of one agent."""

    agent: str
    tombstones: int = 0
    sessions: int = 0
    turns: int = 0
    messages: int = 0
    records: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class CameBack:
    """A session that has more now than in the directory it was compared with, where it had been taken out by
    retention, or forgotten and revived: ``turns`` and ``records`` of it came back."""

    agent: str
    session: str
    turns: int
    records: int


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was put back.

    ``looked_in`` are the directories whose tombstones were found and applied (``forgotten_again``). Where there was
    none for an agent, or later backups alone, it is in ``unknown``: what was forgotten of it after the time in
    ``unknown_since`` has come back, and nobody can say what. ``came_back`` lists what those directories no longer had;
    ``came_back_more`` counts sessions beyond the list. ``problems`` are directories that could not be read, and why.
    """

    status: Literal["ok", "disabled"]
    path: str = ""
    data_dir: str = ""
    created_at: int | None = None
    encrypted: bool = False
    agents: tuple[AgentCopy, ...] = ()
    files: int = 0
    bytes: int = 0
    looked_in: tuple[str, ...] = ()
    forgotten_again: tuple[ForgottenAgain, ...] = ()
    came_back: tuple[CameBack, ...] = ()
    came_back_more: int = 0
    unknown: tuple[str, ...] = ()
    unknown_since: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
