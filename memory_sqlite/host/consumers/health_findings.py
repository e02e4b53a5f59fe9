"""What a doctor says about the slot owner's memory: nothing when it is ready, else one warning.

Not here: our own checks of our own files (``memory_sqlite.doctor``), loading plugins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from memory_sqlite import errors
from memory_sqlite.host.consumers.lease import always_current, host_operation, leased
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.runtime.callers import CallerContext, OperatorAuthority
from memory_sqlite.runtime.shapes import Health

OPERATION: Final = "doctor"


@dataclass(frozen=True)
class HealthFinding:
    """One thing that a person should know of."""

    provider_id: str
    status: str
    message: str
    severity: Literal["warning"] = "warning"


async def memory_health_findings(
    host: MemoryHost, agent_id: str, operator: OperatorAuthority | None = None
) -> list[HealthFinding]:
    """At most one finding. Without an operator the host asks for itself, which a provider answers, too.

    A slot that nobody owns, or whose owner offers no search through the host, is no finding: that is how it was set up.
    """
    report = host.slot.describe()
    if report.status in ("none", "disabled", "no-host-search"):
        return []
    name = report.plugin_id or "memory"
    caller = host_operation(OPERATION) if operator is None else CallerContext(operator, always_current)
    health = await health_of(host, agent_id, caller)
    if health.status == "ready":
        return []
    said = f'memory provider "{name}" is {health.status}'
    return [HealthFinding(name, health.status, f"{said}: {health.message}" if health.message else said)]


async def health_of(host: MemoryHost, agent_id: str, caller: CallerContext) -> Health:
    """The provider's health, asked as a status caller; whatever fails makes it ``unavailable``."""
    try:
        async with leased(host, agent_id, caller, "status") as lease:
            if lease.handle is None:
                return Health("unavailable", lease.error)
            return await lease.handle.health()
    except Exception as error:
        return failed(error)


def failed(error: Exception) -> Health:
    """A failure as health. An error that is no typed one tells its kind alone: a health holds no text of a memory."""
    if isinstance(error, errors.MemorySqliteError):
        return Health("unavailable", error.message)
    return Health("unavailable", f"the memory plugin failed ({type(error).__name__})")
