"""A conformance kit for hosts: what a host owes memory providers and context engines, as plain functions.

Lives here: the adapters that a host implements to be tested (``subject``, ``flush_subject``, ``engine_subject``,
``gateway_subject``), the checks by area, and ``run_all``. Each check makes fresh subjects and raises ``Broken`` where
the host breaks its rule. Not here: a test runner (none is imported), what a provider owes (``runtime.conformance``),
what an engine owes (``context.conformance``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memory_sqlite.context.conformance_kit import Broken, Finding, Report, found_by
from memory_sqlite.host.conformance import (
    audience_checks,
    binding_checks,
    delivery_checks,
    engine_checks,
    flush_checks,
    flush_run_checks,
    gateway_checks,
    slot_checks,
)
from memory_sqlite.host.conformance.engine_subject import EngineHostUnderTest, MakeEngineHost, OwnEngineHost
from memory_sqlite.host.conformance.flush_subject import FlushUnderTest, MakeFlush, OwnFlush
from memory_sqlite.host.conformance.gateway_subject import GatewayUnderTest, MakeGateway, OwnGateway
from memory_sqlite.host.conformance.subject import Check, HostUnderTest, MakeHost, OwnHost

__all__ = [
    "CHECKS",
    "ENGINE_CHECKS",
    "FLUSH_CHECKS",
    "GATEWAY_CHECKS",
    "Broken",
    "Check",
    "EngineHostUnderTest",
    "Finding",
    "FlushUnderTest",
    "GatewayUnderTest",
    "HostUnderTest",
    "MakeEngineHost",
    "MakeFlush",
    "MakeGateway",
    "MakeHost",
    "OwnEngineHost",
    "OwnFlush",
    "OwnGateway",
    "OwnHost",
    "Report",
    "run_all",
]


def _named(*areas: Any) -> Mapping[str, Callable[[Any], None]]:
    return {check.__name__: check for area in areas for check in area.ALL}


CHECKS: Mapping[str, Check] = _named(slot_checks, binding_checks, audience_checks)
"""Every check of slots, binding and audiences by its name. A check takes what makes a fresh host."""
ENGINE_CHECKS: Mapping[str, Callable[[MakeEngineHost], None]] = _named(engine_checks, delivery_checks)
"""Every check of hosting a context engine."""

FLUSH_CHECKS: Mapping[str, Callable[[MakeFlush], None]] = _named(flush_checks, flush_run_checks)
"""Every check of the flush before compaction. A check takes what makes a fresh host from a configuration."""

GATEWAY_CHECKS: Mapping[str, Callable[[MakeGateway], None]] = _named(gateway_checks)
"""Every check of the gateway's memory methods."""


def run_all(
    make: MakeHost | None = None,
    *,
    flush: MakeFlush | None = None,
    engines: MakeEngineHost | None = None,
    gateway: MakeGateway | None = None,
) -> Report:
    """Run the checks of each part that the host has; those of the others are ``not_run``.

    ``make`` is for slots, binding and audiences. ``findings`` is empty for a host that conforms, as far as it was
    asked.
    """
    parts: list[tuple[Mapping[str, Callable[[Any], None]], Any]] = [
        (CHECKS, make),
        (FLUSH_CHECKS, flush),
        (ENGINE_CHECKS, engines),
        (GATEWAY_CHECKS, gateway),
    ]
    found = [found_by(check, made) for checks, made in parts if made is not None for check in checks.values()]
    return Report(
        tuple(finding for finding in found if finding is not None),
        tuple(name for checks, made in parts if made is not None for name in checks),
        tuple(name for checks, made in parts if made is None for name in checks),
    )
