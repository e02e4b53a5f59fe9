"""One caller of a provider: a snapshot of its authority, and the whole check of whether that still holds.

The order is the contract's: the caller's own ``assert_current``, then (a session with an audience) that the audience
was minted here, is bound to this session and is current, then the abort signal. Called by the binder, and by providers
through the context they are given. Not here: minting (``audiences``), whether the plugin is alive (``instances``).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from memory_sqlite import errors
from memory_sqlite.host.audiences import FORGED, Audiences
from memory_sqlite.host.racing import End, ends_of, raced
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    CallerContext,
    HostAuthority,
    MemoryAudience,
    OperatorAuthority,
    SessionAuthority,
)
from memory_sqlite.runtime.signals import AbortSignal

UNGUARDED = "memory provider requires caller authority with assertCurrent"


class BoundCaller:
    """A caller whose authority can no longer be changed under the provider's hands."""

    def __init__(self, audiences: Audiences, given: CallerContext) -> None:
        """Raises ``CallerNotCurrent`` for a context without a callable check, and for an audience not minted here,
        ``InvalidArgument`` for a signal that is none."""
        check = getattr(given, "assert_current", None)
        if not callable(check) or inspect.iscoroutinefunction(check):
            raise errors.CallerNotCurrent(UNGUARDED)
        self._check = check
        self._audiences = audiences
        authority = _snapshot(getattr(given, "authority", None))
        self._authority = authority
        self._audience: MemoryAudience | None = authority.audience if isinstance(authority, SessionAuthority) else None
        if self._audience is not None and not audiences.is_minted(self._audience):
            raise errors.CallerNotCurrent(FORGED)
        signal = getattr(given, "signal", None)
        if signal is not None and not isinstance(signal, AbortSignal):
            raise errors.InvalidArgument("signal must be an AbortSignal")
        self._signal = signal
        self.ends = ends_of(signal)
        self.context = CallerContext(authority, self.check, signal)
        """What the provider gets."""

    def check(self) -> None:
        """The whole check, synchronous, any thread. Raises what the caller's own check raises, ``CallerNotCurrent``,
        ``CurrencyUnavailable`` or ``Cancelled``."""
        self._own()
        self._standing()

    def _own(self) -> None:
        answer = self._check()
        if inspect.isawaitable(answer):
            # nobody would ever run it: a check that is not one
            if inspect.iscoroutine(answer):
                answer.close()
            raise errors.CallerNotCurrent(UNGUARDED)

    def _standing(self) -> None:
        if self._audience is not None and isinstance(self._authority, SessionAuthority):
            self._audiences.assert_current(self._audience, self._authority.session_key)
        if self._signal is not None:
            self._signal.raise_if_aborted()

    async def current(self, ends: Sequence[End] | None = None) -> None:
        """Wait for pending publications, then check; the check has just been made when this returns.

        A publication that settles unchanged is no failure. ``ends`` end the waiting; without them the caller's signal.
        """
        while True:
            if self._audiences.is_pending(self._audience):
                await raced(self._audiences.joined(self._audience), self.ends if ends is None else ends)
            self._own()  # whatever it raises is the caller's word
            try:
                self._standing()
            except errors.CurrencyUnavailable:
                continue  # another thread began to write in this moment
            return


def _snapshot(given: Any) -> CallerAuthority:
    """The authority as it is now, in the contract's own classes."""
    if isinstance(given, OperatorAuthority):
        return OperatorAuthority(tuple(given.scopes), given.conn_id)
    if isinstance(given, SessionAuthority):
        return SessionAuthority(
            given.session_key, given.sandboxed, given.session_id, given.audience, given.conversation_recall
        )
    if isinstance(given, HostAuthority):
        return HostAuthority(given.operation)
    raise errors.CallerNotCurrent(UNGUARDED)
