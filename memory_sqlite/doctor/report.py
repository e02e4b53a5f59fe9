"""What one examination found. Made by ``examine`` and ``fixing``; shown by the command line and by hosts."""

from __future__ import annotations

from typing import Any, Literal

from memory_sqlite.doctor.finding import Finding
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One check and how it went. ``skipped``: not made now, for the reason given; ``off``: there is nothing to check,
    because somebody decided so; ``failed``: it met what no finding tells."""

    name: str
    state: Literal["ok", "findings", "skipped", "off", "failed"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Mending:
    """What ``--fix`` did about findings of one code: ``mended``: looked at again, and gone; ``still``: it was tried and
    is there yet; ``failed``: it could not be tried, for the reason given."""

    code: str
    outcome: Literal["mended", "still", "failed"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """``findings`` are errors and warnings, the gravest first; ``notes`` are what is worth knowing and no fault."""

    status: Literal["clean", "findings", "disabled"]
    agent: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    mendings: tuple[Mending, ...] = ()
    quarantine: str | None = None
    """Name of the folder that files were moved into."""
    versions: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0

    def as_json(self, *, names: bool = True) -> dict[str, Any]:
        """For ``--json``; without ``names`` nothing a person made up is in it."""
        return {
            "status": self.status,
            "agent": self.agent if names else "",
            "findings": [one.as_json(names=names) for one in self.findings],
            "notes": [one.as_json(names=names) for one in self.notes],
            "checks": [{"name": one.name, "state": one.state, "reason": one.reason} for one in self.checks],
            "mendings": [{"code": one.code, "outcome": one.outcome, "reason": one.reason} for one in self.mendings],
            "quarantine": self.quarantine,
            "versions": dict(self.versions),
            "seconds": self.seconds,
        }
