"""Which key a data directory and an agent's files need, told apart before the first byte is written."""

from __future__ import annotations

from pathlib import Path

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Unlocking:
    """What was found out about a directory's keys."""

    data_dir: Path

    def file_key(self, session_key: bytes, clock: Clock, *, write: bool) -> FileKey | None:
        """The key of the agent's files, ``None`` for files in clear."""
        return None


def look(data_dir: Path, agent_directory: Path, secret: Secret | None) -> Unlocking:
    """Find out; makes nothing."""
    if secret is not None:
        raise errors.EncryptionUnavailable("encryption at rest is not part of this version; nothing was stored")
    return Unlocking(data_dir)
