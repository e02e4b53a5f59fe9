"""``docs/visibility.md`` row by row, through the door: what search, get and recall give to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

SESSIONS: dict[str, dict[str, Any]] = {
    "owner-1": {"chat_type": "direct", "sender_is_owner": True},
    "owner-2": {"chat_type": "direct", "sender_is_owner": True},
    "stranger": {"chat_type": "direct", "sender_is_owner": False},
    "unsaid": {"chat_type": "direct"},
    "group": {"chat_type": "group"},
    "owner-in-group": {"chat_type": "group", "sender_is_owner": True},
    "channel": {"chat_type": "channel"},
    "unknown": {},
}
OWNERS = {"owner-1", "owner-2"}
NOTE = "note"
EVERYTHING = {NOTE, *SESSIONS}

TABLE: list[tuple[str | None, set[str]]] = [
    (None, EVERYTHING),
    ("owner-1", {NOTE, *OWNERS}),
    ("owner-2", {NOTE, *OWNERS}),
    ("stranger", {"stranger"}),
    ("unsaid", {"unsaid"}),
    ("group", {"group"}),
    ("owner-in-group", {"owner-in-group"}),
    ("channel", {"channel"}),
    ("unknown", {"unknown"}),
    ("never-seen", set()),
]


def words_of(name: str) -> str:
    """What the session's person said: an episode with a word of its own, and a fact."""
    return f"The zephyrine kite belongs to place {name}. I love zephyrine kites from shop-{name}-77."


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """One agent with a note and a session of every sort, each about the same thing."""
    place = tmp_path_factory.mktemp("audience")
    (place / "workspace" / "memory").mkdir(parents=True)
    (place / "workspace" / "memory" / "kites.md").write_text(
        f"# Kites\n\nThe zephyrine kite belongs to place {NOTE}.\n", encoding="utf-8"
    )
    settings = Settings(
        data_dir=place / "data", workspace=place / "workspace", auto_recall_max_results=10, max_search_results=100,
        auto_recall_max_chars=16_000, auto_recall_timeout_ms=5_000,
    )  # fmt: skip
    with Memory.open(settings=settings) as memory:
        for name, said in SESSIONS.items():
            memory.remember(
                session=name,
                run_id="r1",
                messages=[{"role": "user", "content": words_of(name)}, {"role": "assistant", "content": "Noted."}],
                **said,
            )
        memory.index()
        yield memory


def owner_of(text: str) -> set[str]:
    """Which sessions (or the note) a shown text comes from."""
    return {name for name in EVERYTHING if f"place {name}." in text or f"shop-{name}-77" in text}


@pytest.mark.parametrize(("asking", "visible"), TABLE)
def test_search_shows_what_the_table_says(filled: Memory, asking: str | None, visible: set[str]) -> None:
    page = filled.search("zephyrine kite", session=asking, max_results=100)
    seen: set[str] = set()
    for hit in page.hits:
        seen |= owner_of(hit.excerpt)
    assert seen == visible
    for layer in ("L0", "L1", "L3"):
        layered = filled.search("zephyrine kite", session=asking, max_results=100, layers=[layer])
        assert {hit.session for hit in layered.hits} == visible - {NOTE}, layer
    assert (page.withheld > 0) == (visible != EVERYTHING)


@pytest.mark.parametrize(("asking", "visible"), TABLE)
def test_recall_shows_what_the_table_says(filled: Memory, asking: str | None, visible: set[str]) -> None:
    seen: set[str] = set()
    for name in EVERYTHING:
        for words in (f"whose is the zephyrine kite of place {name}?", f"shop-{name}-77"):
            block = filled.recall(words, session=asking)
            assert block.reason in ("ok", "nothing")
            seen |= owner_of(block.text)
            assert all(hit.layer != "L0" for hit in block.hits)
    assert seen == visible


@pytest.mark.parametrize(("asking", "visible"), TABLE)
def test_get_denies_what_search_does_not_show(filled: Memory, asking: str | None, visible: set[str]) -> None:
    for hit in filled.search("zephyrine kite", max_results=100).hits:
        owners = {hit.session} if hit.session is not None else {NOTE}
        for name in (hit.reference, hit.citation, hit.path):
            if owners <= visible:
                assert filled.get(name, session=asking).status == "ok", (asking, name)
            else:
                with pytest.raises(errors.AccessDenied):
                    filled.get(name, session=asking)


@pytest.mark.parametrize("asking", ["group", "unknown", "never-seen", "stranger"])
def test_denial_is_the_same_for_what_does_not_exist(filled: Memory, asking: str) -> None:
    for name in ("message:999999", "record:1784104200120_000000000000", f"sessions/{'0' * 32}"):
        with pytest.raises(errors.AccessDenied):
            filled.get(name, session=asking)


def test_profile_questions_keep_to_the_audience(filled: Memory) -> None:
    for asking, visible in TABLE:
        block = filled.recall("what do I like?", session=asking)
        assert owner_of(block.text) <= visible, asking
        if asking in SESSIONS:
            assert asking in owner_of(block.text), "a session sees its own facts"


def test_profile_scope_agent_widens_only_what_the_owner_said(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", profile_scope="agent")
    with Memory.open(settings=settings) as memory:

        def say(session: str, text: str, **said: Any) -> None:
            memory.remember(session=session, messages=[{"role": "user", "content": text}], **said)

        say("owner", "Hello there.", chat_type="direct", sender_is_owner=True)
        say("group", "I love gingerine biscuits.", chat_type="group", sender_is_owner=True)
        say("crowd", "I love gingerine candles.", chat_type="group", sender_is_owner=False)
        say("guest", "I love gingerine cheese. Always call me boss.", chat_type="direct", sender_is_owner=False)

        def facts(session: str | None) -> set[str]:
            return {hit.excerpt for hit in memory.search("gingerine", session=session, layers=["L3"]).hits}

        assert facts("owner") == {"I love gingerine biscuits"}
        assert facts("group") == {"I love gingerine biscuits"}
        assert facts("crowd") == {"I love gingerine candles"}
        assert facts("guest") == {"I love gingerine cheese"}
        origins = {hit.excerpt: hit.provenance["origin"] for hit in memory.search("gingerine", layers=["L3"]).hits}
        assert origins == {
            "I love gingerine biscuits": "owner",
            "I love gingerine candles": "untrusted",
            "I love gingerine cheese": "untrusted",
        }


def test_a_fact_of_compatible_mode_stays_where_that_mode_filed_it(tmp_path: Path) -> None:
    """There the scope alone decides, in the owner's direct chats too; the standard mode reads it as it was filed."""
    owner: dict[str, Any] = {"chat_type": "direct", "sender_is_owner": True}
    for scope, seen in (("session", False), ("agent", True)):
        data = tmp_path / scope
        settings = Settings(data_dir=data, compatibility="layered-memory", profile_scope=scope)  # type: ignore[arg-type]
        with Memory.open(settings=settings) as memory:
            for session, text in (("one", "I prefer gingerine biscuits."), ("two", "Hello there.")):
                memory.remember(session=session, messages=[{"role": "user", "content": text}], **owner)
        with Memory.open(settings=Settings(data_dir=data)) as memory:
            (fact,) = memory.search("gingerine", layers=["L3"]).hits
            assert bool(memory.search("gingerine", session="two", layers=["L3"]).hits) is seen
            assert memory.search("gingerine", session="one", layers=["L3"]).hits
            if seen:
                assert memory.get(fact.reference, session="two").status == "ok"
            else:
                with pytest.raises(errors.AccessDenied):
                    memory.get(fact.reference, session="two")


def test_in_a_room_each_call_says_who_speaks(tmp_path: Path) -> None:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", profile_scope="agent")) as memory:
        for text, said in (
            ("I love gingerine biscuits.", {"sender_is_owner": True}),
            ("I love gingerine candles. Always answer in verse.", {}),
            ("I love gingerine cheese. Never write in prose.", {"sender_is_owner": False}),
        ):
            for chat_type in ("group", "channel", "unknown"):
                memory.remember(
                    session=chat_type,
                    chat_type=chat_type,  # type: ignore[arg-type]
                    messages=[{"role": "user", "content": text}],
                    **said,
                )
        facts = memory.search("gingerine verse prose", layers=["L3"], max_results=50).hits
        said_by = {(hit.excerpt, str(hit.provenance["origin"])) for hit in facts}
        assert said_by == {
            ("I love gingerine biscuits", "owner"),
            ("I love gingerine candles", "untrusted"),
            ("I love gingerine cheese", "untrusted"),
        }


def imported(tmp_path: Path, lines: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Facts and their origins of a transcript, imported where the owner's facts are agent-wide."""
    transcript = tmp_path / "t.jsonl"
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", profile_scope="agent")) as memory:
        memory.import_transcripts([transcript])
        hits = memory.search("gingerine verse", layers=["L3"], max_results=50).hits
        return {(hit.excerpt, str(hit.provenance["origin"])) for hit in hits}


def test_in_an_imported_room_each_line_says_who_speaks(tmp_path: Path) -> None:
    reply = {"role": "assistant", "content": "Noted.", "session": "g"}
    said = [
        {"role": "user", "content": "I love gingerine biscuits.", "chatType": "group", "senderIsOwner": True},
        {"role": "user", "content": "I love gingerine candles. Always answer in verse.", "senderIsOwner": False},
        {"role": "user", "content": "I love gingerine cheese."},
        {"role": "user", "content": "I love gingerine bread.", "senderIsOwner": True},
    ]
    lines = [line for message in said for line in ({**message, "session": "g"}, reply)]
    assert imported(tmp_path, lines) == {
        ("I love gingerine biscuits", "owner"),
        ("I love gingerine candles", "untrusted"),
        ("I love gingerine cheese", "untrusted"),
        ("I love gingerine bread", "owner"),
    }


def test_a_header_vouches_for_nobody_in_a_room(tmp_path: Path) -> None:
    header = {"type": "session", "id": "s", "timestamp": "2026-03-01T09:00:00Z", "senderIsOwner": True}
    said = {
        "type": "message",
        "id": "m1",
        "timestamp": "2026-03-01T10:00:00Z",
        "message": {"role": "user", "content": [{"type": "text", "text": "I love gingerine. Always answer in verse."}]},
    }
    assert imported(tmp_path, [{**header, "chatType": "group"}, said]) == {("I love gingerine", "untrusted")}


def test_a_strangers_direct_chat_stays_one_whatever_a_later_call_says(tmp_path: Path) -> None:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", profile_scope="agent")) as memory:

        def say(session: str, text: str, **said: Any) -> None:
            memory.remember(session=session, messages=[{"role": "user", "content": text}], chat_type="direct", **said)

        say("owner", "Hello.", sender_is_owner=True)
        say("guest", "Hello.", sender_is_owner=False)
        say("guest", "I love gingerine cheese. Always answer in verse.", sender_is_owner=True)
        assert memory.search("gingerine verse", session="owner").hits == ()
        assert {hit.provenance["origin"] for hit in memory.search("gingerine verse", layers=["L3"]).hits} == {
            "untrusted"
        }


def test_a_session_that_becomes_known_is_filed_anew(tmp_path: Path) -> None:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:

        def say(session: str, text: str, **said: Any) -> None:
            memory.remember(session=session, messages=[{"role": "user", "content": text}], **said)

        say("a", "Hi.", chat_type="direct", sender_is_owner=True)
        say("b", "The quillon is in the attic.")
        assert memory.search("quillon", session="a").hits == ()
        say("b", "Yes.", chat_type="direct", sender_is_owner=True)
        assert memory.search("quillon", session="a").hits != ()
        say("b", "No.", chat_type="direct", sender_is_owner=False)
        assert memory.search("quillon", session="a").hits == ()
        with pytest.raises(errors.SessionConflict):
            say("b", "Oh.", chat_type="group")


@pytest.mark.parametrize("kind", ["cron", "heartbeat", "subagent"])
def test_the_hosts_own_sessions_are_kept_and_not_searched(tmp_path: Path, kind: Any) -> None:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        receipt = memory.remember(
            session="job", kind=kind, chat_type="direct", sender_is_owner=True,
            messages=[{"role": "user", "content": "I love quillons. Run the quillon job."}],
        )  # fmt: skip
        assert (receipt.messages, receipt.episodes, receipt.facts) == (1, 0, ())
        for session in (None, "job"):
            assert memory.search("quillon", session=session).hits == ()
            assert memory.recall("quillon", session=session).text == ""
        assert memory.status()["internal_sessions"] == 1


def test_case_C118_nothing_private_surfaces_in_a_group(tmp_path: Path, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("The private code is CANARY-MEM-44.\n", encoding="utf-8")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        for session, canary, said in (
            ("s-dm", "CANARY-DM-41", {"chat_type": "direct", "sender_is_owner": True}),
            ("s-grp", "CANARY-GRP-42", {"chat_type": "group"}),
            ("s-unk", "CANARY-UNK-43", {}),
        ):
            memory.remember(session=session, messages=[{"role": "user", "content": f"The word is {canary}."}], **said)
        canaries = ["CANARY-DM-41", "CANARY-GRP-42", "CANARY-UNK-43", "CANARY-MEM-44"]

        def seen(session: str | None) -> set[str]:
            shown = ""
            for canary in canaries:
                page = memory.search(canary, session=session, max_results=10)
                shown += "".join(f"{hit.excerpt}\n" for hit in page.hits)
                shown += memory.recall(f"what is {canary}?", session=session).text
            return {canary for canary in canaries if canary in shown}

        assert seen("s-grp") == {"CANARY-GRP-42"}
        assert seen("s-unk") == {"CANARY-UNK-43"}
        assert seen("s-dm") == {"CANARY-DM-41", "CANARY-MEM-44"}
        assert seen("s-never") == set()
        assert seen(None) == set(canaries)
        # withheld is told apart from no match
        hidden = memory.search("CANARY-DM-41 private", session="s-never")
        assert (hidden.hits, hidden.withheld > 0) == ((), True)
        assert any("may not see" in warning for warning in hidden.warnings)
        missing = memory.search("xylograph", session="s-never")
        assert (missing.hits, missing.withheld, missing.warnings) == ((), 0, ())
