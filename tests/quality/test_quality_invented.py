"""The invented set: always runs, so that a lost language or identifier is noticed without any outside data."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import quality_harness as harness
from invented import NOTES, NOTHING, QUERIES, TALK

from memory_sqlite.model import Chunk, Document, Hit

pytestmark = pytest.mark.quality


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> apsw.Connection:
    """The notes as files read and chunked by the product, and the talk as one session."""
    workspace: Path = tmp_path_factory.mktemp("workspace")
    for name, text in NOTES.items():
        place = workspace / "memory" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    talk = [
        Document(
            kind="message",
            key=str(position),
            source="sessions",
            path="sessions/talk",
            chunks=(Chunk(text, position, position),),
            hash=str(position),
            at=harness.NOW_MS - 86_400_000,
            layer="L0",
            session_id=1,
            owner_private=True,
            speaker=speaker,
            position=position,
            details={"session": "talk", "message_id": str(position)},
        )
        for position, (speaker, text) in enumerate(TALK, 1)
    ]
    return harness.index([*harness.workspace_documents(workspace), *talk])


def label(hit: Hit) -> str:
    return f"talk:{hit.message_id}" if hit.source == "sessions" else hit.path.removeprefix("memory/")


def test_the_set_is_of_the_size_it_says() -> None:
    """A harness that measures nothing must not pass."""
    assert len(NOTES) + len(TALK) >= 40
    assert len(QUERIES) >= 50
    known = {*NOTES, *(f"talk:{position}" for position in range(1, len(TALK) + 1))}
    assert all(expected and expected <= known for _, expected in QUERIES)


def test_every_question_is_answered_and_almost_all_first(connection: apsw.Connection) -> None:
    """All in six, and at most two not first."""
    scores = harness.Scores()
    missed = []
    for query, expected in QUERIES:
        found = [label(hit) for hit in harness.ask(connection, query, 6)]
        scores.add(found, expected)
        if not set(found) & expected:
            missed.append(query)
    assert missed == []
    assert scores.hit_at(1) >= len(QUERIES) - 2


@pytest.mark.parametrize("query", NOTHING)
def test_queries_without_an_answer_have_none(connection: apsw.Connection, query: str) -> None:
    """Nothing is better than junk."""
    assert harness.ask(connection, query, 6) == []


def test_the_first_hit_shows_what_matched(connection: apsw.Connection) -> None:
    """No excerpt without a mark, and every mark lies inside its excerpt."""
    by_date = ("what happened on March 14", "October 2026 board")  # the date is in the name: the text need not say it
    for query, _ in QUERIES:
        hit = harness.ask(connection, query, 1)[0]
        assert hit.matches or query in by_date, (query, hit.path)
        assert all(0 <= span.start < span.end <= len(hit.excerpt) for span in hit.matches)
