"""A reload of plugins, as the host leads it: drain what goes, take it away, or let everything go on as it was.

A runtime that retires is drained, and every runtime is when embedding providers retire. Drains run at the same time;
one that fails hinders no other, and all failures are told together. A deadline ends only the looking on: what is being
cleaned up goes on until it is done. Not here: loading plugins, and whether an instance takes calls (``instances``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_sqlite.host.instances import PluginInstance
from memory_sqlite.host.racing import calling
from memory_sqlite.runtime.plugins import MemoryCapability


@dataclass(frozen=True)
class Loaded:
    """A memory plugin that is loaded, and whether this reload takes it away. ``instance`` is what the slot made of it:
    it takes no calls while the reload lasts."""

    plugin_id: str
    capability: MemoryCapability
    retires: bool = False
    instance: PluginInstance | None = None


@dataclass(frozen=True)
class DrainReport:
    """What became of the drains so far. ``unfinished`` names plugins whose cleanup goes on."""

    errors: tuple[BaseException, ...] = ()
    unfinished: tuple[str, ...] = ()

    def raise_errors(self) -> None:
        """Raise all failures together, where there are any."""
        if self.errors:
            raise BaseExceptionGroup("draining memory runtimes failed", list(self.errors))


@dataclass(frozen=True)
class _Part:
    """One runtime of one plugin."""

    plugin_id: str
    retires: bool
    drain: Callable[[], Any]
    resume: Callable[[], Any] | None


class Reload:
    """One reload. ``prepare`` makes it; then ``drain``, and ``commit`` or ``roll_back``."""

    def __init__(self, concerned: Sequence[Loaded], parts: Sequence[_Part]) -> None:
        self._concerned = tuple(concerned)
        self._parts = tuple(parts)
        self._draining: list[tuple[_Part, asyncio.Task[list[BaseException]]]] = []

    @classmethod
    def prepare(cls, loaded: Sequence[Loaded], *, retiring_embedding_providers: Sequence[str] = ()) -> Reload:
        """Ask each runtime that this reload concerns to prepare for it. Raises what a runtime raises: then those that
        were asked before it are resumed."""
        concerned = [one for one in loaded if one.retires or retiring_embedding_providers]
        parts: list[_Part] = []
        try:
            for one in concerned:
                if one.instance is not None:
                    one.instance.pause()
                for runtime in runtimes_of(one.capability):
                    parts += _part(one, runtime, tuple(retiring_embedding_providers))
        except BaseException:
            _resume(concerned, parts)
            raise
        return cls(concerned, parts)

    async def drain(self, deadline_s: float | None = None) -> DrainReport:
        """Drain all at the same time; returns when they are done, or after ``deadline_s`` seconds. Asked again it looks
        at the same drains. Raises nothing that a runtime raises: see the report."""
        if not self._draining:
            self._draining = [(part, asyncio.ensure_future(_drained(part))) for part in self._parts]
        if self._draining:
            await asyncio.wait([task for _, task in self._draining], timeout=deadline_s)
        errors: list[BaseException] = []
        for _, task in self._draining:
            if task.done():
                errors += task.result()
        return DrainReport(tuple(errors), tuple(part.plugin_id for part, task in self._draining if not task.done()))

    def commit(self) -> None:
        """The reload happened: what retires is gone, what was retained goes on. Raises what a runtime raises, together,
        when all were resumed."""
        for one in self._concerned:
            if one.retires and one.instance is not None:
                one.instance.retire()
        kept = [one for one in self._concerned if not one.retires]
        _raise_together(_resume(kept, [part for part in self._parts if not part.retires]))

    def roll_back(self) -> None:
        """The reload did not happen: everything goes on. Raises as ``commit``."""
        _raise_together(_resume(self._concerned, self._parts))


def runtimes_of(capability: MemoryCapability) -> tuple[Any, ...]:
    """Both runtimes of a plugin; one object that is both is one."""
    found = [one for one in (capability.runtime, capability.provider_runtime) if one is not None]
    return tuple(found[:1]) if len(found) == 2 and found[0] is found[1] else tuple(found)


async def close_all(capability: MemoryCapability) -> DrainReport:
    """Close every manager of both runtimes, each runtime asked once."""
    closers = [getattr(runtime, "close_all_memory_search_managers", None) for runtime in runtimes_of(capability)]
    found = await asyncio.gather(*(calling(closer) for closer in closers if callable(closer)), return_exceptions=True)
    return DrainReport(tuple(one for one in found if isinstance(one, BaseException)))


def _part(loaded: Loaded, runtime: Any, providers: tuple[str, ...]) -> list[_Part]:
    prepare = getattr(runtime, "prepare_reload", None)
    if callable(prepare):
        prepared = prepare(retire_runtime=loaded.retires, retiring_embedding_providers=providers)
        return [_Part(loaded.plugin_id, loaded.retires, prepared.drain, prepared.resume)]
    closer = getattr(runtime, "close_all_memory_search_managers", None)
    if callable(closer):  # one that knows nothing of reloads: its managers are made anew when they are needed
        return [_Part(loaded.plugin_id, loaded.retires, closer, None)]
    return []


async def _drained(part: _Part) -> list[BaseException]:
    try:
        said = await calling(part.drain)
    except (Exception, asyncio.CancelledError) as error:
        return [error]
    reported = said.get("errors") if isinstance(said, Mapping) else getattr(said, "errors", None)
    return [
        one if isinstance(one, BaseException) else RuntimeError(f"draining {part.plugin_id} failed")
        for one in (reported if isinstance(reported, list | tuple) else ())
    ]


def _resume(plugins: Sequence[Loaded], parts: Sequence[_Part]) -> list[BaseException]:
    found: list[BaseException] = []
    for part in parts:
        if part.resume is not None:
            try:
                part.resume()
            except Exception as error:
                found.append(error)
    for one in plugins:  # last: whoever comes now finds its runtimes going on
        if one.instance is not None:
            one.instance.resume()
    return found


def _raise_together(found: Sequence[BaseException]) -> None:
    if found:
        raise BaseExceptionGroup("resuming memory runtimes failed", list(found))
