"""What the benchmarks share: medians, a result table, and statements recorded so that they can be replayed bare."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import apsw

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


@dataclass(frozen=True)
class Figure:
    """One measured figure; ``aim`` is the issue's target, as text."""

    name: str
    value: float
    unit: str
    aim: str = ""


def p50(samples: Sequence[float]) -> float:
    """The median."""
    return statistics.median(samples)


def timed(call: Callable[[], Any], rounds: int) -> list[float]:
    """Wall seconds of each of ``rounds`` calls."""
    samples = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        samples.append(time.perf_counter() - started)
    return samples


class Recorder:
    """Records the writing statements of a connection with their bindings, and leaves them unchanged."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.statements: list[tuple[str, Any]] = []
        self._connection = connection

    def __enter__(self) -> Recorder:
        self._connection.exec_trace = self._note
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.exec_trace = None

    def _note(self, _cursor: Any, sql: str, bindings: Any) -> bool:
        if sql.lstrip().upper().startswith(WRITES):
            self.statements.append((sql, bindings))
        return True


def report(figures: Sequence[Figure]) -> None:
    """Print a table, or JSON with ``--json``."""
    if "--json" in sys.argv:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
        return
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        aim = f"   (aim {figure.aim})" if figure.aim else ""
        print(f"{figure.name:<{width}}  {figure.value:>12.3f} {figure.unit}{aim}")
