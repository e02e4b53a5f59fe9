"""A conformance kit for hosts: what a host owes a memory provider, as plain functions that any test runner can call.

Lives here: the adapter protocol a host implements to be tested (``subject``), the checks by area, and ``run_all``. Each
check makes fresh hosts and raises ``Broken`` where the host breaks its rule. Not here: a test runner (none is
imported), what a provider owes (``runtime.conformance``).
"""

from __future__ import annotations

from collections.abc import Mapping

from memory_sqlite.host.conformance import audience_checks, binding_checks, slot_checks
from memory_sqlite.host.conformance.subject import Broken, Check, Finding, HostUnderTest, MakeHost, OwnHost

__all__ = ["CHECKS", "Broken", "Check", "Finding", "HostUnderTest", "MakeHost", "OwnHost", "run_all"]

CHECKS: Mapping[str, Check] = {
    check.__name__: check for area in (slot_checks, binding_checks, audience_checks) for check in area.ALL
}
"""Every check by its name. A check takes what makes a fresh host."""


def run_all(make: MakeHost) -> tuple[Finding, ...]:
    """Run every check; what was found broken, by check. Empty for a host that conforms."""
    found = []
    for name, check in CHECKS.items():
        try:
            check(make)
        except Broken as broken:
            found.append(Finding(name, str(broken)))
        except Exception as error:
            found.append(Finding(name, f"unexpected {type(error).__name__}"))
    return tuple(found)
