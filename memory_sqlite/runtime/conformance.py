"""The provider's side of the contract as checks that anybody can run against a provider of their own.

Each of ``RULES`` takes a fresh ``ProviderUnderTest`` and raises ``AssertionError`` when it is broken; ``run_all`` runs
them all and lists what broke. No test framework is imported. ``docs/contracts-provider.md`` shows how to use it. Not
here: the checks (``conformance_requests``, ``conformance_callers``), a host's side (``host.conformance``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from memory_sqlite.runtime import conformance_callers, conformance_requests
from memory_sqlite.runtime.conformance_kit import (
    OTHER_ROOM,
    ROOM,
    RULES,
    SESSION_ID,
    Check,
    Partition,
    Planted,
    ProviderUnderTest,
)

__all__ = [
    "OTHER_ROOM",
    "ROOM",
    "RULES",
    "SESSION_ID",
    "Broken",
    "Check",
    "Partition",
    "Planted",
    "ProviderUnderTest",
    "conformance_callers",
    "conformance_requests",
    "run_all",
]


@dataclass(frozen=True)
class Broken:
    """A rule that a provider does not keep, and how that was seen."""

    rule: str
    reason: str


def run_all(make: Callable[[], AbstractContextManager[ProviderUnderTest]]) -> list[Broken]:
    """Run every rule, each with a provider of its own from ``make``; what broke, in the order of the rules."""
    broken = []
    for name, check in RULES.items():
        with make() as subject:
            try:
                check(subject)
            except Exception as error:  # a provider that fails in any way has not kept the rule
                broken.append(Broken(name, f"{type(error).__name__}: {error}"))
    return broken
