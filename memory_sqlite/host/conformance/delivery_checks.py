"""Checks of delivering accepted turns to their engine: once, whole, in order, over a crash (criteria 112, 116 to 120).

Not here: which turns are accepted (``engine_checks``).
"""

from __future__ import annotations

from memory_sqlite.context.conformance_kit import must
from memory_sqlite.host.conformance.engine_subject import IDS, OTHER, SESSION, MakeEngineHost, Theatre
from memory_sqlite.host.conformance.subject import run


def check_commit_gets_the_whole_turn_and_nothing_else(make: MakeEngineHost) -> None:
    """Criterion 112: from the user's message to the last answer, both included, under the logical turn's id."""

    async def work() -> None:
        stage = Theatre(make)
        await stage.whole("t1")
        await stage.whole("t2", SESSION, "looking it up", "it is grey")
        whole = ["question of t2", "looking it up", "it is grey"]
        seen = stage.engines.ledger.get("t2")
        must(seen == whole, f"criterion 112: of a turn of 3 messages {len(seen or ())} are committed")
        given = stage.engines.given("commit_turn")
        must(given["advancement_key"] == given["admission"].logical_turn_id == "t2", "criterion 112: another key")
        must(given["session_id"] == IDS[SESSION], "criterion 112: the commit names another session")

    run(work)


def check_an_unknown_status_keeps_the_turn_queued(make: MakeEngineHost) -> None:
    """Criterion 116: its attempts are counted, and it is delivered when the engine takes it."""

    async def work() -> None:
        stage = Theatre(make)
        stage.refusing()
        await stage.whole("t1")
        first = stage.host.kept("t1")
        must(first is not None and first[1] >= 1, f"criterion 116: after an unknown status the row is {first}")
        await stage.host.drain()
        second = stage.host.kept("t1")
        assert first is not None
        must(second is not None and second[1] > first[1], f"criterion 116: after one more the row is {second}")
        stage.refusing(False)
        await stage.host.drain()
        must(list(stage.engines.ledger) == ["t1"], "criterion 116: a queued turn is not delivered")
        must(stage.host.kept("t1") is None, "criterion 116: a delivered turn stays queued")

    run(work)


def check_turns_of_a_session_are_committed_in_order(make: MakeEngineHost) -> None:
    """Criterion 117: one that fails holds up those after it in its session, and no other session."""

    async def work() -> None:
        stage = Theatre(make)
        first = await stage.host.begin("a1", "first")
        second = await stage.host.begin("a2", "second")
        stage.refusing()
        await first.succeed("one")
        await second.succeed("two")
        await first.close()
        await second.close()
        must("a2" not in stage.commits(), "criterion 117: a later turn is delivered before one that failed")
        stage.refusing(False)
        await stage.whole("b1", OTHER)
        must("b1" in stage.engines.ledger, "criterion 117: a failure holds up another session")
        await stage.host.drain()
        order = [key for key in stage.engines.ledger if key != "b1"]
        must(order == ["a1", "a2"], f"criterion 117: turns of a session are committed in the order {order}")

    run(work)


def check_a_blocked_turn_delays_nobody(make: MakeEngineHost) -> None:
    """Criterion 118: a turn with an answer that is no JSON can never be delivered; the session goes on."""

    async def work() -> None:
        stage = Theatre(make)
        await stage.whole("t1", SESSION, object())
        kept = stage.host.kept("t1")
        must(kept is not None and kept[0] == "blocked", f"criterion 118: the row of an unreadable turn is {kept}")
        following = await stage.whole("t2")
        must(not following.legacy, "criterion 118: after a blocked turn the session runs on legacy")
        must(list(stage.engines.ledger) == ["t2"], "criterion 118: after a blocked turn none is committed")

    run(work)


def check_only_admitted_turns_are_discarded_at_recovery(make: MakeEngineHost) -> None:
    """Criterion 119: what had not ended when the process did is never committed, and holds up nobody."""

    async def work() -> None:
        stage = Theatre(make)
        turn = await stage.host.begin("t1", "hello")
        await turn.assemble()
        must(stage.host.kept("t1") == ("admitted", 0), "criterion 119: a turn that began is not kept as admitted")
        await stage.host.restart()
        must(stage.host.kept("t1") is None, "criterion 119: a turn that was only admitted is kept after recovery")
        following = await stage.whole("t2")
        must(not following.legacy, "criterion 119: a turn that was only admitted holds up the next")
        must(stage.commits() == ["t2"], f"criterion 119: committed are {stage.commits()}")

    run(work)


def check_accepted_turns_outlive_the_process(make: MakeEngineHost) -> None:
    """Criteria 116 and 117: what was accepted is delivered by the next process, once when its answer was lost."""

    async def work() -> None:
        def lost() -> None:
            params = stage.engines.given("commit_turn")
            contents = [message["content"] for message in params["messages"]]
            stage.engines.ledger.setdefault(params["advancement_key"], contents)
            raise ConnectionError("the answer is lost")

        stage = Theatre(make)
        stage.engines.before["commit_turn"] = lost
        await stage.whole("t1")
        must(stage.host.kept("t1") is not None, "criterion 116: a turn whose answer was lost is not kept")
        stage.engines.before.clear()
        await stage.host.restart()
        must(stage.host.kept("t1") is None, "criterion 117: an accepted turn is not delivered by the next process")
        must(stage.commits()[-2:] == ["t1", "t1"], "criterion 116: a turn whose answer was lost is not asked for again")
        must(len(stage.engines.ledger["t1"]) == 2, "criterion 112: after a crash it is not the whole turn")

    run(work)


def check_a_key_in_use_collides(make: MakeEngineHost) -> None:
    """Criterion 120: the second turn of a key never takes the first one's place, and its user keeps his turn."""

    async def work() -> None:
        stage = Theatre(make)
        first = await stage.host.begin("t1", "first")
        try:
            second = await stage.host.begin("t1", "second", session=OTHER)
        except Exception:  # a host may also refuse the turn
            pass
        else:
            must(second.legacy, "criterion 120: two turns of one key run on the engine")
            await second.succeed("two")
            await second.close()
        await first.succeed("one")
        await first.close()
        seen = stage.engines.ledger.get("t1")
        must(seen == ["first", "one"], "criterion 120: under a key in use another turn is committed, or none")
        must(stage.commits() == ["t1"], f"criterion 120: a key in use is committed {len(stage.commits())} times")

    run(work)


ALL = (
    check_commit_gets_the_whole_turn_and_nothing_else,
    check_an_unknown_status_keeps_the_turn_queued,
    check_turns_of_a_session_are_committed_in_order,
    check_a_blocked_turn_delays_nobody,
    check_only_admitted_turns_are_discarded_at_recovery,
    check_accepted_turns_outlive_the_process,
    check_a_key_in_use_collides,
)
