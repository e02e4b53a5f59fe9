"""Lines of labelled queries: what is read, what is refused and how, and which hit a label means."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.evaluation.measuring import evaluate
from memory_sqlite.evaluation.questions import Question, labels_of, read_questions
from memory_sqlite.model import Hit


def hit(path: str = "memory/a.md", first: int = 1, last: int = 1, **more: Any) -> Hit:
    """A note's hit, unless said otherwise."""
    known: dict[str, Any] = {
        "reference": f"note:{path}#L{first}-L{last}", "excerpt": "", "matches": (), "score": 0.5, "source": "memory",
        "layer": None, "citation": f"{path}#L{first}-L{last}", "provenance": {"kind": "note"}, "time": None,
    }  # fmt: skip
    return Hit(path=path, start_line=first, end_line=last, **{**known, **more})


def message(number: int, host_id: str) -> Hit:
    return hit(
        "sessions/abc", number, number, reference=f"message:{number}", source="sessions", layer="L0",
        message_id=host_id, provenance={"kind": "message"},
    )  # fmt: skip


def write(tmp_path: Path, text: str | bytes) -> Path:
    place = tmp_path / "queries.jsonl"
    place.write_bytes(text if isinstance(text, bytes) else text.encode())
    return place


def test_lines_are_read(tmp_path: Path) -> None:
    """All fields, defaults, blank lines, a byte order mark, Windows line ends."""
    text = (
        '\ufeff{"query": "a", "expected": ["x", "x", "y"]}\r\n\n'
        '{"query": "", "expected": [], "session": "s", "sources": ["memory"], "category": "c"}'
    )
    first, second = read_questions(write(tmp_path, text))
    assert first == Question("a", frozenset({"x", "y"}), None, ("memory", "sessions"), "", 1)
    assert second == Question("", frozenset(), "s", ("memory",), "c", 3)


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", "7", '"x"', "{}", '{"query": "q"}', '{"expected": []}', '{"query": 7, "expected": []}',
        '{"query": "q", "expected": "x"}', '{"query": "q", "expected": [7]}', '{"query": "q", "expected": [""]}',
        '{"query": "q", "expected": [], "sources": []}', '{"query": "q", "expected": [], "sources": ["web"]}',
        '{"query": "q", "expected": [], "session": 7}', '{"query": "q", "expected": [], "session": ""}',
        '{"query": "q", "expected": [], "category": 7}', '{"query": "q", "expected": [], "kategory": "x"}',
        "[" * 100_000, b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_by_its_number(tmp_path: Path, line: str | bytes) -> None:
    """Typed, with the number and the field, and without a word of the line."""
    data = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(errors.LabelsInvalid, match=r"^line 2: ") as caught:
        read_questions(write(tmp_path, b'{"query": "secret", "expected": []}\n' + data + b"\n"))
    assert "secret" not in str(caught.value) and "kategory" not in str(caught.value)


def test_files_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, a directory, empty, too large."""
    with pytest.raises(errors.LabelsInvalid, match="cannot be read"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(errors.LabelsInvalid, match="cannot be read"):
        read_questions(tmp_path)
    with pytest.raises(errors.LabelsInvalid, match="no labelled query"):
        read_questions(write(tmp_path, "\n\n"))
    monkeypatch.setattr(limits, "EVAL_FILE_MAX_BYTES", 10)
    with pytest.raises(errors.LabelsInvalid, match="larger than 10 bytes"):
        read_questions(Path("/dev/zero"))  # says that it has no bytes, and has no end
    with pytest.raises(errors.LabelsInvalid, match="larger than 10 bytes"):
        read_questions(write(tmp_path, '{"query": "q", "expected": []}'))


@pytest.mark.parametrize(
    ("label", "matches"),
    [
        ("memory/a.md", True),
        ("memory/a.md#L4-L8", True),
        ("note:memory/a.md#L4-L8", True),
        ("memory/a.md#L8-L20", True),
        ("memory/a.md#L6", True),
        ("memory/a.md#L9", False),
        ("memory/b.md#L4-L8", False),
        ("memory/a", False),
    ],
)
def test_labels_of_a_note(label: str, matches: bool) -> None:
    """Its path, its citation, its reference, or lines that it shares."""
    named = labels_of(hit(first=4, last=8), frozenset({label, "other"}))
    assert named == [label if matches else "memory/a.md"]


def test_labels_of_messages_and_records() -> None:
    """By reference or by the host's id; others keep a name of their own, so that they are counted apart."""
    assert labels_of(message(3, "D1:3"), frozenset({"D1:3"})) == ["D1:3"]
    assert labels_of(message(3, "D1:3"), frozenset({"message:3"})) == ["message:3"]
    assert labels_of(message(3, "D1:3"), frozenset({"sessions/abc"})) == ["sessions/abc"]
    assert labels_of(message(3, "D1:3"), frozenset({"x"})) == ["message:3"]


def test_a_passage_answers_every_label_that_names_it() -> None:
    """Two citations within one passage are both found with it, and so is a path beside a citation."""
    both = frozenset({"memory/a.md#L4", "memory/a.md#L8", "memory/a.md", "memory/a.md#L9"})
    assert set(labels_of(hit(first=4, last=8), both)) == both - {"memory/a.md#L9"}
    question = Question("q", frozenset({"memory/a.md#L4", "memory/a.md#L8"}))
    assert evaluate([question], lambda _: [hit(first=4, last=8)]).overall.figures["recall@10"] == 1.0
    one = hit(duplicates=("memory/b.md#L3-L5",))
    assert labels_of(one, frozenset({"memory/b.md#L3", "memory/b.md#L5"}))[1:] == ["memory/b.md#L3", "memory/b.md#L5"]


def test_what_is_listed_under_a_hit_is_found_with_it() -> None:
    """Near duplicates are one hit, and the answer names them: their labels count, and other names do not."""
    one = hit(duplicates=("memory/b.md#L3-L5", "memory/c.md#L1", "sessions/abc#L2"))
    assert labels_of(one, frozenset({"memory/b.md"})) == ["memory/a.md", "memory/b.md"]
    assert labels_of(one, frozenset({"memory/b.md#L5"})) == ["memory/a.md", "memory/b.md#L5"]
    assert labels_of(one, frozenset({"memory/c.md#L1", "memory/a.md"})) == ["memory/a.md", "memory/c.md#L1"]
    assert labels_of(one, frozenset({"memory/b.md#L6", "memory/none.md"})) == ["memory/a.md"]


def test_an_evaluation_by_category() -> None:
    """Figures for all and for each, times from the timer, and the lines that were not answered."""
    answers = {"one": [hit("memory/x.md"), hit()], "two": [], "nothing": [], "junk": [hit()]}
    ticks = count()
    evaluation = evaluate(
        [
            Question("one", frozenset({"memory/a.md"}), category="c", line=1),
            Question("two", frozenset({"memory/a.md"}), line=2),
            Question("nothing", frozenset(), category="c", line=3),
            Question("junk", frozenset(), line=4),
        ],
        lambda question: answers[question.query],
        5,
        timer=lambda: float(next(ticks)),
    )
    assert (evaluation.overall.questions, evaluation.overall.empty, evaluation.overall.empty_right) == (4, 2, 1)
    assert evaluation.overall.figures["mrr"] == 0.25
    assert evaluation.categories["c"].figures["mrr"] == 0.5
    assert [(answer.line, answer.rank, answer.right) for answer in evaluation.answers] == [
        (1, 2, True), (2, None, False), (3, None, True), (4, None, False),
    ]  # fmt: skip
    assert (evaluation.p50_ms, evaluation.p95_ms) == (1000.0, 1000.0)


def test_a_question_that_cannot_be_asked_is_named_by_its_line() -> None:
    """More hits than a session may ask for, for example."""

    def ask(_: Question) -> list[Hit]:
        raise errors.InvalidArgument("max_results must be an integer between 1 and 10")

    with pytest.raises(errors.LabelsInvalid, match="line 9: max_results"):
        evaluate([Question("q", frozenset(), line=9)], ask)
