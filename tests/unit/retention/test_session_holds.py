"""Legal holds and pins: what is held is neither pruned nor forgotten, what is pinned is not pruned, and both end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

DAY = 86_400_000


def say(memory: Memory, session: str, text: str, **more: Any) -> None:
    memory.remember(
        session=session,
        chat_type="direct",
        kind="interactive",
        sender_is_owner=True,
        messages=[
            {"role": "user", "content": text, "sender": "ann"},
            {"role": "assistant", "content": f"Noted: {text}"},
        ],
        **more,
    )


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    settings = Settings(data_dir=tmp_path / "data", retention_days=30)
    with Memory.open(settings=settings, clock=clock) as made:
        yield made
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_a_held_session_survives_ten_runs(memory: Memory, clock: FixedClock) -> None:
    """Ten runs, a month apart: every other session goes, the held one is complete to the end."""
    say(memory, "held", "I love granite.")
    assert memory.hold("held", reason="case 114").status == "held"
    before = memory.status()
    for number in range(10):
        say(memory, f"s{number}", f"Slate number {number}.")
        clock.advance(31 * DAY)
        report = memory.prune(trust_clock=True)
        assert (report.sessions, report.held) == (1, 1)
    after = memory.status()
    assert [after[name] for name in ("turns", "messages", "sessions")] == [
        before[name] for name in ("turns", "messages", "sessions")
    ]
    assert after["records"] == before["records"]
    assert {hit.layer for hit in memory.search("granite", max_results=10).hits} >= {"L0"}
    memory.release("held")
    assert memory.prune(trust_clock=True).turns == 1


def test_forgetting_refuses_whatever_is_held(memory: Memory, clock: FixedClock) -> None:
    """By whatever name: nothing of the call is forgotten, not even of sessions that are free. A pin does not refuse."""
    say(memory, "held", "I love granite.")
    say(memory, "free", "I love granite.")
    memory.hold("held")
    fact = memory.facts().named[0].reference
    token = next(row["token"] for row in memory.sessions() if row["session"] == "held")
    wishes: list[dict[str, Any]] = [
        {"sessions": ["free", "held"]},
        {"sessions": [token]},
        {"participants": ["ann"]},
        {"until": clock.ms / 1000 + 1},
        {"references": [fact]},
        {"references": [fact], "keep_turns": True},
        {"references": [f"sessions/{token}#L1"]},
    ]
    for wish in wishes:
        for dry_run in (True, False):
            with pytest.raises(errors.SessionHeld) as caught:
                memory.forget(dry_run=dry_run, **wish)
            assert token in caught.value.message and "granite" not in str(caught.value)
            assert "held" not in caught.value.message.replace("under a legal hold", "")
    assert memory.status()["turns"] == 2
    assert memory.forget(sessions=["free"]).turns == 1
    memory.release("held")
    memory.hold("held", kind="pin")
    assert memory.forget(sessions=["held"]).sessions == 1
    assert memory.holds() == []


def test_a_turn_that_waits_in_a_held_session_is_not_forgotten(memory: Memory, clock: FixedClock) -> None:
    """A stretch of time takes waiting turns too, and not those of a held session."""
    say(memory, "held", "It was granite.")
    memory.hold("held")
    clock.advance(DAY)
    store = apsw.Connection(memory.status()["store"])
    store.execute(
        "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state, admission, at)"
        " VALUES ('k', 'e', 'o', 'held', 'other', 'admitted', '{}', ?)",
        (clock.ms,),
    )
    with pytest.raises(errors.SessionHeld):
        memory.forget(since=clock.ms / 1000 - 10, until=clock.ms / 1000 + 10)
    assert store.execute("SELECT count(*) FROM turn_outbox").get == 1
    store.close()


def test_holding_listing_releasing(memory: Memory, clock: FixedClock) -> None:
    """Twice is once; a new reason is taken; hold and pin stand beside each other; what is not known is refused."""
    say(memory, "s", "It was granite.")
    token = memory.sessions()[0]["token"]
    assert memory.hold("s").status == "held"
    assert memory.hold(token, reason=" second ").status == "kept"
    clock.advance(1)
    assert memory.hold("s", kind="pin", reason="dear").status == "held"
    assert [(one.session, one.kind, one.reason) for one in memory.holds()] == [
        ("s", "legal", "second"), ("s", "pin", "dear"),
    ]  # fmt: skip
    assert (memory.release("s").status, memory.release("s").status) == ("released", "free")
    assert [one.kind for one in memory.holds()] == ["pin"]
    wrong: list[tuple[Any, ...]] = [
        ("unknown", "legal", None),
        ("s", "other", None),
        ("s", "pin", " "),
        ("s", "pin", 3),
    ]
    for session, kind, reason in wrong:
        with pytest.raises(errors.InvalidArgument):
            memory.hold(session, kind=kind, reason=reason)
    with pytest.raises(errors.InvalidArgument):
        memory.hold("s", reason="x" * 501)
    with pytest.raises(errors.InvalidArgument):
        memory.release("unknown")


def test_nothing_is_held_while_it_is_being_forgotten(memory: Memory, tmp_path: Path) -> None:
    """A hold that came too late would promise what cannot be kept."""
    say(memory, "s", "It was granite.")
    store = apsw.Connection(memory.status()["store"])
    store.execute("INSERT INTO forgetting_targets VALUES ('session', 999)")
    with pytest.raises(errors.StoreBusy):
        memory.hold("s")
    store.execute("DELETE FROM forgetting_targets")
    store.close()
    assert memory.hold("s").status == "held"


def test_the_database_itself_keeps_a_held_session(memory: Memory) -> None:
    """The last wall: whatever code tries, the row of a held session cannot go."""
    say(memory, "s", "It was granite.")
    memory.hold("s")
    store = apsw.Connection(memory.status()["store"])
    store.pragma("foreign_keys", True)
    with pytest.raises(apsw.ConstraintError):
        store.execute("DELETE FROM sessions")
    store.close()


def test_holds_go_along_in_an_export(memory: Memory, tmp_path: Path, clock: FixedClock) -> None:
    """With reason and time; once; a session that is held here otherwise stays so; version 1 had none and is read."""
    say(memory, "s", "It was granite.")
    memory.hold("s", reason="case 114")
    exported = tmp_path / "a.jsonl"
    memory.export(exported)
    settings = Settings(data_dir=tmp_path / "data", agent="copy", retention_days=30)
    with Memory.open(settings=settings, clock=clock) as copy:
        first = copy.import_jsonl(exported)
        assert (first.added["hold"], copy.holds()) == (1, memory.holds())
        second = copy.import_jsonl(exported)
        assert (second.present["hold"], second.status) == (1, "ok")
        copy.hold("s", reason="another")
        third = copy.import_jsonl(exported)
        assert (third.conflicts["hold"], copy.holds()[0].reason) == (1, "another")


def test_an_export_of_version_1_is_read(memory: Memory, tmp_path: Path, clock: FixedClock) -> None:
    """It had no holds and was otherwise the same; one that says version 1 and has them is refused."""
    say(memory, "s", "It was granite.")
    memory.export(tmp_path / "a.jsonl")
    header, *rest, _ = (json.loads(line) for line in (tmp_path / "a.jsonl").read_bytes().splitlines())

    def written(name: str, header: dict[str, Any]) -> Path:
        body = b"".join(json.dumps(line).encode() + b"\n" for line in (header, *rest))
        end = {"kind": "end", "lines": len(rest) + 1, "sha256": hashlib.sha256(body).hexdigest()}
        (tmp_path / name).write_bytes(body + json.dumps(end).encode() + b"\n")
        return tmp_path / name

    assert header["version"] == 2
    header["version"] = 1
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", agent="copy"), clock=clock) as copy:
        with pytest.raises(errors.ExportInvalid):
            copy.import_jsonl(written("wrong.jsonl", header))
        del header["counts"]["hold"]
        assert copy.import_jsonl(written("old.jsonl", header)).status == "ok"
        assert copy.status()["turns"] == 1


def test_a_disabled_memory_holds_and_prunes_nothing() -> None:
    """Every method answers, and nothing is made."""
    with Memory.open(settings=Settings(enabled=False)) as memory:
        assert memory.prune().status == "disabled"
        assert memory.hold("s").status == memory.release("s").status == "disabled"
        assert memory.holds() == []
