"""``explain`` through the door and the command line: what the store knows besides, and what a session may learn."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import AsyncMemory, Memory, errors
from memory_sqlite.cli.app import root
from memory_sqlite.config import Settings

GROUP = {"chat_type": "group"}
OWNER: dict[str, Any] = {"chat_type": "direct", "sender_is_owner": True}


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "boat.md").write_text("# Boat\n\nThe granite anchor is in the shed.\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def filled(place: Path) -> Iterator[Memory]:
    """A note, an owner's chat, a group, and a cron session."""
    with Memory.open(settings=Settings(data_dir=place / "data", workspace=place / "workspace")) as memory:
        memory.remember(session="mine", messages=said("I love granite kitchens."), **OWNER)
        memory.remember(session="club", messages=said("The granite sale is on Monday."), **GROUP)
        memory.remember(session="nightly", kind="cron", messages=said("granite job done"), **OWNER)
        memory.index()
        yield memory


def message_of(memory: Memory, session: str) -> str:
    """The reference of the first message of a session, whether it is searched or not."""
    assert memory._opened is not None
    with memory._opened.store.readers.borrow() as store:
        statement = "SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.key = ? ORDER BY m.id"
        return f"message:{store.execute(statement, (session,)).get}"


def reason(memory: Memory, reference: str, session: str | None = None, query: str = "granite", **more: Any) -> str:
    target = memory.explain(query, reference, session=session, **more).target
    assert target is not None and target.detail
    return target.reason


def test_what_the_store_knows_besides(filled: Memory) -> None:
    """Found; there and not searched; not there at all; a path that is no note's."""
    assert reason(filled, "memory/boat.md") == "hit"
    assert reason(filled, message_of(filled, "nightly")) == "not_indexed"
    assert reason(filled, "message:99999") == reason(filled, "memory/none.md") == "unknown"
    with pytest.raises(errors.PathNotAllowed):
        filled.explain("granite", "../passwd")
    with pytest.raises(errors.InvalidArgument, match="reference"):
        filled.explain("granite", "  ")


def test_a_replaced_fact_names_its_successor(place: Path) -> None:
    """Superseded: by which record."""
    with Memory.open(settings=Settings(data_dir=place / "data")) as memory:
        first = memory.remember(session="s", messages=said("My name is Ada."), **OWNER)
        second = memory.remember(session="s", messages=said("My name is Grace."), **OWNER)
        assert second.superseded == first.facts
        target = memory.explain("what is my name", first.facts[0]).target
        assert target is not None
        assert (target.reason, target.of) == ("superseded", second.facts[0])
        assert second.facts[0] in target.detail


def test_a_note_that_is_not_taken_in_yet(filled: Memory, place: Path) -> None:
    """A reader of an index that is behind its notes says so."""
    settings = Settings(data_dir=place / "data", workspace=place / "workspace")
    (place / "workspace" / "memory" / "new.md").write_text("granite\n", encoding="utf-8")
    with Memory.open(settings=settings, read_only=True) as reader:
        explained = reader.explain("granite", "memory/new.md")
    assert explained.target is not None
    assert (explained.target.reason, explained.stale) == ("not_indexed", True)
    assert explained.warnings


@pytest.mark.parametrize("session", ["club", "never-seen"])
def test_a_session_learns_nothing_that_it_may_not_see(filled: Memory, session: str) -> None:
    """What is hidden and what is not there have one answer; every part is made of visible rows."""
    hidden = ["memory/boat.md", message_of(filled, "mine"), message_of(filled, "nightly")]
    absent = ["memory/none.md", "message:99999", "record:1_000000000000"]
    answers = [replace(filled.explain("granite anchor", name, session=session), target=None) for name in hidden]
    answers += [replace(filled.explain("granite anchor", name, session=session), target=None) for name in absent]
    assert all(replace(answer, now="") == replace(answers[0], now="") for answer in answers)
    targets = [filled.explain("granite anchor", name, session=session).target for name in (*hidden, *absent)]
    assert {(target.reason, target.detail, target.passages) for target in targets if target} == {
        ("not_visible", "this session may not see it, or there is no such thing", 0)
    }
    explained = filled.explain("granite anchor", session=session)
    page = filled.search("granite anchor", session=session)
    assert {row.reference for row in explained.candidates if row.place} == {hit.reference for hit in page.hits}
    assert explained.scored <= 2 and explained.withheld == page.withheld > 0
    counts = {term.text: term.documents for term in explained.terms}
    assert counts["anchor"] == 0


def test_the_operator_looks_over_a_sessions_shoulder(filled: Memory) -> None:
    """``reveal``: the audience is the reason; without a session there is nothing to reveal."""
    assert reason(filled, "memory/boat.md", "club", reveal=True) == "filtered"
    target = filled.explain("granite", "memory/boat.md", session="club", reveal=True).target
    assert target is not None and target.filters == ("audience",)
    assert reason(filled, "memory/boat.md", "mine", reveal=True) == "hit"
    assert reason(filled, "memory/boat.md", reveal=True) == "hit"


def test_arguments_are_those_of_search(filled: Memory) -> None:
    """Checked as there, with the same errors."""
    for wrong in ({"max_results": 0}, {"min_score": 2}, {"sources": ("web",)}, {"since": "soon"}, {"sort": "best"}):
        with pytest.raises(errors.InvalidArgument):
            filled.explain("granite", **wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument):
        filled.explain(7)  # type: ignore[arg-type]


def test_what_was_forgotten_is_not_explained(filled: Memory) -> None:
    """Neither as a candidate nor by name."""
    reference = message_of(filled, "club")
    assert reason(filled, reference) == "hit"
    filled.forget(sessions=["club"])
    explained = filled.explain("granite", reference)
    assert explained.target is not None and explained.target.reason == "unknown"
    assert all(row.reference != reference for row in explained.candidates)


def test_with_an_event_loop(filled: Memory, place: Path) -> None:
    """The same explanation from ``AsyncMemory``."""

    async def ask() -> Any:
        settings = Settings(data_dir=place / "data", workspace=place / "workspace")
        async with await AsyncMemory.open(settings=settings, read_only=True) as memory:
            return await memory.explain("granite", "memory/boat.md", max_results=3)

    there, here = asyncio.run(ask()), filled.explain("granite", "memory/boat.md", max_results=3)
    assert there.target.reason == "hit"
    assert [row.reference for row in there.candidates] == [row.reference for row in here.candidates]


def test_compatible_mode_explains_what_it_finds(place: Path) -> None:
    """That product's search has keywords and scores alone."""
    settings = Settings(data_dir=place / "data", compatibility="layered-memory")
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s", messages=said("I love granite kitchens."), **OWNER)
        explained = memory.explain("granite", "record:none")
        assert (explained.routes, explained.tokens) == (("layered",), ("granite",))
        assert explained.candidates and explained.target is not None
        assert explained.target.reason == "not_explained"
        assert reason(memory, explained.candidates[0].reference) == "hit"


def test_a_search_pays_nothing_for_explanations(filled: Memory, place: Path) -> None:
    """A search that nobody wants explained loads none of it."""
    filled.close()
    code = (
        "import sys\nfrom memory_sqlite import Memory\n"
        f"with Memory.open({str(place / 'data')!r}, read_only=True) as memory:\n"
        "    assert memory.search('granite', explain=True).hits\n"
        "parts = ('trace', 'explain', 'explanation', 'explain_target')\n"
        "print([part for part in parts if f'memory_sqlite.search.{part}' in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


# --- the command ---------------------------------------------------------------------------------------------------


def call(place: Path, *words: str) -> Any:
    return CliRunner().invoke(root, ["--data-dir", str(place / "data"), *words])


def test_the_command_for_people(filled: Memory, place: Path) -> None:
    """The reason first, then terms, filters, candidates; stored text cannot drive the terminal."""
    shown = call(place, "explain", "granite ancor xylophone tuesday", "memory/boat.md", "--source", "memory").stdout
    lines = shown.splitlines()
    assert lines[0] == "memory/boat.md: found"
    assert "(hit)" in lines[1]
    assert "one edit: anchor" in shown
    assert "xylophone" in shown and "dropped" in shown
    assert "filters" in shown and "sources memory" in shown
    assert "1. 0." in shown and "hit 1" in shown


def test_the_command_names_active_projects(filled: Memory, place: Path) -> None:
    """They change the order, so that they are said, to people and as JSON."""
    words = ("explain", "granite", "--active-project", "harbor", "--active-project", "quarry")
    assert "active_projects harbor, quarry" in call(place, *words).stdout
    assert json.loads(call(place, *words, "--json").stdout)["filters"]["active_projects"] == ["harbor", "quarry"]


def test_the_command_for_a_session(filled: Memory, place: Path) -> None:
    """As the session: hidden; with --reveal: why."""
    hidden = call(place, "explain", "granite", "memory/boat.md", "--session", "club")
    assert "not found" in hidden.stdout and "(not_visible)" in hidden.stdout
    assert "may not be seen" in hidden.stderr
    revealed = call(place, "explain", "granite", "memory/boat.md", "--session", "club", "--reveal", "--json")
    assert json.loads(revealed.stdout)["target"]["filters"] == ["audience"]


def test_the_command_lists_a_screenful(place: Path) -> None:
    """Twenty candidates for people; the document has up to a hundred."""
    for number in range(30):
        (place / "workspace" / "memory" / f"{number}.md").write_text("granite " * (number + 1), encoding="utf-8")
    assert call(place, "index", "--workspace", str(place / "workspace")).exit_code == 0
    assert "… and 11 more; --json lists them." in call(place, "explain", "granite").stdout
    assert len(json.loads(call(place, "explain", "granite", "--json").stdout)["candidates"]) == 31


def test_disabled(place: Path) -> None:
    """An answer, and nothing is made."""
    environment = {"MEMORY_SQLITE_ENABLED": "false"}
    result = CliRunner().invoke(
        root, ["--data-dir", str(place / "none"), "explain", "x", "y.md", "--json"], env=environment
    )
    assert json.loads(result.stdout)["disabled"] is True
    assert not (place / "none").exists()
    human = CliRunner().invoke(root, ["--data-dir", str(place / "none"), "explain", "x"], env=environment)
    assert human.exit_code == 0 and "disabled" in human.stderr
