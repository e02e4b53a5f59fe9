"""The name of one flush cycle of one life of a session, by which tools recognise a retry.

Not here: what a tool does with it. Called by ``run``.
"""

from __future__ import annotations

import hashlib
import uuid


def flush_id(session_id: str, lifecycle_revision: str | None, compaction_count: int) -> str:
    """The deterministic id as lower-case UUID text (contract, section 3.8). It grants nothing.

    Retries and fallbacks within a cycle share it; a later cycle, another revision or session has another.
    """
    told = "\0".join(("openclaw-memory-flush", session_id, lifecycle_revision or "", str(compaction_count)))
    digest = bytearray(hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))
