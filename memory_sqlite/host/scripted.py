"""A memory provider that does as it is told and remembers what was asked of it: for testing hosts.

Used by the conformance kit for hosts, and useful to a host's own tests. It stores nothing. Not here: what a real
provider owes (``runtime.conformance``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memory_sqlite.host.racing import calling
from memory_sqlite.runtime.shapes import (
    CandidateRequest,
    Capabilities,
    Found,
    GetRequest,
    Health,
    OpenRequest,
    OpenResult,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)

Hook = Callable[[], "Awaitable[None] | None"]

EVERYTHING = Capabilities(("memory", "sessions"), True, ("trigger", "project"), True)
PLAIN = Capabilities(("memory",), False, (), False)


class ScriptedHandle:
    """A lease of the scripted provider; ``candidates`` is there when kinds are declared."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self._provider = provider
        self.capabilities = provider.capabilities
        if getattr(provider.capabilities, "candidates", None):
            self.candidates = self._candidates

    async def search(self, request: SearchRequest) -> Any:
        return await self._provider.play("search", request)

    async def get(self, request: GetRequest) -> Any:
        return await self._provider.play("get", request)

    async def health(self) -> Any:
        return await self._provider.play("health")

    async def _candidates(self, request: CandidateRequest) -> Any:
        return await self._provider.play("candidates", request)

    async def close(self) -> None:
        await self._provider.play("close")


class ScriptedProvider:
    """The runtime of a plugin ``plugin_id``.

    ``answers`` holds what each method returns (``open`` too) and ``before`` what runs inside it first: a hook that
    raises, waits, or revokes somebody. ``calls`` lists the methods entered, ``given`` their arguments.
    """

    def __init__(self, plugin_id: str = "scripted", capabilities: Any = EVERYTHING) -> None:
        self.plugin_id = plugin_id
        self.capabilities = capabilities
        self.calls: list[str] = []
        self.given: list[Any] = []
        self.before: dict[str, Hook] = {}
        own = Reference(plugin_id, "1")
        page = SearchPage((ProviderHit(own, "an excerpt", 0.5),))
        self.answers: dict[str, Any] = {
            "search": page,
            "candidates": page,
            "get": Found(own, "a text"),
            "health": Health("ready"),
            "close": None,
        }

    async def open(self, request: OpenRequest) -> Any:
        """A handle, unless ``answers`` says something else."""
        answer = await self.play("open", request)
        return answer if "open" in self.answers else OpenResult(ScriptedHandle(self))

    async def play(self, method: str, *arguments: Any) -> Any:
        """Enter a method: note it, run its hook, give its answer."""
        self.calls.append(method)
        self.given.extend(arguments)
        hook = self.before.get(method)
        if hook is not None:
            await calling(hook)
        return self.answers.get(method)

    def count(self, method: str) -> int:
        """How often a method was entered."""
        return self.calls.count(method)
