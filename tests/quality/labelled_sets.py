"""Every labelled set as memories to be filled and questions to be asked through the front door.

Lives here: reading the sets. Not here: asking, measuring and comparing (``run``). A set is one or several memories of
its own, because a question of one LoCoMo conversation must not be answered from another. Sets whose data is absent are
left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import quality_harness as harness
from invented import NOTES, NOTHING, QUERIES, TALK

from memory_sqlite.evaluation.questions import Question
from memory_sqlite.model import Hit

LOCOMO_CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""The numbers in the file, by the names of the paper (their shares agree)."""


@dataclass(frozen=True)
class Part:
    """One memory: the notes of its workspace, its transcript as JSON lines, and what it is asked."""

    questions: list[Question]
    workspace: Path | None = None
    transcript: str = ""


@dataclass(frozen=True)
class View:
    """One way to judge an answer: the labels that are right, the label of a hit (``None``: ``labels_of``), and k."""

    name: str
    k: int
    expected: Callable[[Question], frozenset[str]] | None = None
    label: Callable[[Hit], str] | None = None


@dataclass(frozen=True)
class LabelledSet:
    """``parts`` writes workspaces into the second folder; ``hits`` are asked for, of which each view judges its k."""

    name: str
    parts: Callable[[Path, Path], Iterator[Part]]
    hits: int
    views: tuple[View, ...]
    needs: str | None = None
    """What must be in the data folder; ``None`` for a set that is in this one."""


def _write(notes: dict[str, str], target: Path) -> Path:
    for name, text in notes.items():
        place = target / "memory" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return target


def _line(session: str, number: str, speaker: str, text: str, at: int | None) -> str:
    said = {"session": session, "id": number, "role": "user", "name": speaker, "content": text, "at": at}
    return json.dumps(said, ensure_ascii=False) + "\n"


def _invented(_: Path, target: Path) -> Iterator[Part]:
    at = harness.NOW_MS - 86_400_000
    talk = "".join(_line("talk", str(number), speaker, text, at) for number, (speaker, text) in enumerate(TALK, 1))
    asked = [
        Question(query, frozenset(one.removeprefix("talk:") if ":" in one else f"memory/{one}" for one in expected))
        for query, expected in QUERIES
    ]
    asked += [Question(query, frozenset(), category="nothing") for query in NOTHING]
    yield Part(asked, _write(NOTES, target), talk)


def _workspace(folder: Path, _: Path) -> Iterator[Part]:
    place = folder / "openclaw-baseline"
    rows = json.loads((place / "queries.json").read_text("utf-8"))
    asked = [_labelled(*row, "") for row in rows if row[2]]
    asked += [_labelled(*row, "nothing") for row in rows if row[0] in harness.WITHOUT_CONTENT]
    yield Part(asked, place / "workspace")


def _bigcorpus(folder: Path, target: Path) -> Iterator[Part]:
    kinds = {"t": "id", "c": "code", "n": "sentence", "z": "chinese"}
    rows = harness.make_bigcorpus(folder, target)
    yield Part([_labelled(*row, kinds[row[0][0]]) for row in rows], target)


def _labelled(_: str, query: str, expected: list[str], category: str) -> Question:
    return Question(query, frozenset(expected), category=category)


def _locomo(folder: Path, _: Path) -> Iterator[Part]:
    for sample in json.loads((folder / "locomo" / "locomo-dev.json").read_text("utf-8")):
        documents = harness.locomo_documents(sample["conversation"])
        known = {document.key for document in documents}
        questions = []
        for row in sample["qa"]:
            evidence = {part for item in row["evidence"] for part in re.findall(r"D\d+:\d+", item)} & known
            if evidence:
                category = LOCOMO_CATEGORIES[row["category"]]
                questions.append(Question(row["question"], frozenset(evidence), None, ("sessions",), category))
        lines = (_line(str(d.details["session"]), d.key, str(d.speaker), d.chunks[0].text, d.at) for d in documents)
        yield Part(questions, None, "".join(lines))


def _session(label: str) -> str:
    return label.split(":")[0]


def _sessions_of(question: Question) -> frozenset[str]:
    return frozenset(_session(label) for label in question.expected)


def _session_of(hit: Hit) -> str:
    return _session(str(hit.message_id))


def _xquad(language: str) -> Callable[[Path, Path], Iterator[Part]]:
    def parts(folder: Path, target: Path) -> Iterator[Part]:
        articles = json.loads((folder / "xquad" / f"xquad.{language}.json").read_text("utf-8"))["data"]
        passages = [paragraph for article in articles for paragraph in article["paragraphs"]]
        notes = {f"p{number}.md": passage["context"] + "\n" for number, passage in enumerate(passages)}
        questions = [
            Question(row["question"], frozenset({f"memory/p{number}.md"}))
            for number, passage in enumerate(passages)
            for row in passage["qas"]
        ]
        yield Part(questions, _write(notes, target))

    return parts


def _scifact(folder: Path, target: Path) -> Iterator[Part]:
    documents, claims = harness.scifact_rows(folder)
    notes = {f"{key}.md": f"# {title}\n\n{abstract}\n" for key, title, abstract in documents}
    questions = [Question(claim, frozenset(f"memory/{key}.md" for key in wanted)) for claim, wanted in claims.items()]
    yield Part(questions, _write(notes, target))


_TEN: Final = (View("", 10),)
_SIX: Final = (View("", 6),)
_LOCOMO_VIEWS: Final = (View("messages", 10), View("sessions", 5, _sessions_of, _session_of))

SETS: Final = (
    LabelledSet("invented", _invented, 6, _SIX),
    LabelledSet("workspace", _workspace, 6, _SIX, "openclaw-baseline"),
    LabelledSet("bigcorpus", _bigcorpus, 6, _SIX, "openclaw-baseline"),
    LabelledSet("locomo", _locomo, 50, _LOCOMO_VIEWS, "locomo"),
    LabelledSet("xquad-zh", _xquad("zh"), 20, _TEN, "xquad"),
    LabelledSet("xquad-en", _xquad("en"), 20, _TEN, "xquad"),
    LabelledSet("scifact", _scifact, 20, _TEN, "scifact"),
)
"""The smallest first. Where a document is one note of several passages, 20 hits are asked for ten documents."""


def present(folder: Path | None) -> list[LabelledSet]:
    """The sets whose data is there."""
    return [one for one in SETS if one.needs is None or (folder is not None and (folder / one.needs).is_dir())]
