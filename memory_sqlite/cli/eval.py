"""``memory-sqlite eval``: a person's own labelled queries, asked of their own memory, and how many were answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from memory_sqlite import limits
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import columns, one_line
from memory_sqlite.model import Hit, to_json

if TYPE_CHECKING:
    from memory_sqlite.evaluation.measuring import Ask, Evaluation, Measured
    from memory_sqlite.evaluation.questions import Question
    from memory_sqlite.memory import Memory

SHOWN: Final = 20
"""More lines that were not answered than a person reads are in the JSON document."""

_EXAMPLES = """
memory-sqlite eval queries.jsonl
memory-sqlite eval queries.jsonl --k 5 --json
where a line is {"query": "router VLAN", "expected": ["memory/net.md"], "category": "network"}
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--k", type=click.IntRange(1, limits.OPERATOR_MAX_RESULTS), default=10, show_default=True,
    help="How many hits of each answer count.",
)  # fmt: skip
@stated
def command(state: State, file: Path, k: int) -> None:
    """Ask every labelled query in FILE and say how many found what they should.

    FILE holds one JSON object a line: `query`; `expected`, a list of paths, citations, references or message ids that
    are right (an empty list: nothing should be found); and where wanted `session`, `sources`, `category`.
    """
    from memory_sqlite.evaluation.measuring import evaluate
    from memory_sqlite.evaluation.questions import read_questions

    questions = read_questions(file)
    warnings: dict[str, None] = {}
    with state.open_to_ask() as memory:
        evaluation = evaluate(questions if state.settings.enabled else [], _asking(memory, k, warnings), k)
    output = state.output
    output.document(
        {"ok": True, **to_json(evaluation), "warnings": list(warnings), "disabled": not state.settings.enabled}
    )
    if not state.settings.enabled:
        output.note("Memory is disabled (enabled = false).")
        return
    for line in lines(evaluation):
        output.line(line)
    for warning in warnings:
        output.note(f"warning: {warning}")


def _asking(memory: Memory, k: int, warnings: dict[str, None]) -> Ask:
    def ask(question: Question) -> tuple[Hit, ...]:
        page = memory.search(question.query, session=question.session, sources=question.sources, max_results=k)
        warnings.update(dict.fromkeys(page.warnings))
        return page.hits

    return ask


def lines(evaluation: Evaluation) -> Iterator[str]:
    """The figures for people: a row a category, the times, and where to look."""
    names = list(evaluation.overall.figures)
    named = {name: measured for name, measured in evaluation.categories.items() if name}
    yield from columns(
        [
            ("", "questions", *names),
            *(_row(one_line(name, 40), measured, names) for name, measured in named.items()),
            _row("all", evaluation.overall, names),
        ]
    )
    yield f"{evaluation.p50_ms:.1f} ms a search, {evaluation.p95_ms:.1f} ms for the slowest twentieth."
    if evaluation.overall.empty:
        yield (
            f"{evaluation.overall.empty_right} of {evaluation.overall.empty} that should find nothing found nothing."
        )
    wrong = [answer.line for answer in evaluation.answers if not answer.right]
    if wrong:
        shown = ", ".join(map(str, wrong[:SHOWN])) + (", …" if len(wrong) > SHOWN else "")
        yield f"{counted(len(wrong), 'question')} not answered, on line {shown}."


def _row(name: str, measured: Measured, names: list[str]) -> tuple[str, ...]:
    figures = (f"{measured.figures[name]:.3f}" if name in measured.figures else "-" for name in names)
    return (name, str(measured.questions), *figures)
