"""Who asks a gateway, and whether they may still have the answer: a connection, its request, the run behind it.

A client that is connected speaks for itself. A synthetic client, and one that an agent's tool or runtime made, speaks
with the operator authority that its admitted run was captured with, and without one is refused. Not here:
authenticating anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from memory_sqlite import errors
from memory_sqlite.runtime.callers import CallerContext, OperatorAuthority
from memory_sqlite.runtime.signals import AbortSignal

READ_SCOPE: Final = "operator.read"
_READ_SCOPES: Final = frozenset({READ_SCOPE, "operator.admin"})
NO_OPERATOR: Final = "memory methods require operator authority"
NO_SCOPE: Final = f"memory methods require the scope {READ_SCOPE}"
GONE: Final = "the client's authority is no longer current"
REPLACED: Final = "the state is owned by somebody else now"


@dataclass(frozen=True)
class RunAuthority:
    """The operator authority that an admitted run was captured with. ``assert_current`` raises once the run is over."""

    scopes: tuple[str, ...]
    assert_current: Callable[[], None]
    conn_id: str | None = None


@dataclass
class Connection:
    """A client as its gateway authenticated it. ``is_current`` says whether its authority still holds.

    Thread-safe: each of its facts changes once, one way.
    """

    role: str
    conn_id: str | None
    scopes: tuple[str, ...]
    kind: Literal["client", "synthetic", "agent-tool", "agent-runtime"] = "client"
    run: RunAuthority | None = None
    is_current: Callable[[], bool] = lambda: True
    closed: AbortSignal = field(default_factory=AbortSignal)
    """Aborted when the connection closes."""
    invalidated: bool = False

    def invalidate(self) -> None:
        """The client's credentials are no longer good: no request of it may be answered any more."""
        self.invalidated = True

    def close(self) -> None:
        """The connection is gone; what is being looked up for it ends."""
        self.closed.abort("the connection was closed")

    def assert_current(self) -> None:
        """Raise ``Cancelled`` or ``CallerNotCurrent`` when nothing may be answered any more."""
        self.closed.raise_if_aborted()
        if self.invalidated or not self.is_current():
            raise errors.CallerNotCurrent(GONE)
        if self.kind != "client" and self.run is not None:
            self.run.assert_current()

    def authority(self) -> OperatorAuthority:
        """The operator this connection speaks for, its scopes copied. Raises ``AccessDenied``."""
        if self.kind != "client":
            if self.run is None:
                raise errors.AccessDenied(NO_OPERATOR)
            operator = OperatorAuthority(tuple(self.run.scopes), self.run.conn_id)
        elif self.role != "operator" or not self.conn_id:
            raise errors.AccessDenied(NO_OPERATOR)
        else:
            operator = OperatorAuthority(tuple(self.scopes), self.conn_id)
        if _READ_SCOPES.isdisjoint(operator.scopes):
            raise errors.AccessDenied(NO_SCOPE)
        return operator


@contextmanager
def caller_of(connection: Connection, signal: AbortSignal | None) -> Iterator[CallerContext]:
    """The connection as a caller for one request: aborted by the request's signal and when the connection closes.

    Raises ``AccessDenied`` for who is no operator, and what ``assert_current`` raises.
    """
    authority = connection.authority()
    either = AbortSignal()
    unlink = [one.on_abort(either.abort) for one in (connection.closed, signal) if one is not None]

    def assert_current() -> None:
        connection.assert_current()
        if signal is not None:
            signal.raise_if_aborted()

    try:
        assert_current()
        yield CallerContext(authority, assert_current, either)
    finally:
        for remove in unlink:
            remove()


class StateOwner:
    """The process that owns the state, under an id of its own; it may be replaced by another. Thread-safe."""

    def __init__(self, owner_id: str) -> None:
        self.owner_id = owner_id
        self._revoked = False

    def revoke(self) -> None:
        """Somebody else owns the state from now on."""
        self._revoked = True

    def assert_current(self, expected: str) -> None:
        """Raise ``CallerNotCurrent`` unless this is the owner that was expected, and still is."""
        if self._revoked or expected != self.owner_id:
            raise errors.CallerNotCurrent(REPLACED)

    def guarding(self, caller: CallerContext, expected: str) -> CallerContext:
        """The caller, current only as long as this is the owner that was expected."""

        def assert_current() -> None:
            caller.assert_current()
            self.assert_current(expected)

        return CallerContext(caller.authority, assert_current, caller.signal)
