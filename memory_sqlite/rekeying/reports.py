"""What key commands answer. Values; no key is in them, only ids of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from memory_sqlite.values import dataclass

NEW: Final = "new"
"""In a plan stands for the id of a key that is yet to be made."""
Progress = Callable[[str, int, int | None], None]
Action = Literal["encrypt", "decrypt", "rotate", "change-passphrase"]


@dataclass(frozen=True, slots=True)
class AgentChange:
    """What became, or would become, of one agent's files. ``index`` is the number its search index has afterwards.

    ``bytes`` are those of its files before. ``index_dropped`` says why an index was not taken along: it is then built
    anew by the next open.
    """

    directory: str
    was: str | None
    bytes: int
    rows: int | None = None
    index: int | None = None
    index_dropped: str | None = None


@dataclass(frozen=True, slots=True)
class BackupKeys:
    """A backup and whether what it needs can still be given: ``needs`` says which key, in words."""

    path: str
    needs: str
    old: bool


@dataclass(frozen=True, slots=True)
class KeyReport:
    """``status``: ``planned`` (dry run), ``done``, ``nothing`` (it was so already).

    ``source`` and ``target`` are ids of data keys, ``None`` for files in clear, ``new`` for one yet to be made.
    ``resumed`` when somebody had begun. ``done_before`` counts agents that needed nothing any more. ``backups`` are
    those asked about.
    """

    action: Action
    status: Literal["planned", "done", "nothing"]
    source: str | None
    target: str | None
    cipher: str | None
    user_key: str | None
    agents: tuple[AgentChange, ...] = ()
    done_before: int = 0
    resumed: bool = False
    free_needed: int = 0
    backups: tuple[BackupKeys, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One database file. ``state``: ``plain``, ``encrypted``, ``empty``, or ``unknown`` (no database, or damaged)."""

    name: str
    state: str
    bytes: int


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """``state``: ``empty``, ``plain``, ``encrypted``, ``changing`` or ``mixed``; ``lost`` without its keyring.

    ``opens`` is whether the configured key opens it, ``None`` without one or without a keyring; ``problem`` the code of
    what opening would be refused with.
    """

    state: str
    opens: bool | None
    problem: str | None
    key_id: str | None
    user_key: str | None
    cipher: str | None
    kdf: str | None
    change: dict[str, str | None] | None
    files: tuple[KeyFile, ...]
    backups: tuple[BackupKeys, ...] = ()
