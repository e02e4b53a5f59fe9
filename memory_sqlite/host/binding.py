"""Opening a provider for one caller: the answer of ``open`` is looked at and bound, or closed and refused.

Steps 8 to 12 of the contract's bind order; the steps before (caller, owner) are ``memory_host``'s. Whatever goes wrong
after a handle was returned closes that handle, once. Not here: calls on a bound handle (``bound_handle``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Literal

from memory_sqlite import errors
from memory_sqlite.host.bound_handle import BoundHandle
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.instances import PluginInstance
from memory_sqlite.host.racing import End, calling, finished, raced
from memory_sqlite.runtime.shapes import CANDIDATE_KINDS, Capabilities, OpenResult

BAD_HANDLE = (
    "memory provider must implement search, get, health, close, and valid capabilities with matching candidates"
)
NO_PLUGIN = "memory plugin unavailable"

_log = logging.getLogger("memory_sqlite.host.binding")


async def bind(
    opening: Callable[[], Awaitable[OpenResult]],
    *,
    provider_id: str,
    adapter: Literal["native", "legacy"],
    caller: BoundCaller,
    instance: PluginInstance,
) -> OpenResult:
    """Open and bind. Raises ``ProviderInvalid`` for what is no handle, what ``opening`` raises, and whatever the
    caller's checks raise; ``Cancelled`` ends the waiting for an ``open`` that hangs, and its late handle is closed."""
    ends = (*caller.ends, End(instance.lifecycle, instance.assert_alive))
    instance.assert_alive()
    result = await raced(calling(opening), ends, _close_result)
    handle = getattr(result, "provider", None)
    try:
        await caller.current(ends)
        instance.assert_alive()
        if not isinstance(result, OpenResult):
            raise errors.ProviderInvalid(BAD_HANDLE)
        if handle is None:
            said = result.error if isinstance(result.error, str) else None
            return OpenResult(None, said or NO_PLUGIN, provider_id, adapter)
        bound = BoundHandle(
            handle, checked_capabilities(handle), provider_id=provider_id, caller=caller, instance=instance
        )
    except BaseException:
        if handle is not None:
            await close_quietly(handle, ends)
        raise
    return OpenResult(bound, None, provider_id, adapter)


def checked_capabilities(handle: Any) -> Capabilities:
    """A handle's declaration, copied. Raises ``ProviderInvalid`` when a method or a valid declaration is missing."""
    try:
        declared = handle.capabilities
        capabilities = Capabilities(
            _subset(declared.sources, ("memory", "sessions")),
            _flag(declared.pagination),
            _subset(declared.candidates, CANDIDATE_KINDS),
            _flag(declared.project_filter),
        )
        complete = all(callable(getattr(handle, name, None)) for name in ("search", "get", "health", "close"))
        matches = callable(getattr(handle, "candidates", None)) == bool(capabilities.candidates)
    except (AttributeError, TypeError, ValueError):
        raise errors.ProviderInvalid(BAD_HANDLE) from None
    if not (complete and matches and capabilities.sources):
        raise errors.ProviderInvalid(BAD_HANDLE)
    return capabilities


async def close_quietly(handle: Any, ends: Sequence[End] = ()) -> None:
    """Close a handle that nobody will get; a failure is logged and hides nothing.

    It is closed to the end even if an end (the caller's abort, the plugin's retirement) means that nobody waits.
    """
    if not callable(getattr(handle, "close", None)):
        return
    try:
        await finished(calling(handle.close), ends)
    except Exception as error:
        _log.warning("closing a refused memory handle failed: %s", type(error).__name__)


async def _close_result(result: Any) -> None:
    handle = getattr(result, "provider", None)
    if handle is not None:
        await close_quietly(handle)


def _subset(values: Any, known: Collection[str]) -> tuple[Any, ...]:
    if not isinstance(values, (tuple, list)):
        raise TypeError
    copied = tuple(values)
    if not all(isinstance(value, str) and value in known for value in copied):
        raise ValueError
    return copied


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
