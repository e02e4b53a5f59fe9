"""What hosts are told by the contracts: providers, callers, audiences, cursors, engines."""

from __future__ import annotations

from typing import Literal

from memory_sqlite.errors.base import MemorySqliteError

AudienceDenialKind = Literal["stale-lineage", "unverified", "ineligible"]


class ProviderRefused(MemorySqliteError):
    """A host refused a request before or after a provider's code: a capability not declared, a foreign reference."""

    code = "provider_refused"
    exit_code = 2
    default_hint = "Ask only for what the handle's capabilities declare, with references of that provider."


class ProviderInvalid(MemorySqliteError):
    """A plugin registered or returned something that is not a memory provider, capability or engine."""

    code = "provider_invalid"
    exit_code = 1
    default_hint = "Correct the plugin: the conformance kit names each rule it breaks."


class ProviderUnavailable(MemorySqliteError):
    """There is no memory provider to ask, its handle was closed, or its plugin instance is gone."""

    code = "provider_unavailable"
    exit_code = 6
    default_hint = "Open a new handle; select and enable a memory plugin where there is none."


class CallerNotCurrent(MemorySqliteError):
    """The caller's authority or audience was forged, belongs elsewhere, or has lapsed."""

    code = "caller_not_current"
    exit_code = 5
    default_hint = "Resolve the audience again from the turn that is running."


class CurrencyUnavailable(CallerNotCurrent):
    """A session is being written at this moment, so nobody can say whether the caller is still current."""

    code = "currency_unavailable"
    exit_code = 5
    retryable = True
    default_hint = "Try again when the session has been written."


class AudienceDenied(MemorySqliteError):
    """A turn has no memory audience: its lineage is over, could not be verified, or never grants one."""

    code = "audience_denied"
    exit_code = 5
    default_hint = "Go on without private memory; spawn the session anew when its lineage is stale."

    def __init__(self, kind: AudienceDenialKind, message: str, *, hint: str | None = None) -> None:
        """``stale-lineage``: an ancestor was reset or removed, or nothing was recorded: spawn the session anew.
        ``unverified``: something moved or could not be read: a later turn tries again. ``ineligible``: malformed,
        cyclic, of another agent, too deep, or without a durable chat type."""
        super().__init__(message, hint=hint)
        self.kind = kind


class CursorExpired(MemorySqliteError):
    """A cursor cannot be continued: it is damaged, somebody else's, of another query, or too old."""

    code = "cursor_expired"
    exit_code = 4
    default_hint = "Search again without a cursor."


class BudgetTooSmall(MemorySqliteError, ValueError):
    """Not even the newest turn, shortened, fits into the token budget."""

    code = "budget_too_small"
    exit_code = 2
    default_hint = "Give a larger token budget, or compact the conversation first."


class AdvancementCollision(MemorySqliteError):
    """An advancement key is already in use for another turn, engine or owner."""

    code = "advancement_collision"
    exit_code = 1
    default_hint = "Use one advancement key for one logical turn; it is for ever."


class FenceBroken(MemorySqliteError):
    """The entry a running turn began with is gone, rewritten or moved, or a cursor has passed it."""

    code = "fence_broken"
    exit_code = 1
    retryable = True
    default_hint = "Go on with the legacy context for this turn; the next one tries the engine again."


class TurnUnreadable(MemorySqliteError):
    """An accepted turn could not be read from its host's transcript; ``kind`` says why. One kind is worth retrying."""

    code = "turn_unreadable"
    exit_code = 1
    default_hint = "A transcript that is being rebuilt is read again by the next drain; any other turn stays blocked."

    def __init__(self, kind: str) -> None:
        super().__init__(f"the turn cannot be read from its transcript: {kind}")
        self.kind = kind

    @property
    def is_transient(self) -> bool:
        """Whether the transcript can only not be read at this moment."""
        return self.kind == "projection-unavailable"


class EngineTimedOut(MemorySqliteError):
    """A context engine did not answer in time; what it was given goes on until it settles."""

    code = "engine_timed_out"
    exit_code = 75
    retryable = True
