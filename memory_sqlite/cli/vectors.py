"""Vectors as lines for people, and asking before text is sent to a provider that charges. Called by index and reset."""

from __future__ import annotations

from typing import Any

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.model import VectorReport


def may_be_sent(report: VectorReport | None, *, asks: bool) -> bool:
    """Whether a person, told what it would be, says that it may be sent; ``False`` where nobody can be asked."""
    if report is None or report.state != "unpaid" or not asks:
        return False
    return click.confirm(f"Send {_waiting(report)} to {named(report)}, which charges for them?", err=True)


def told(output: Output, report: VectorReport | None) -> None:
    """What became of the vectors, in one line; nothing where no provider is set."""
    if report is None:
        return
    filed = f"{counted(report.embedded, 'passage')} embedded by {named(report)}"
    if report.reused:
        filed += f", {report.reused} as an equal text was"
    output.line(f"Vectors: {filed}.")
    if report.state == "unpaid":
        output.note(
            f"Not sent: {_waiting(report)} to a provider that charges. Run `memory-sqlite index --yes` to send them."
        )
    elif report.state == "failed" and report.missing == 0:
        output.note(f"{one_line(report.reason or '')}.")
    elif report.state == "failed":
        output.note(f"{one_line(report.reason or '')}; {_waiting(report)} without a vector are found by their words.")
    elif report.refused:
        output.note(f"{counted(report.refused, 'passage')} refused by the provider; they are found by their words.")


def _waiting(report: VectorReport) -> str:
    if report.missing is None or report.characters is None:
        return "texts"  # they could not be counted
    return f"{counted(report.missing, 'passage')} (about {report.characters:,} characters)"


def named(report: VectorReport) -> str:
    """Provider and model on one line."""
    return one_line(" ".join(part for part in (report.provider, report.model) if part))


def paid(vectors: dict[str, Any]) -> int:
    """How many vectors that were paid for ``status`` tells of."""
    return sum(space["filed"] for space in (vectors, *vectors["others"]) if space["cost"] == "paid")
