"""What a host implements to be tested, and the small words the checks are written with.

``OwnHost`` is the adapter over ``MemoryHost``: an example, and how this package tests itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from memory_sqlite.context.conformance_kit import Broken, must
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import ScriptedProvider
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import CallerContext, MemoryAudience, SessionAuthority
from memory_sqlite.runtime.plugins import MemoryCapability
from memory_sqlite.runtime.shapes import OpenRequest, OpenResult
from memory_sqlite.runtime.signals import AbortSignal

SLOT = "scripted"
"""The plugin that every host under test is configured to select."""
KEY = "agent:main:direct:conformance"
SESSION_ID = "10000000-0000-4000-8000-000000000001"
CHILD_ID = "10000000-0000-4000-8000-000000000002"


class HostUnderTest(Protocol):
    """A host binding, fresh, with the plugin ``scripted`` selected for the memory slot and nothing registered.

    Errors may be of any class; the checks look at whether something is refused, and at the contract's exact texts where
    it gives one.
    """

    def register(self, plugin_id: str, kinds: frozenset[str], capability: MemoryCapability | Mapping[str, Any]) -> None:
        """A plugin registers its capability."""

    def retire(self, plugin_id: str) -> None:
        """The plugin's instance goes, as in a reload."""

    def active(self) -> tuple[str, MemoryCapability] | None:
        """The active plugin's id and the merged capability."""

    async def open(self, request: OpenRequest) -> OpenResult:
        """Open the owner's provider for a caller."""

    async def resolve(
        self, *, agent_id: str, session_key: str, session_id: str, sender_is_owner: bool
    ) -> MemoryAudience:
        """The audience of a turn; raises when there is none."""

    async def delegate(self, parent: MemoryAudience, *, child_key: str, detached: bool) -> MemoryAudience:
        """The audience of a child run."""

    def assert_current(self, audience: MemoryAudience, session_key: str) -> None:
        """Raise when the audience is not current for that session."""

    def release(self, audience: MemoryAudience) -> None:
        """The run that owns the audience ended."""

    def write(self, row: SessionRow) -> None:
        """Write a session row."""

    def remove(self, key: str) -> None:
        """Delete a session row."""

    def publishing(self, key: str) -> AbstractContextManager[None]:
        """While inside, a write that may end the session's life is under way."""


MakeHost = Callable[[], HostUnderTest]
Check = Callable[[MakeHost], None]


class OwnHost:
    """``MemoryHost`` as a host under test."""

    def __init__(self) -> None:
        self.host = MemoryHost({"plugins": {"slots": {"memory": SLOT}}})

    def register(self, plugin_id: str, kinds: frozenset[str], capability: MemoryCapability | Mapping[str, Any]) -> None:
        self.host.slot.register(Plugin(plugin_id, kinds), capability)

    def retire(self, plugin_id: str) -> None:
        self.host.slot.unregister(plugin_id)

    def active(self) -> tuple[str, MemoryCapability] | None:
        active = self.host.slot.active()
        return None if active is None else (active.plugin_id, active.capability)

    async def open(self, request: OpenRequest) -> OpenResult:
        return await self.host.open(request)

    async def resolve(
        self, *, agent_id: str, session_key: str, session_id: str, sender_is_owner: bool
    ) -> MemoryAudience:
        return await self.host.audiences.resolve(
            agent_id=agent_id, session_key=session_key, session_id=session_id, sender_is_owner=sender_is_owner
        )

    async def delegate(self, parent: MemoryAudience, *, child_key: str, detached: bool) -> MemoryAudience:
        return await self.host.audiences.delegate(parent, child_key=child_key, detached=detached)

    def assert_current(self, audience: MemoryAudience, session_key: str) -> None:
        self.host.audiences.assert_current(audience, session_key)

    def release(self, audience: MemoryAudience) -> None:
        self.host.audiences.release(audience)

    def write(self, row: SessionRow) -> None:
        self.host.rows.put(row)

    def remove(self, key: str) -> None:
        self.host.rows.delete(key)

    def publishing(self, key: str) -> AbstractContextManager[None]:
        return self.host.rows.publishing(key)


class Stage:
    """One fresh host with the scripted provider, an owner's direct session, and a caller that can be revoked."""

    def __init__(self, make: MakeHost, provider: ScriptedProvider | None = None, **declared: Any) -> None:
        self.host = make()
        self.provider = provider if provider is not None else ScriptedProvider(SLOT)
        self.host.register(
            SLOT, frozenset({"memory"}), MemoryCapability(**{"provider_runtime": self.provider, **declared})
        )
        self.host.write(SessionRow(KEY, SESSION_ID, "r1", "direct"))
        self.signal = AbortSignal()
        self.revoked = False

    def check(self) -> None:
        """The caller's own check."""
        if self.revoked:
            raise PermissionError("revoked")

    async def audience(self, *, owner: bool = True, key: str = KEY, session_id: str = SESSION_ID) -> MemoryAudience:
        """The audience of a turn."""
        return await self.host.resolve(agent_id="main", session_key=key, session_id=session_id, sender_is_owner=owner)

    async def open(self, audience: Any = None, key: str = KEY) -> OpenResult:
        """Open for the session."""
        authority = SessionAuthority(key, False, SESSION_ID, audience)
        return await self.host.open(OpenRequest("main", CallerContext(authority, self.check, self.signal)))

    async def handle(self, audience: Any = None) -> Any:
        """An opened handle. Raises ``Broken`` when there is none."""
        result = await self.open(audience)
        must(result.provider is not None, "a valid caller gets no handle")
        return result.provider

    def reset(self) -> None:
        """The session begins another life."""
        self.host.write(SessionRow(KEY, SESSION_ID, "r2", "direct"))


async def refused(work: Awaitable[Any], why: str, text: str | None = None) -> None:
    """Raise ``Broken`` unless the work raises, with that text where one is given."""
    try:
        await work
    except Exception as error:
        must(text is None or str(error) == text, f"{why}: refused with another text than {text!r}")
        return
    raise Broken(why)


def refuses(call: Callable[[], Any], why: str, text: str | None = None) -> None:
    """The same for what is synchronous."""
    try:
        call()
    except Exception as error:
        must(text is None or str(error) == text, f"{why}: refused with another text than {text!r}")
        return
    raise Broken(why)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a check's body in a loop of its own."""
    asyncio.run(work())
