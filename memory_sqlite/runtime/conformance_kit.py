"""What the provider checks stand on: a provider under test, callers to open it as, and the list of rules.

Not here: the checks themselves (``conformance``). Used by those who bring a provider, through ``conformance``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from memory_sqlite.model import Source
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    CallerContext,
    ConversationAudience,
    HostAuthority,
    MemoryAudience,
    OperatorAuthority,
    OwnerPrivateAudience,
    Purpose,
    SessionAuthority,
)
from memory_sqlite.runtime.shapes import (
    GetRequest,
    OpenRequest,
    ProviderHandle,
    ProviderHit,
    ProviderRuntime,
    Reference,
    SearchPage,
    SearchRequest,
)
from memory_sqlite.runtime.signals import AbortSignal

Partition = Literal["owner", "room", "other-room"]
ROOM: Final = "kit:room"
OTHER_ROOM: Final = "kit:other-room"
"""Session keys of two group conversations; ``plant`` puts what is said there under them."""
SESSION_ID: Final = "10000000-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Planted:
    """Something a check wants remembered. ``name`` is unique within a check and a fit file name.

    ``owner`` is the owner's private memory, the rooms are group conversations. ``trusted``: said by the owner or the
    agent; what is not trusted is planted as a stranger's. Triggers, projects and importance belong to ``memory`` alone.
    """

    name: str
    text: str
    partition: Partition = "owner"
    source: Source = "memory"
    projects: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    importance: int | None = None
    trusted: bool = True


@dataclass
class ProviderUnderTest:
    """A fresh, empty provider, and how to fill it.

    ``plant`` returns when what it was given can be found; it raises ``NotImplementedError`` for a kind of memory that
    the provider does not have, and the check is then left out. ``change`` gives something planted another text.
    ``secrets`` are strings that nobody may learn from ``health``: paths of the machine, say.
    """

    runtime: ProviderRuntime
    provider_id: str
    agent_id: str
    plant: Callable[[Planted], None]
    change: Callable[[str, str], None] | None = None
    disabled_agent: str | None = None
    secrets: tuple[str, ...] = ()


def always() -> None:
    """The currency of a caller who stays who they are."""


def operator(*scopes: str) -> OperatorAuthority:
    """An operator; by default one who may read."""
    return OperatorAuthority(scopes or ("operator.read",))


def session(
    audience: MemoryAudience | None = None, *, key: str = "kit:direct", sandboxed: bool = False
) -> SessionAuthority:
    """A session with an audience, or with none."""
    return SessionAuthority(key, sandboxed, SESSION_ID, audience)


def owner(subject: ProviderUnderTest) -> SessionAuthority:
    """The owner in a direct turn."""
    return session(OwnerPrivateAudience(subject.agent_id))


def room(subject: ProviderUnderTest, key: str = ROOM) -> SessionAuthority:
    """Somebody in a group conversation."""
    return session(ConversationAudience(subject.agent_id, key, SESSION_ID), key=key)


def host(operation: str = "kit") -> HostAuthority:
    """An operation of the host itself."""
    return HostAuthority(operation)


class Currency:
    """A currency check that can lapse: at once, or at the call with a number (the first is 1)."""

    def __init__(self, lapses_at: int | None = None) -> None:
        self.calls = 0
        self.lapses_at = lapses_at
        self.lapsed = False

    def __call__(self) -> None:
        self.calls += 1
        if self.lapsed or (self.lapses_at is not None and self.calls >= self.lapses_at):
            self.lapsed = True
            raise Lapsed("the caller is no longer current")


class Lapsed(Exception):
    """What a lapsed ``Currency`` raises."""


async def opened(
    subject: ProviderUnderTest,
    authority: CallerAuthority,
    *,
    purpose: Purpose = "default",
    current: Callable[[], None] = always,
    signal: AbortSignal | None = None,
) -> ProviderHandle:
    """A handle for a caller; fails when there is none."""
    context = CallerContext(authority, current, signal)
    result = await subject.runtime.open(OpenRequest(subject.agent_id, context, purpose))
    assert result.provider is not None, f"open gave no handle: {result.error}"
    return result.provider


async def found(handle: ProviderHandle, query: str, **request: Any) -> SearchPage:
    """A search."""
    return await handle.search(SearchRequest(query, **request))


async def readable(handle: ProviderHandle, query: str, word: str) -> bool:
    """Whether a caller can get at a word: in an excerpt, or by reading any hit. A refusal is no."""
    try:
        page = await found(handle, query)
    except Exception:  # whatever a provider refuses with
        return False
    return any([word in hit.excerpt or word in await text_of(handle, hit.reference) for hit in page.hits])


async def text_of(handle: ProviderHandle, reference: Reference) -> str:
    """What a reference reads, or nothing."""
    result = await handle.get(GetRequest(reference))
    return result.text if result.status == "ok" else ""


def references_of(hit: ProviderHit) -> list[Reference]:
    """Every reference that a hit carries."""
    return [hit.reference, *(one.reference for one in hit.citations if one.reference is not None)]


async def raises(work: Awaitable[Any]) -> bool:
    """Whether it raises."""
    try:
        await work
    except Exception:  # whatever a provider refuses with
        return True
    return False


def drawers(subject: ProviderUnderTest, number: int = 7) -> None:
    """Plant so many notes that all answer to ``heliotrope``."""
    for at in range(number):
        subject.plant(Planted(f"drawer-{at}", f"The heliotrope seeds number {at} lie in drawer {at * 13}.\n"))


Check = Callable[[ProviderUnderTest], None]
RULES: Final[dict[str, Check]] = {}
"""Every rule by its name, in the order of the contract's criteria."""


def rule(work: Callable[[ProviderUnderTest], Awaitable[None]]) -> Check:
    """Make a plain function of a check, and list it under its name."""

    def check(subject: ProviderUnderTest) -> None:
        async def run() -> None:
            try:
                await work(subject)
            except NotImplementedError:
                return  # the provider has no such memory: the rule says nothing about it

        asyncio.run(run())

    name = getattr(work, "__name__", "check")
    check.__name__, check.__doc__ = name, work.__doc__
    RULES[name.removeprefix("check_")] = check
    return check
