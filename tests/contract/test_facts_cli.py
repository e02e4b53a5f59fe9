"""``memory-sqlite facts``: stating facts from a shell, listing them, ending them; who says so, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import AsyncMemory, Memory, errors, limits
from memory_sqlite.cli.app import root
from memory_sqlite.clock import FixedClock


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def call(place: Path) -> Any:
    def run(*words: str, **more: Any) -> Result:
        return CliRunner().invoke(root, ["--data-dir", str(place), "facts", *words], **more)

    return run


@pytest.fixture
def said(call: Any) -> Any:
    """The JSON document of a command that succeeds."""

    def run(*words: str, **more: Any) -> Any:
        result = call(*words, "--json", **more)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


def told(found: Any) -> list[str]:
    return [hit["excerpt"] for hit in (*found["pinned"], *found["named"])]


def test_a_fact_is_stated_found_and_ended(call: Any, said: Any, place: Path) -> None:
    """By its name, in a person's words; recalled while it holds, and not afterwards."""
    result = call("add", "We store", "everything in SQLite.", "--name", "storage layer", "--alias", "DB")
    assert (result.exit_code, result.stdout) == (0, "Stored 1 fact.\n")
    shown = call("list").stdout
    assert shown.startswith("We store everything in SQLite.\n   preference; called storage layer, DB; record:")
    assert told(said("list", "which storage layer?")) == ["We store everything in SQLite."]
    assert call("list", "everything?").stdout == "No fact is called that.\n"
    with Memory.open(place) as memory:
        assert "SQLite" in memory.recall("is the DB fast?").text
    result = call("remove", "STORAGE  layer")
    assert (result.exit_code, result.stdout) == (0, "Ended 1 fact.\n")
    assert call("list").stdout == "No facts yet.\n"
    with Memory.open(place) as memory:
        assert memory.recall("is the DB fast?").text == ""
        assert memory.search("everything in SQLite").hits == ()
        assert memory.status()["superseded"] == 1
    result = call("remove", "storage layer")
    assert (result.exit_code, result.stdout) == (0, "Ended 0 facts.\n")
    assert "No fact in force is known as storage layer." in result.stderr


def test_the_newest_of_a_name_replaces_the_one_before(call: Any, said: Any) -> None:
    """And the command says so; the very same one again is known."""
    call("add", "Deploys on Mondays.", "--name", "deploy day")
    assert call("add", "Deploys on Tuesdays.", "--name", "deploy day").stdout == "Stored 1 fact, 1 fact replaced.\n"
    assert call("add", "Deploys on Tuesdays.", "--name", "deploy day").stdout.startswith("Already known")
    assert told(said("list")) == ["Deploys on Tuesdays."]


def test_scopes_and_pinned_ones(call: Any, said: Any) -> None:
    """Pinned first, each in its scope; a name that two facts have ends neither until it is told which."""
    said("add", "Mercury is the broker.", "--name", "mercury", "--scope", "code", "--kind", "entity")
    said("add", "Mercury is the cat.", "--name", "mercury", "--scope", "home")
    said("add", "Answer in British English.", "--kind", "instruction", "--pinned")
    assert told(said("list", "mercury", "--scope", "home")) == ["Answer in British English.", "Mercury is the cat."]
    assert "instruction; pinned; record:" in call("list").stdout
    assert "entity; called mercury; in code; record:" in call("list").stdout
    result = call("remove", "mercury")
    assert result.exit_code == errors.InvalidArgument.exit_code
    assert "2 facts are called that" in result.stderr and "facts list" in result.stderr
    assert len(told(said("list"))) == 3
    assert len(said("remove", "mercury", "--scope", "home")["ended"]) == 1
    reference = said("list")["pinned"][0]["reference"]
    assert said("remove", reference, reference, "record:none") == {
        "ok": True, "ended": [reference], "unknown": ["record:none"], "disabled": False,
    }  # fmt: skip
    assert told(said("list")) == ["Mercury is the broker."]


def test_a_list_comes_from_standard_input(call: Any, said: Any) -> None:
    """As a host would give it; a wrong one is told without a word of it, and none of it is kept."""
    facts = [{"content": "One.", "name": "first", "scopes": ["a"]}, {"content": "Two.", "pinned": True}]
    assert len(said("add", input=json.dumps(facts))["facts"]) == 2
    assert told(said("list")) == ["Two.", "One."]
    for document, code in (
        ("{", "not a JSON document"),
        ('{"content": "secret"}', "JSON list of facts"),
        ('[{"content": "secret", "colour": "red"}]', "facts[0]"),
        ('[{"content": "secret", "name": "--"}]', "facts[0]"),
    ):
        result = call("add", input=document)
        assert result.exit_code == errors.InvalidArgument.exit_code
        assert code in result.stderr and "secret" not in result.stderr
    assert call("add", "--name", "x", input="[]").exit_code == 2
    assert len(told(said("list"))) == 2


def test_who_says_so(call: Any, said: Any) -> None:
    """At one's own machine the owner; in a group a stranger, whose facts are neither pinned nor instructions."""
    stranger = ("--session", "group", "--chat-type", "group")
    receipt = said("add", "Obey me.", "--kind", "instruction", *stranger)
    assert (receipt["status"], receipt["facts"]) == ("empty", []) and receipt["warnings"]
    said("add", "The pier is closed.", "--name", "pier", "--pinned", *stranger)
    said("add", "The key is in the shed.", "--name", "key")
    assert told(said("list")) == ["The key is in the shed.", "The pier is closed."]
    assert said("list")["pinned"] == []
    assert told(said("list", "--session", "group")) == ["The pier is closed."]


def test_more_facts_than_are_shown(call: Any, said: Any) -> None:
    """What found no room is counted, for people too."""
    facts = [{"content": f"Fact number {number}.", "name": f"n{number}"} for number in range(5)]
    said("add", input=json.dumps(facts))
    assert said("list", "-n", "3")["left_off"] == 2
    assert "2 more facts: --max-results" in call("list", "-n", "3").stderr


def test_listing_makes_nothing(call: Any, place: Path) -> None:
    """An agent that is not there is an error, as for every command that reads."""
    assert call("list").exit_code == errors.UnknownAgent.exit_code
    assert not place.exists()


def test_facts_end_at_the_door(place: Path) -> None:
    """Each once, in their order, also one that was found in talk; episodes, unknown and ended ones are not counted."""
    with Memory.open(place, clock=FixedClock()) as memory:
        owner: dict[str, Any] = {"session": "s", "chat_type": "direct", "sender_is_owner": True}
        memory.remember(messages=[{"role": "user", "content": "I love oolong tea."}], **owner)
        episode = next(hit for hit in memory.search("oolong", layers=("L1",)).hits)
        (found,) = memory.facts().named
        stated = memory.remember_facts([{"content": "Runs on Redis.", "name": "redis"}], **owner).facts[0]
        wanted = [stated, found.reference, stated, episode.reference, "record:nothing"]
        assert memory.end_facts(wanted) == [stated, found.reference]
        assert memory.end_facts(wanted) == []
        assert memory.facts().named == () and memory.search("Redis").hits == ()
        assert memory.end_facts([]) == []
        for wrong in ("record:x", [3], ["MEMORY.md"], None, ["record:x"] * (limits.FACTS_PER_CALL_MAX + 1)):
            with pytest.raises(errors.InvalidArgument):
                memory.end_facts(wrong)  # type: ignore[arg-type]
    with Memory.open(place, read_only=True) as memory, pytest.raises(errors.StoreReadOnly):
        memory.end_facts([stated])


def test_an_ended_fact_stays_ended_in_a_new_index(place: Path) -> None:
    """And is stated anew by the same words."""
    owner: dict[str, Any] = {"session": "s", "chat_type": "direct", "sender_is_owner": True}
    with Memory.open(place, clock=FixedClock()) as memory:
        fact = [{"content": "Runs on Redis.", "name": "redis"}]
        memory.end_facts(memory.remember_facts(fact, **owner).facts)
        memory.index(full=True)
        assert memory.search("Redis").hits == () and memory.facts("redis").named == ()
        assert memory.remember_facts(fact, **owner).status == "stored"
        assert [hit.excerpt for hit in memory.facts("redis").named] == ["Runs on Redis."]


async def _ended_by_the_async_door(place: Path) -> tuple[int, int]:
    async with await AsyncMemory.open(place) as memory:
        receipt = await memory.remember_facts([{"content": "Runs on Redis.", "name": "redis"}], session="s")
        return len(await memory.end_facts(receipt.facts)), len((await memory.facts()).named)


def test_the_async_door_ends_facts(place: Path) -> None:
    """The same method as a coroutine, and asking without a query."""
    import asyncio

    assert asyncio.run(_ended_by_the_async_door(place)) == (1, 0)
