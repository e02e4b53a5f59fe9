"""The quality of search, measured: every labelled set that is present, with every embedding provider that is installed.

    python tests/quality/run.py                      the table, with differences to the recorded run
    python tests/quality/run.py --set locomo --provider none
    python tests/quality/run.py --record             keep these figures as those to be compared with

Each set is filled and asked through the front door (``Memory``), with a clock that stands still. The exit code is 3
when a figure fell by more than ``evaluation.comparing`` lets pass, against the recorded run or, for a provider, against
words alone; 2 when nothing could be measured: a provider that is not there, a file of results that is none. Times are
told and not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # started as a script, or imported by a test
    sys.path.insert(0, str(HERE))

import quality_harness as harness  # noqa: E402
from labelled_sets import LabelledSet, Part, View, present  # noqa: E402

from memory_sqlite import Memory, errors, limits  # noqa: E402
from memory_sqlite.agent.meaning import NOT_SEARCHED  # noqa: E402
from memory_sqlite.cli.output import columns  # noqa: E402
from memory_sqlite.clock import FixedClock  # noqa: E402
from memory_sqlite.config import Settings  # noqa: E402
from memory_sqlite.embeddings.catalogue import MODELS  # noqa: E402
from memory_sqlite.embeddings.registry import open_provider  # noqa: E402
from memory_sqlite.evaluation.comparing import differences, lost  # noqa: E402
from memory_sqlite.evaluation.metrics import Scores, percentile  # noqa: E402
from memory_sqlite.evaluation.questions import Question, labels_of  # noqa: E402
from memory_sqlite.model import Hit  # noqa: E402
from memory_sqlite.search import fusion  # noqa: E402

RESULTS: Final = HERE / "results.json"
WORDS: Final = "none"
"""The provider that is none: words alone."""
LOST: Final = 3
"""Exit code of a loss."""
UNUSABLE: Final = 2
"""Exit code of a run that could not be made."""
_WITHOUT_MEANING: Final = (NOT_SEARCHED, fusion.STILL_FILLING, fusion.NO_SPACE)


class Unusable(Exception):
    """What was asked for cannot be measured, or compared; the message is for whoever ran it."""


@dataclass
class Result:
    """The figures of one view of one set with one provider."""

    k: int
    questions: int
    figures: dict[str, float]
    categories: dict[str, dict[str, Any]] = field(default_factory=dict)
    empty: int = 0
    empty_right: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    index_s: float = 0.0
    index_bytes: int = 0

    def check(self) -> None:
        """Raise ``ValueError`` unless the figures are numbers, here and in every category."""
        counts = (self.k, self.questions, self.empty, self.empty_right, self.p50_ms, self.p95_ms, self.index_s)
        tables = [self.figures, *(told["figures"] for told in self.categories.values())]
        if not all(_is_number(one) for one in (*counts, self.index_bytes, *(v for t in tables for v in t.values()))):
            raise ValueError("a figure is no number")

    def judged(self) -> dict[str, float]:
        """What must not fall; the share of empty answers that are right is one of them."""
        return {**self.figures, **({"nothing": self.empty_right / self.empty} if self.empty else {})}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Results = dict[str, dict[str, Result]]
"""By provider and by set (``locomo messages``)."""


def providers() -> list[str]:
    """Words alone, and ``provider:model`` of each local model whose package is installed."""
    found = [WORDS]
    for model in MODELS:
        try:
            model.directory()
        except errors.ExtraMissing:
            continue
        found.append(f"{model.provider}:{model.name}")
    return found


def check_provider(provider: str) -> None:
    """Raise ``Unusable`` for one that is not there, before an hour of measuring with others."""
    if provider == WORDS:
        return
    name, _, model = provider.partition(":")
    why = f"it is not {WORDS}, and not provider:model"
    try:
        opened = open_provider(Settings(embedding_provider=name, embedding_model=model or None))
        if opened is not None:
            opened.close()
            return
    except errors.MemorySqliteError as error:
        why = error.message
    raise Unusable(f"--provider {provider!r}: {why}. Installed: {', '.join(providers())}.")


def measure(labelled: LabelledSet, provider: str, folder: Path | None, target: Path) -> dict[str, Result]:
    """Fill the memories of a set, ask its questions, judge the answers by each of its views."""
    answered: list[tuple[Question, list[Hit]]] = []
    times: list[float] = []
    index_s, index_bytes = 0.0, 0
    for number, part in enumerate(labelled.parts(folder or target, target / "workspace")):
        with Memory.open(settings=_settings(part, provider, target / f"data-{number}"), clock=_clock()) as memory:
            began = time.perf_counter()
            _fill(memory, part, target / f"{number}.jsonl")
            index_s += time.perf_counter() - began
            sizes = memory.status()["sizes"]
            index_bytes += sizes["index"] + sizes["index_wal"]
            for question in part.questions:
                began = time.perf_counter()
                page = memory.search(question.query, max_results=labelled.hits, sources=question.sources)
                times.append((time.perf_counter() - began) * 1000)
                for warning in page.warnings:  # a figure of words alone must not pass for the provider's
                    if warning.startswith(_WITHOUT_MEANING):
                        raise Unusable(f"{labelled.name} with {provider}: {warning}")
                answered.append((question, list(page.hits)))
    found = {}
    for view in labelled.views:
        result = _judged(view, answered)
        result.p50_ms, result.p95_ms = round(percentile(times, 0.5), 2), round(percentile(times, 0.95), 2)
        result.index_s, result.index_bytes = round(index_s, 2), index_bytes
        found[f"{labelled.name} {view.name}".strip()] = result
    return found


def _settings(part: Part, provider: str, data_dir: Path) -> Settings:
    name, _, model = provider.partition(":")
    known: dict[str, Any] = {}
    if name != WORDS:
        # a busy machine must not cost answers their vectors: quality is measured here, not speed
        slowest = limits.EMBEDDING_QUERY_TIMEOUT_MS[1]
        known = {"embedding_provider": name, "embedding_model": model or None, "embedding_query_timeout_ms": slowest}
    return Settings(data_dir=data_dir, workspace=part.workspace, retention_days=None, **known)


def _clock() -> FixedClock:
    return FixedClock(harness.NOW_MS)


def _fill(memory: Memory, part: Part, transcript: Path) -> None:
    if part.transcript:
        transcript.write_text(part.transcript, encoding="utf-8")
        report = memory.import_transcripts([transcript], chat_type="direct", sender_is_owner=True)
        if report.problems or report.refused:
            raise RuntimeError("the transcript of a set was not taken in whole")
    # what cannot be read is part of a workspace: the peer's has a note that is none
    if not memory.index().chunks and not part.transcript:
        raise RuntimeError("nothing of a set was taken in")


def _judged(view: View, answered: Iterable[tuple[Question, list[Hit]]]) -> Result:
    overall = Scores()
    categories: dict[str, Scores] = {}
    empty = empty_right = 0
    for question, hits in answered:
        expected = view.expected(question) if view.expected else question.expected
        if not expected:
            empty += 1
            empty_right += not hits
            continue
        labels = [name for hit in hits for name in ([view.label(hit)] if view.label else labels_of(hit, expected))]
        for scores in (overall, categories.setdefault(question.category, Scores())):
            scores.add(labels, expected, view.k)
    told = {
        name: {"questions": scores.count, "figures": scores.figures(view.k)}
        for name, scores in sorted(categories.items())
        if name
    }
    return Result(view.k, overall.count, overall.figures(view.k), told, empty, empty_right)


# --- comparing and telling ------------------------------------------------------------------------------------------


def losses(results: Results, recorded: Results) -> list[str]:
    """Each figure that fell too far, as a sentence."""
    told = []
    for provider, sets in results.items():
        for name, result in sets.items():
            others = {"the recorded run": recorded.get(provider, {}).get(name)}
            if provider != WORDS:
                others["words alone"] = results.get(WORDS, recorded.get(WORDS, {})).get(name)
            for what, other in others.items():
                if other is not None:
                    told += [
                        f"{name} with {provider}: {figure} fell from {other.judged()[figure]:.4f} ({what})"
                        f" to {result.judged()[figure]:.4f}"
                        for figure in lost(other.judged(), result.judged(), result.questions)
                    ]
    return told


def table(results: Results, recorded: Results) -> Iterator[str]:
    """A row for each set and provider, and below it one for each category; in brackets what changed."""
    rows: list[tuple[str, ...]] = [
        (
            "set",
            "provider",
            "n",
            "k",
            "recall@k",
            "hit@1",
            "hit@k",
            "ndcg@k",
            "mrr",
            "p50 ms",
            "p95 ms",
            "index s",
            "MiB",
        )
    ]
    for provider, sets in results.items():
        for name, result in sets.items():
            before = recorded.get(provider, {}).get(name)
            times = (result.p50_ms, result.p95_ms, result.index_s, result.index_bytes / 2**20)
            rows.append(
                (
                    name,
                    provider,
                    str(result.questions),
                    str(result.k),
                    *_cells(result.figures, before.figures if before else {}, result.k),
                    *(f"{value:.1f}" for value in times),
                )
            )
            for category, told in result.categories.items():
                known = before.categories.get(category, {}).get("figures", {}) if before else {}
                cells = _cells(told["figures"], known, result.k)
                rows.append((f"  {category}", "", str(told["questions"]), "", *cells, "", "", "", ""))
            if result.empty:
                rows.append(("  nothing", "", str(result.empty), "", f"{result.empty_right} empty", *[""] * 8))
    return columns(rows)


def _cells(figures: dict[str, float], before: dict[str, float], k: int) -> list[str]:
    changes = differences(before, figures)
    names = (f"recall@{k}", "hit@1", f"hit@{k}", f"ndcg@{k}", "mrr")
    return [f"{figures[name]:.3f}" + (f" ({changes[name]:+.3f})" if changes.get(name) else "") for name in names]


# --- the recorded run -----------------------------------------------------------------------------------------------


def read(path: Path) -> Results:
    """The recorded run; nothing where there is none. Raises ``Unusable`` for a file that is no such thing."""
    if not path.exists():
        return {}
    try:
        runs = json.loads(path.read_text("utf-8"))["runs"]
        found = {provider: {name: Result(**row) for name, row in sets.items()} for provider, sets in runs.items()}
        for sets in found.values():
            for result in sets.values():
                result.check()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unusable(
            f"{path} is no file of results ({type(error).__name__}). Give another one with --results, or move it away."
        ) from None
    return found


def record(path: Path, results: Results) -> None:
    """Keep these figures in place of those of the same sets and providers; the others stay."""
    kept = read(path)
    for provider, sets in results.items():
        kept.setdefault(provider, {}).update(sets)
    runs = {provider: {name: asdict(row) for name, row in sorted(sets.items())} for provider, sets in kept.items()}
    text = json.dumps({"clock": "2026-11-30T12:00:00Z", "runs": runs}, indent=1, ensure_ascii=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise Unusable(f"{path} cannot be written ({error.strerror}).") from None


def main(arguments: list[str] | None = None) -> int:
    """Run, tell, compare; the exit code."""
    folder = harness.data_folder()
    sets = {one.name: one for one in present(folder)}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--set", dest="sets", action="append", choices=sorted(sets), help="only this set (repeatable)")
    parser.add_argument(
        "--provider", dest="providers", action="append", help="none, or provider:model (repeatable; default: installed)"
    )
    parser.add_argument("--record", action="store_true", help="keep the figures in the file of results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    given = parser.parse_args(arguments)
    try:
        return _run(given, sets, folder)
    except Unusable as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return UNUSABLE


def _run(given: argparse.Namespace, sets: dict[str, LabelledSet], folder: Path | None) -> int:
    for provider in given.providers or ():
        check_provider(provider)
    recorded = read(given.results)
    results: Results = {}
    for provider in given.providers or providers():
        for name in given.sets or sets:
            if not given.json:
                print(f"{name} with {provider} …", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="memory-sqlite-quality-") as place:
                results.setdefault(provider, {}).update(measure(sets[name], provider, folder, Path(place)))
    told = losses(results, recorded)
    if given.json:
        runs = {provider: {name: asdict(row) for name, row in found.items()} for provider, found in results.items()}
        print(json.dumps({"runs": runs, "losses": told}, ensure_ascii=False))
    else:
        for line in (*table(results, recorded), *told):
            print(line)
    if given.record:
        record(given.results, results)
    return LOST if told and not given.record else 0


if __name__ == "__main__":
    sys.exit(main())
