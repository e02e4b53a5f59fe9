"""An export imported in steps: the same in the end, others write in between, and what they forget stays away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_import

OWNER: dict[str, Any] = {"chat_type": "direct", "kind": "interactive", "sender_is_owner": True}


def opened(tmp_path: Path, agent: str) -> Memory:
    return Memory.open(settings=Settings(data_dir=tmp_path / "data", agent=agent), clock=FixedClock())


def body(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()[1:-1]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Four sessions with facts, one of which supersedes another; a session that was forgotten and went on."""
    with opened(tmp_path, "alpha") as memory:
        memory.remember(session="s0", messages=[{"role": "user", "content": "forgotten words"}], **OWNER)
        memory.forget(sessions=["s0"])
        for session in range(4):
            for number in range(3):
                said = f"I live in Town{session}{number}."
                memory.remember(session=f"s{session}", messages=[{"role": "user", "content": said}], **OWNER)
        memory.export(tmp_path / "a.jsonl")
    return tmp_path / "a.jsonl"


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What somebody else does between the first two steps; a step ends before every session."""
    doing: list[Callable[[], None]] = []
    monkeypatch.setattr(jsonl_import, "_STEP_LINES", 1)
    begin = jsonl_import._Steps._begin
    begun: list[int] = []

    def watched(steps: Any) -> None:
        begun.append(1)
        if len(begun) == 3:  # the first session is on disk
            for do in doing:
                do()
        begin(steps)

    monkeypatch.setattr(jsonl_import._Steps, "_begin", watched)
    doing.append(lambda: begun.append(1))
    return doing


def test_in_the_end_it_is_the_same(tmp_path: Path, exported: Path, between: list[Callable[[], None]]) -> None:
    """Lines and counts equal those of an import in one transaction; a second one adds nothing."""
    with opened(tmp_path, "one") as memory:
        expected = memory.import_jsonl(exported)
    with opened(tmp_path, "beta") as memory:
        report = memory.import_jsonl(exported, steps=True)
        assert (report.added, report.forgotten, report.problems) == (expected.added, expected.forgotten, ())
        memory.export(tmp_path / "b.jsonl")
        assert not any(memory.import_jsonl(exported, steps=True).added.values())
    assert body(tmp_path / "b.jsonl") == body(exported)


def test_others_write_in_between(tmp_path: Path, exported: Path, between: list[Callable[[], None]]) -> None:
    """A host that is talking meanwhile is not kept waiting for the whole file."""
    with opened(tmp_path, "beta") as memory, opened(tmp_path, "beta") as other:
        say = {"session": "live", "messages": [{"role": "user", "content": "granite meanwhile"}], **OWNER}
        between.append(lambda: other.remember(**say) and None)
        memory.import_jsonl(exported, steps=True)
        assert {row["session"] for row in memory.sessions()} == {"live", "s0", "s1", "s2", "s3"}


@pytest.mark.parametrize(
    ("forgotten", "left"),
    [
        ({"sessions": ["s0"]}, {"s1": 3, "s2": 3, "s3": 3}),
        ({"sessions": ["s1"]}, {"s0": 3, "s2": 3, "s3": 3}),
    ],
    ids=["what has come", "what was to come"],
)
def test_what_is_forgotten_in_between_stays_forgotten(
    tmp_path: Path,
    exported: Path,
    between: list[Callable[[], None]],
    forgotten: dict[str, Any],
    left: dict[str, int],
) -> None:
    """With its turns go the facts that the last step would have brought."""
    with opened(tmp_path, "beta") as memory, opened(tmp_path, "beta") as other:
        other.remember(session="s1", messages=[{"role": "user", "content": "own words"}], **OWNER)
        between.append(lambda: other.forget(**forgotten) and None)
        report = memory.import_jsonl(exported, steps=True)
        assert {row["session"]: row["turns"] for row in memory.sessions() if row["turns"]} == left
        gone = forgotten["sessions"][0][1]
        facts = [hit.excerpt for hit in memory.facts().named]
        assert not [fact for fact in facts if f"Town{gone}" in fact]
        assert report.forgotten["record"] >= 3
        assert not memory.search(f"Town{gone}0", min_score=0.9).hits


def test_a_dry_run_takes_no_steps(tmp_path: Path, exported: Path, between: list[Callable[[], None]]) -> None:
    with opened(tmp_path, "beta") as memory:
        assert memory.import_jsonl(exported, steps=True, dry_run=True).added["session"] == 4
        assert memory.sessions() == []


def test_a_failure_takes_back_the_step_and_no_other(
    tmp_path: Path, exported: Path, between: list[Callable[[], None]]
) -> None:
    """Whole sessions stay; the next import goes on behind them."""

    def fail() -> None:
        raise errors.DiskFull("the disk is full")

    with opened(tmp_path, "beta") as memory:
        between.append(fail)
        with pytest.raises(errors.DiskFull):
            memory.import_jsonl(exported, steps=True)
        assert {row["session"]: row["turns"] for row in memory.sessions()} == {"s0": 3}
        report = memory.import_jsonl(exported, steps=True)
        assert (report.present["session"], report.added["session"]) == (1, 3)
        memory.export(tmp_path / "b.jsonl")
    assert body(tmp_path / "b.jsonl") == body(exported)
