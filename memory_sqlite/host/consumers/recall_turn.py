"""A turn that something is recalled for before its prompt, and what tells one such turn from another.

Not here: recalling (``trigger_recall``, ``deep_recall``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from memory_sqlite import limits
from memory_sqlite.host.consumers.lease import always_current
from memory_sqlite.host.racing import calling, ends_of, raced
from memory_sqlite.host.slots import ActiveMemory
from memory_sqlite.runtime.callers import CallerContext, SessionAuthority
from memory_sqlite.runtime.plugins import ToolContext
from memory_sqlite.runtime.signals import AbortSignal
from memory_sqlite.text.frame import strip_frames
from memory_sqlite.text.units import cut_utf16

_READ_UNITS = 64 * limits.KIB
"""Of a longer message only this much is looked at for frames."""


@dataclass(frozen=True)
class RecallTurn:
    """A turn about to be prompted. ``facts`` are its trusted ones, as its tools get them, the projects among them;
    ``allowed_tools`` are the tools that its policy lets it use, ``assert_current`` is the run's own check."""

    run_id: str
    message: str
    facts: ToolContext
    allowed_tools: frozenset[str]
    assert_current: Callable[[], None] = always_current
    signal: AbortSignal | None = None

    @property
    def words(self) -> str:
        """What was said, without blocks that were recalled for it before."""
        return cut_utf16(strip_frames(self.message[:_READ_UNITS]), limits.RECALL_QUERY_UNITS).strip()

    @property
    def caller(self) -> CallerContext:
        """The turn's session with its audience, without a pass."""
        facts = self.facts
        authority = SessionAuthority(facts.session_key, facts.sandboxed, facts.session_id, facts.memory_audience)
        return CallerContext(authority, self.assert_current, self.signal)

    def key(self, owner: ActiveMemory, *more: Hashable) -> Hashable:
        """What an answer depends on beside the audience and the session: the run, what its tools may do, and what is
        asked of whom. A reloaded plugin is another one."""
        facts = self.facts
        return (
            owner.instance,
            self.run_id,
            self.allowed_tools,
            facts.agent_id,
            facts.session_id,
            facts.sandboxed,
            facts.sender_is_owner,
            tuple(facts.active_project_keys),
            self.words,
            *more,
        )

    async def forgotten_mark(self, owner: ActiveMemory) -> Hashable:
        """What the owner's provider says has changed when something was forgotten; ``None`` of one that cannot say.

        Raises what the provider raises, and ``Cancelled``.
        """
        mark = getattr(owner.capability.provider_runtime, "forgotten_mark", None)
        if not callable(mark):
            return None
        said: Hashable = await raced(calling(mark, self.facts.agent_id), ends_of(self.signal))
        return said
