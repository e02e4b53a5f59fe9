"""``manifest.json``: what a backup holds, in names, sizes and digests. Its format is in docs/backup.md.

Read strictly: a backup may come from anywhere. Names are those that a backup can have and no others, so that none leads
out of it. Not here: the files themselves (``files``). Called by ``making``, ``verifying`` and ``restoring``, and by
whoever asks which key a backup needs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from memory_sqlite import errors, limits, paths
from memory_sqlite.backup import files
from memory_sqlite.backup.reports import AgentCopy
from memory_sqlite.interop.jsonl_files import decode
from memory_sqlite.values import dataclass

NAME: Final = paths.BACKUP_MANIFEST_FILE
FORMAT: Final = paths.BACKUP_FORMAT
VERSION: Final = 1
AGENT_DIRECTORY: Final = re.compile(r"[a-z0-9_-]{1,32}-[0-9a-f]{12}", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_KEY_ID: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)
_TABLE_MAX_CHARS: Final = 200
_LARGEST: Final = 2**53


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: its name below the backup with ``/`` between folders, its size, the SHA-256 of its bytes."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself. ``session_key`` is the fingerprint of its session.key; times are ms."""

    created_at: int
    session_key: str
    key_ids: tuple[str, ...]
    agents: tuple[AgentCopy, ...]
    files: tuple[FileEntry, ...]

    @property
    def encrypted(self) -> bool:
        """Whether its stores are encrypted: then it needs a key of ``key_ids``."""
        return bool(self.key_ids)

    @property
    def bytes(self) -> int:
        """The size of all files together, without the manifest."""
        return sum(entry.bytes for entry in self.files)


def store_name(directory: str) -> str:
    """The name of an agent's store in a backup."""
    return f"{paths.AGENTS_DIRECTORY}/{directory}/{paths.STORE_FILE}"


def encode(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    body: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "created_at": manifest.created_at,
        "session_key": manifest.session_key,
        "encrypted": manifest.encrypted,
        "key_ids": list(manifest.key_ids),
        "agents": [
            {"directory": one.directory, "agent": one.agent, "schema": one.schema, "counts": dict(one.counts)}
            for one in manifest.agents
        ],
        "files": [{"name": one.name, "bytes": one.bytes, "sha256": one.sha256} for one in manifest.files],
    }
    return json.dumps({**body, "digest": _digest(body)}, ensure_ascii=False, indent=1).encode("utf-8") + b"\n"


def _digest(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def is_backup(path: Path) -> bool:
    """Whether a directory says that it is a backup, sound or not."""
    return (path / NAME).exists()


def read(path: Path) -> Manifest:
    """The manifest of the backup at ``path``, checked in itself; no other file is looked at.

    Raises ``InvalidArgument`` for what is not there or no backup, ``BackupInvalid`` for a manifest that is cut, changed
    or says what none can.
    """
    if not path.is_dir():
        raise errors.InvalidArgument("the backup does not exist or is not a directory")
    if not is_backup(path):
        raise errors.InvalidArgument("the directory is no backup: it has no manifest.json")
    data = files.read_small(path, NAME, limits.BACKUP_MANIFEST_MAX_BYTES)
    try:
        found = decode(data, 1)
    except errors.ExportInvalid as error:
        raise errors.BackupInvalid("manifest.json is cut or changed: it is not the JSON of a manifest") from error
    if found.get("format") != FORMAT:
        raise errors.BackupInvalid("manifest.json is not that of a backup of memory-sqlite")
    if found.get("version") != VERSION:
        raise errors.BackupInvalid(
            f"the backup is of another version of the format; this one knows version {VERSION}",
            hint="Upgrade memory-sqlite.",
        )
    if found.pop("digest", None) != _digest(found):
        raise errors.BackupInvalid("manifest.json was changed: its digest is another")
    try:
        return _checked(found)
    except (KeyError, TypeError, ValueError) as error:
        raise errors.BackupInvalid("manifest.json says what no backup can have") from error


def key_ids(path: Path) -> tuple[str, ...]:
    """The ids of the keys that the backup at ``path`` needs, none for one in clear. Raises what ``read`` raises."""
    return read(path).key_ids


def _checked(found: dict[str, Any]) -> Manifest:
    """Raises ``KeyError``, ``TypeError`` or ``ValueError`` for whatever is not as ``encode`` writes it."""
    agents = tuple(_agent(one) for one in _several(found["agents"]))
    listed = tuple(_file(one) for one in _several(found["files"]))
    names = [one.name for one in listed]
    wanted = {paths.SESSION_KEY_FILE, *(store_name(one.directory) for one in agents)}
    ids = tuple(_matching(_KEY_ID, one) for one in _several(found["key_ids"]))
    if ids:
        wanted.add(paths.KEYRING_FILE)
    _require(len(names) == len(set(names)) and set(names) == wanted)
    _require(len({one.directory for one in agents}) == len(agents))
    _require(found["encrypted"] is bool(ids))
    fingerprint = found["session_key"]
    _require(isinstance(fingerprint, str))
    return Manifest(_number(found["created_at"]), fingerprint, ids, agents, listed)


def _agent(found: dict[str, Any]) -> AgentCopy:
    directory = _matching(AGENT_DIRECTORY, found["directory"])
    agent = found["agent"]
    _require(agent is None or (isinstance(agent, str) and paths.agent_directory_name(agent) == directory))
    counts = found["counts"]
    _require(isinstance(counts, dict) and all(len(name) <= _TABLE_MAX_CHARS for name in counts))
    return AgentCopy(
        directory, agent, _number(found["schema"]), {name: _number(count) for name, count in counts.items()}
    )


def _file(found: dict[str, Any]) -> FileEntry:
    _require(isinstance(found["name"], str))
    return FileEntry(found["name"], _number(found["bytes"]), _matching(_HEX, found["sha256"]))


def _several(value: Any) -> list[Any]:
    _require(isinstance(value, list) and len(value) <= limits.BACKUP_AGENTS_MAX + 2)
    return list(value)


def _number(value: Any) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST)
    return int(value)


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    _require(isinstance(value, str) and pattern.fullmatch(value) is not None)
    return str(value)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError
