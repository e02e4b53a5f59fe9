"""Edges of who sees what: hidden words change no answer, a late session kind hides facts, none is starved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.config import Settings


def say(memory: Memory, session: str, text: str, **known: Any) -> None:
    memory.remember(session=session, messages=[{"role": "user", "content": text}], **known)


OWNER: dict[str, Any] = {"chat_type": "direct", "sender_is_owner": True}


@pytest.mark.parametrize("query", ["saturdayy", "saturday~", "seeed swop", "satu", "swaps"])
def test_words_that_may_not_be_seen_do_not_take_hits_away(memory: Memory, query: str) -> None:
    """A misspelt or shortened word finds the room's own message also after the owner wrote that word in private."""
    say(memory, "room", "The seed swap is on saturday.", chat_type="group")
    before = [hit.reference for hit in memory.search(query, session="room").hits]
    say(memory, "dm", f"{query} {query} is what I write: saturdayx seeedy swopp", **OWNER)
    after = memory.search(query, session="room")
    assert [hit.reference for hit in after.hits] == before
    assert after.withheld > 0, "that something matched elsewhere is still told"


def test_a_word_known_only_in_private_finds_nothing_and_says_so(memory: Memory) -> None:
    say(memory, "room", "The seed swap is on saturday.", chat_type="group")
    say(memory, "dm", "zanzibar is secret", **OWNER)
    page = memory.search("zanzibar", session="room")
    assert not page.hits
    assert page.withheld > 0
    assert page.warnings == ("something matched that this session may not see",)
    assert not memory.search("zanzibarr", session="room").hits
    assert memory.search("zanzibarr", session="dm").hits, "who may see it is helped with the spelling"


def test_facts_of_a_session_that_turns_out_to_be_the_hosts_own_are_not_recalled(memory: Memory) -> None:
    """The kind became known after the first words: nothing of it is searched or recalled any more."""
    say(memory, "s", "I love tea. My name is Ada.", **OWNER)
    say(memory, "other", "hello there", **OWNER)
    assert "tea" in memory.recall("what do I like to drink?", session="other").text
    say(memory, "s", "tick", kind="cron")
    for session in ("other", "s", None):
        for query in ("what do I like to drink?", "what is my name?"):
            assert memory.recall(query, session=session).text == ""


def test_ones_own_line_in_a_days_file_is_read_past_the_lines_of_others(tmp_path: Path) -> None:
    """Sessions share the day's file of profiles: other people's lines in it neither show nor use up the window."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", profile_scope="agent")) as memory:
        for number, drink in enumerate(("tea", "coffee", "juice")):
            say(memory, f"stranger{number}", f"I love {drink}.", chat_type="direct", sender_is_owner=False)
        say(memory, "mine", "I love water.", chat_type="direct", sender_is_owner=False)
        path = next(hit.path for hit in memory.search("water", layers=["L3"]).hits)
        assert path.startswith("agent-profiles/")
        passage = memory.get(path, session="mine", lines=1)
        assert (passage.text, passage.truncated) == ("I love water\n", False)
        with pytest.raises(errors.AccessDenied):
            memory.get(path, session="room")


def test_what_ails_the_notes_is_told_to_their_readers_alone(tmp_path: Path) -> None:
    """A note that cannot be read is a warning for the operator and the owner; a room does not learn of it."""
    workspace = tmp_path / "ws"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "fine.md").write_text("granite\n")
    with (workspace / "memory" / "huge.md").open("wb") as note:
        note.truncate(limits.NOTE_MAX_BYTES + 1)
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as memory:
        say(memory, "room", "The granite swap.", chat_type="group")
        say(memory, "dm", "The granite key.", **OWNER)
        told = memory.search("granite").warnings
        assert told
        assert memory.search("granite", session="dm").warnings == told
        assert not set(told) & set(memory.search("granite", session="room").warnings)
        assert not set(told) & set(memory.explain("granite", session="room").warnings)
