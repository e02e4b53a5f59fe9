"""What a recall pass admits, rule by rule, without a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_sqlite.runtime.callers import ConversationRecall
from memory_sqlite.runtime.recall_pass import Conversation, HitFacts, Requester, admits, is_valid

PASS = ConversationRecall("anchor", "sessions")
ME = Requester("main", "anchor", False)
ANCHOR = (Conversation("main", "anchor", True),)
OTHER = Conversation("main", "other", True)


def test_a_pass_is_good_for_its_anchor_and_those_made_to_recall_for_it() -> None:
    """The anchor itself, or its key with the suffix of twelve hex digits."""
    assert is_valid(PASS, ME, ANCHOR)
    assert is_valid(PASS, replace(ME, session_key="anchor:active-memory:0123456789ab"), ANCHOR)
    for key in (
        None,
        "",
        "other",
        "anchor:active-memory:0123456789a",
        "anchor:active-memory:0123456789abc",
        "anchor:active-memory:0123456789AB",
        "anchor:active-memory:0123456789ab:x",
        "xanchor:active-memory:0123456789ab",
    ):
        assert not is_valid(PASS, replace(ME, session_key=key), ANCHOR), key


@pytest.mark.parametrize(
    ("recall", "requester", "anchor"),
    [
        (PASS, replace(ME, sandboxed=True), ANCHOR),
        (PASS, ME, ()),
        (PASS, ME, (Conversation("main", "anchor", False),)),
        (PASS, ME, (*ANCHOR, Conversation("main", "alias", False))),
        (PASS, ME, (*ANCHOR, Conversation("other-agent", "alias", True))),
        (PASS, ME, (Conversation("other-agent", "anchor", True),)),
        (PASS, ME, (OTHER,)),
        (ConversationRecall("", "sessions"), replace(ME, session_key=""), (Conversation("main", "", True),)),
        (ConversationRecall("anchor", "all"), ME, ANCHOR),  # type: ignore[arg-type]
        (ConversationRecall("anchor", "sessions", "any"), ME, ANCHOR),  # type: ignore[arg-type]
    ],
)
def test_a_pass_is_no_good(recall: ConversationRecall, requester: Requester, anchor: tuple[Conversation, ...]) -> None:
    """In a sandbox, for an anchor that is unknown, not private or another agent's, of unknown scope or corpus."""
    assert not is_valid(recall, requester, anchor)


def test_hits_of_sessions_are_admitted_one_by_one() -> None:
    """All that a transcript is known as must be private and this agent's, and none the anchor."""
    assert admits(PASS, True, ME, HitFacts("sessions", (OTHER,)))
    for aliases in (
        (),
        (Conversation("main", "other", False),),
        (Conversation("else", "other", True),),
        (OTHER, Conversation("main", "room", False)),
        ANCHOR,
        (OTHER, *ANCHOR),
    ):
        assert not admits(PASS, True, ME, HitFacts("sessions", aliases))
    assert not admits(PASS, False, ME, HitFacts("sessions", (OTHER,))), "an invalid pass admits no session"
    assert not admits(PASS, True, ME, HitFacts("sessions", (OTHER,), deleted=True))
    assert admits(PASS, True, ME, HitFacts("sessions", ANCHOR, before_reset=True)), "said before the anchor's reset"


def test_what_is_no_session_goes_by_the_corpus() -> None:
    """Also with an invalid pass: ``configured`` keeps the rest, ``sessions`` nothing."""
    for valid in (True, False):
        assert not admits(PASS, valid, ME, HitFacts("memory"))
        assert admits(ConversationRecall("anchor", "configured"), valid, ME, HitFacts("memory"))
