"""The host's own context path, in the form of an engine: messages go on as they are, and the host compacts.

Always there, never quarantined, never refuses: it is what a turn falls back on. Not here: counting tokens well (the
host's own prompt assembly does that) and compaction itself (the host's, given here as a callable).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite.context.shapes import AssembleResult, CompactResult, EngineInfo
from memory_sqlite.host.engines import turn_rows
from memory_sqlite.text.units import utf8_length

Compaction = Callable[..., Awaitable[CompactResult]]
"""A host's compaction: takes what ``compact`` was given, answers as ``compact`` does."""

_INFO: Final = EngineInfo(id="legacy", name="Legacy context")


class LegacyEngine:
    """Passes everything through."""

    info = _INFO

    def __init__(self, compaction: Compaction | None = None) -> None:
        self._compaction = compaction

    async def ingest(self, *, session_id: str, message: Mapping[str, Any], **host: Any) -> Mapping[str, bool]:
        """Nothing is kept: the transcript has it."""
        return {"ingested": False}

    async def assemble(self, *, session_id: str, messages: Sequence[Mapping[str, Any]], **host: Any) -> AssembleResult:
        """The messages as they are."""
        kept = tuple(messages)
        return AssembleResult(kept, upper_bound(kept))

    async def compact(self, *, session_id: str, session_key: str, **host: Any) -> CompactResult:
        """The host's compaction; without one it is said that there is none."""
        if self._compaction is None:
            return CompactResult(ok=False, compacted=False, reason="the host has no compaction")
        return await self._compaction(session_id=session_id, session_key=session_key, **host)


def upper_bound(messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of messages without a tokenizer: their bytes as JSON, which no byte-level tokenizer exceeds."""
    return sum(utf8_length(_as_text(message)) for message in messages)


def _as_text(message: Mapping[str, Any]) -> str:
    try:
        return turn_rows.dump(dict(message))
    except (TypeError, ValueError, RecursionError):  # the host's own object: only its size is wanted
        return repr(message)
