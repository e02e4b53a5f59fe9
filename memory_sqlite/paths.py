"""Names on disk: agent directories, session tokens, the files of a data directory.

Pure functions of strings and bytes; no file is opened here. The directory name and the session token are exactly those
of the layered-memory product (its reference, sections 1.1 and 1.2), so that a host that migrates keeps its citations.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path
from typing import Final

STORE_FILE: Final = "memory.sqlite"
SESSION_KEY_FILE: Final = "session.key"
KEYRING_FILE: Final = "keyring.json"
BACKUP_MANIFEST_FILE: Final = "manifest.json"
BACKUP_FORMAT: Final = "memory-sqlite backup"
"""What a manifest says it is, in its first line: another file of that name is nothing of ours."""
AGENTS_DIRECTORY: Final = "agents"

_OUTSIDE_SLUG = re.compile(r"[^a-z0-9_-]+")
_GENERATION_FILE = re.compile(r"^index-(\d{6,})\.sqlite$")


def agent_directory_name(agent: str) -> str:
    """``<slug>-<hash12>`` of an agent id that was already trimmed.

    Lower case; each run outside ``[a-z0-9_-]`` becomes one ``-``; ``-`` stripped at both ends; first 32 characters;
    empty becomes ``agent``; then ``-`` and the first 12 hex digits of SHA-256 over the UTF-8 of the original id.
    """
    slug = _OUTSIDE_SLUG.sub("-", agent.lower()).strip("-")[:32] or "agent"
    digest = hashlib.sha256(agent.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug}-{digest[:12]}"


def session_token(key: bytes, session: str) -> str:
    """32 hex digits: the first half of HMAC-SHA256 of the session key's UTF-8 under the 32 bytes of ``session.key``."""
    return hmac.new(key, session.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


def agent_directory(data_dir: Path, agent: str) -> Path:
    """Where an agent's store and generations lie."""
    return data_dir / AGENTS_DIRECTORY / agent_directory_name(agent)


def generation_file(agent_dir: Path, number: int) -> Path:
    """``index-000042.sqlite`` in the agent's directory."""
    return agent_dir / f"index-{number:06d}.sqlite"


def generation_number(name: str) -> int | None:
    """The number in a generation's file name, or ``None`` for any other name."""
    match = _GENERATION_FILE.match(name)
    return int(match[1]) if match else None
