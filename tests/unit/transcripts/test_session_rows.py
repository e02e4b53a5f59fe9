"""What a session is: what is said of it once stands, what becomes known later re-files what was said in it."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors


def person(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text, **more}]


def found_by(memory: Memory, query: str, session: str | None) -> list[str | None]:
    """The sessions whose messages a session finds."""
    return sorted({hit.session for hit in memory.search(query, session=session, sources=("sessions",)).hits})  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"chat_type": "direct"}, {"chat_type": "group"}),
        ({"chat_type": "group"}, {"chat_type": "direct"}),
        ({"kind": "interactive"}, {"kind": "cron"}),
        ({"kind": "subagent"}, {"kind": "interactive"}),
    ],
)
def test_what_is_known_does_not_change(memory: Memory, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Moving what was said in private into a room, or the reverse, is refused whole: nothing of the call is stored."""
    memory.remember(session="s", messages=person("granite"), **first)
    with pytest.raises(errors.SessionConflict):
        memory.remember(session="s", messages=person("marble"), **second)
    assert memory.status()["messages"] == 1
    assert memory.remember(session="s", messages=person("slate"), **first).status == "stored"
    unknown = dict.fromkeys(second, "unknown")
    assert memory.remember(session="s", messages=person("basalt"), **unknown).status == "stored"


def test_unknown_session_that_turns_out_to_be_the_owners(memory: Memory) -> None:
    """Until it is known a session sees itself alone; then its messages are filed with the owner's, and seen there."""
    memory.remember(session="home", messages=person("marble"), chat_type="direct", sender_is_owner=True)
    memory.remember(session="s", messages=person("granite"))
    assert found_by(memory, "granite", "home") == []
    assert found_by(memory, "marble", "s") == []
    memory.remember(session="s", messages=person("slate"), chat_type="direct", sender_is_owner=True)
    assert found_by(memory, "granite", "home") == ["s"]
    assert found_by(memory, "marble", "s") == ["home"]


def test_what_a_stranger_said_stays_untrusted(memory: Memory) -> None:
    """Words stored before their speaker was known to be the owner were nobody's; learning more later does not make
    them the owner's (unknown is never trusted)."""
    memory.remember(session="s", messages=person("I love granite."))
    memory.remember(session="s", messages=person("I love marble."), chat_type="direct", sender_is_owner=True)
    origins = {
        hit.excerpt: hit.provenance["origin"] for hit in memory.search("love", layers=("L3",), max_results=10).hits
    }
    assert origins == {"I love granite": "untrusted", "I love marble": "owner"}


def test_owner_who_turns_out_to_be_a_stranger(memory: Memory) -> None:
    """A direct chat whose sender is not the owner after all loses sight of the owner's, and is lost from it."""
    memory.remember(session="home", messages=person("marble"), chat_type="direct", sender_is_owner=True)
    memory.remember(session="s", messages=person("granite"), chat_type="direct", sender_is_owner=True)
    memory.remember(session="s", messages=person("slate"), sender_is_owner=False)
    assert found_by(memory, "marble", "s") == []
    assert found_by(memory, "granite", "home") == []
    memory.remember(session="s", messages=person("basalt"), sender_is_owner=True)
    assert found_by(memory, "marble", "s") == [], "once a stranger was there it never becomes the owner's again"


@pytest.mark.parametrize("kind", ["cron", "heartbeat", "subagent"])
def test_sessions_of_the_host_make_no_records_and_are_not_searched(memory: Memory, kind: Any) -> None:
    """They are kept in L0 and can be read back; nothing is remembered from them, nothing of them is found."""
    receipt = memory.remember(
        session="s", messages=person("I love granite."), kind=kind, chat_type="direct", sender_is_owner=True
    )
    assert (receipt.status, receipt.episodes, receipt.facts) == ("stored", 0, ())
    status = memory.status()
    assert (status["messages"], status["records"]) == (1, {"L1": 0, "L2": 0, "L3": 0})
    assert memory.search("granite").hits == ()
    token = memory.sessions()[0]["token"]
    assert "granite" in memory.get(f"sessions/{token}").text


def test_session_that_turns_out_to_be_the_hosts(memory: Memory) -> None:
    """Once it is known to be a cron job's, what was indexed of it before is not found any more, by any query, and a
    rebuild does not bring it back."""
    memory.remember(session="s", messages=person("I love granite."))
    assert memory.search("granite").hits
    memory.remember(session="s", messages=person("marble"), kind="cron")
    assert memory.search("granite").hits == ()
    memory.index(full=True)
    assert memory.search("granite").hits == ()


def test_change_of_a_record_does_not_bring_the_hosts_session_back(memory: Memory) -> None:
    """Its records are in the store; whatever happens to them later, they are not filed again."""
    memory.remember(session="s", messages=person("I love granite."))
    memory.remember(session="s", messages=person("marble"), kind="cron")
    connection = apsw.Connection(memory.status()["store"])
    connection.execute("INSERT INTO change_log (kind, target, op) SELECT 'record', id, 'put' FROM records").fetchall()
    connection.close()
    assert memory.search("granite").hits == ()
    assert memory.status()["index"]["lag"] == 0


def test_tool_output_is_kept_and_not_searched(memory: Memory) -> None:
    """It is in L0, untrusted, and neither found nor remembered from, also where a host gives it the user's role."""
    memory.remember(
        session="s",
        chat_type="direct",
        sender_is_owner=True,
        messages=[
            {"role": "user", "content": "what is in the file?"},
            {"role": "tool", "content": "I love granite from a file."},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "I love marble too."}]},
            {"role": "assistant", "content": "Stones."},
        ],
    )
    assert memory.status()["messages"] == 4
    assert memory.status()["turns"] == 1
    assert memory.search("granite").hits == ()
    assert memory.search("marble").hits == ()
    assert "granite" in memory.get(f"sessions/{memory.sessions()[0]['token']}").text


def test_room_where_owner_and_strangers_speak(memory: Memory) -> None:
    """In a group the flag belongs to the call's sender: the owner's words are the owner's, a stranger's untrusted."""
    memory.remember(
        session="g", messages=person("I love granite.", sender="ann"), chat_type="group", sender_is_owner=True
    )
    memory.remember(session="g", messages=person("I love marble.", sender="bob"), sender_is_owner=False)
    memory.remember(session="g", messages=person("I love slate.", sender="ann"), sender_is_owner=True)
    origins = {hit.excerpt: hit.provenance["origin"] for hit in memory.search("love", layers=("L3",)).hits}
    assert origins == {"I love granite": "owner", "I love marble": "untrusted", "I love slate": "owner"}


def test_tool_output_in_the_owners_turn_is_untrusted(memory: Memory) -> None:
    """Some hosts give tool output the ``user`` role: in the owner's own chat it is still not the owner's words."""
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "marble"}]
    memory.remember(
        session="s",
        chat_type="direct",
        sender_is_owner=True,
        messages=[*person("granite"), {"role": "assistant", "content": "slate"}, {"role": "user", "content": result}],
    )
    store = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    stored = store.execute("SELECT text, origin FROM messages ORDER BY position").fetchall()
    store.close()
    assert stored == [("granite", "owner"), ("slate", "agent"), ("marble", "untrusted")]


def test_system_prompts_are_kept_and_not_searched(memory: Memory) -> None:
    """They are the host's, the same in every session: in L0 word for word, and in no answer."""
    for role in ("system", "developer"):
        memory.remember(session=role, messages=[{"role": role, "content": "Be granite."}, *person(f"marble {role}")])
        assert "Be granite." in memory.get(f"sessions/{memory.sessions()[0]['token']}").text
    assert memory.search("granite").hits == ()
    assert found_by(memory, "marble", None) == ["developer", "system"]


def test_each_call_rewrites_the_windows_that_it_changes(memory: Memory) -> None:
    """A message is found through what was said before it and, once that is remembered, through what came after it."""
    memory.remember(session="s", messages=person("Where did you buy the telescope?", id="m1"))
    memory.remember(session="s", messages=[{"role": "assistant", "content": "At Keller, on the corner.", "id": "m2"}])
    memory.remember(session="s", messages=person("Then the zeppelin landed.", id="m3"))

    def found(word: str) -> set[str | None]:
        return {hit.message_id for hit in memory.search(word, sources=["sessions"]).hits}

    assert found("telescope") == {"m1", "m2", "m3"}
    assert found("zeppelin") == {"m1", "m2", "m3"}
    memory.index(full=True)
    assert found("zeppelin") == {"m1", "m2", "m3"}
