"""One finding: a stable code and its evidence; what it means and what to do is in the catalogue.

Called by every check. Not here: which codes there are (``catalogue``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_sqlite.doctor.catalogue import FINDINGS, Severity
from memory_sqlite.values import dataclass, field

Evidence = dict[str, str | int]

_NAMES: Final = 20
"""Names that one finding lists; ``evidence`` counts all of them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``evidence`` holds numbers, states and names of our own; never text of a memory, and nothing a person made up.

    ``names`` are what people call things: paths of notes and of foreign files, ids of records. They are for the eyes
    of who runs the doctor and stay out of what is sent to somebody else (``as_json(names=False)``).
    """

    code: str
    evidence: Mapping[str, str | int] = field(default_factory=dict)
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        assert self.code in FINDINGS, "every finding is in the catalogue"
        object.__setattr__(self, "names", tuple(self.names[:_NAMES]))

    @property
    def severity(self) -> Severity:
        """How grave it is; the same for every finding of a code."""
        return FINDINGS[self.code].severity

    @property
    def run(self) -> str:
        """What to do, for people."""
        return FINDINGS[self.code].fix

    def as_json(self, *, names: bool = True) -> dict[str, Any]:
        """For ``doctor --json``; without ``names`` for a support bundle."""
        kind = FINDINGS[self.code]
        return {
            "code": self.code,
            "severity": kind.severity,
            "evidence": dict(self.evidence),
            "names": list(self.names) if names else [],
            "meaning": kind.meaning,
            "fix": kind.fix,
            "command": kind.command,
            "mends": kind.mends,
        }
