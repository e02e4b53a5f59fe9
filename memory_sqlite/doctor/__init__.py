"""Findings: what is wrong with an agent's directory, what it means, what to run, and what can be mended at once.

``examination`` for people and hosts, from settings alone; ``verify`` for tests, after every fault.
"""

from __future__ import annotations

from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor.examine import Progress, examine, unconfigured
from memory_sqlite.doctor.report import DoctorReport
from memory_sqlite.doctor.verify import Finding, verify

__all__ = ["DoctorReport", "Finding", "examination", "examine", "unconfigured", "verify"]


def examination(
    settings: Settings,
    clock: Clock,
    *,
    fix: bool = False,
    deep: bool = False,
    progress: Progress | None = None,
) -> DoctorReport:
    """Every check; with ``fix`` what can be mended is, and looked at again. See ``Memory.doctor``."""
    if not fix or not settings.enabled:
        return examine(settings, clock, deep=deep, progress=progress)
    from memory_sqlite.doctor import fixing

    return fixing.fix(settings, clock, deep=deep, progress=progress)
