"""Asking labelled questions and measuring the answers: over all of them and by category.

Lives here: the loop, the clock, the report. Not here: the search (whoever calls passes it), the measures (``metrics``).
Called by ``memory-sqlite eval`` and the quality harness.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from memory_sqlite import errors
from memory_sqlite.evaluation.metrics import Scores, percentile
from memory_sqlite.evaluation.questions import Question, labels_of
from memory_sqlite.model import Hit

Ask = Callable[[Question], Iterable[Hit]]
"""Answers one question with its hits, best first."""


@dataclass(frozen=True)
class Answered:
    """What became of one question. ``rank`` is that of the first right hit, ``None`` for none among the first k."""

    line: int
    category: str
    rank: int | None
    recall: float | None
    """``None`` for a question whose right answer is empty."""
    right: bool
    """Whether something right was among the first k; for a question whose right answer is empty: that it was."""
    ms: float


@dataclass(frozen=True)
class Measured:
    """The figures of some questions. ``figures`` are those of questions with labels; see ``Scores.figures``."""

    questions: int
    figures: dict[str, float]
    empty: int = 0
    """Questions whose right answer is empty."""
    empty_right: int = 0


@dataclass(frozen=True)
class Evaluation:
    """A whole run: ``k`` is how many hits count, times are milliseconds of one search each."""

    k: int
    overall: Measured
    categories: dict[str, Measured]
    p50_ms: float
    p95_ms: float
    answers: tuple[Answered, ...]


@dataclass
class _Tally:
    scores: Scores = field(default_factory=Scores)
    empty: int = 0
    empty_right: int = 0

    def measured(self, k: int) -> Measured:
        return Measured(self.scores.count + self.empty, self.scores.figures(k), self.empty, self.empty_right)


def evaluate(
    questions: Iterable[Question], ask: Ask, k: int = 10, *, timer: Callable[[], float] = time.perf_counter
) -> Evaluation:
    """Ask every question once, in order, and measure the first ``k`` labels of each answer.

    A search that a question's own arguments make fail raises ``LabelsInvalid`` with its line; ``timer`` gives seconds.
    """
    overall = _Tally()
    categories: dict[str, _Tally] = {}
    answers: list[Answered] = []
    for question in questions:
        began = timer()
        try:
            hits = list(ask(question))
        except errors.InvalidArgument as error:
            raise errors.LabelsInvalid(f"line {question.line}: {error.message}") from None
        took = (timer() - began) * 1000
        tallies = (overall, categories.setdefault(question.category, _Tally()))
        answers.append(_answered(question, hits, k, took, tallies))
    times = [answer.ms for answer in answers]
    return Evaluation(
        k,
        overall.measured(k),
        {name: tally.measured(k) for name, tally in sorted(categories.items())},
        round(percentile(times, 0.5), 3),
        round(percentile(times, 0.95), 3),
        tuple(answers),
    )


def _answered(question: Question, hits: list[Hit], k: int, ms: float, tallies: Iterable[_Tally]) -> Answered:
    rank: int | None = None
    recall: float | None = None
    for tally in tallies:
        if question.expected:
            labels = (label for hit in hits for label in labels_of(hit, question.expected))
            tally.scores.add(labels, question.expected, k)
            rank, recall = tally.scores.ranks[-1], tally.scores.recalls[-1]
        else:
            tally.empty += 1
            tally.empty_right += not hits
    right = rank is not None if question.expected else not hits
    return Answered(question.line, question.category, rank, recall, right, round(ms, 3))
