"""Rules of a provider about who may read what, and for how long.

Not here: requests and results (``conformance_requests``), how rules are run (``conformance``).
"""

from __future__ import annotations

from memory_sqlite.runtime.callers import CallerContext, OwnerPrivateAudience
from memory_sqlite.runtime.conformance_kit import (
    OTHER_ROOM,
    ROOM,
    Currency,
    Lapsed,
    Planted,
    ProviderUnderTest,
    always,
    drawers,
    found,
    host,
    opened,
    operator,
    owner,
    raises,
    readable,
    room,
    rule,
    session,
)
from memory_sqlite.runtime.shapes import GetRequest, OpenRequest, SearchRequest
from memory_sqlite.runtime.signals import AbortSignal

# --- authority and audience ----------------------------------------------------------------------------------------


@rule
async def check_who_has_no_grant_reads_nothing(subject: ProviderUnderTest) -> None:
    """Criteria 51 and 52, and an operator without the scope to read. A refusal is told: a warning, or an error."""
    drawers(subject, 2)
    subject.plant(Planted("talk", "the heliotrope was discussed in the room", "room", "sessions"))
    for authority in (host(), session(), session(key=ROOM), operator("operator.write")):
        handle = await opened(subject, authority)
        assert not await readable(handle, "heliotrope", "heliotrope"), f"{authority.kind} read private memory"
        try:
            page = await found(handle, "heliotrope")
        except Exception:  # whatever a provider refuses with
            continue
        assert page.warning, f"{authority.kind} was refused without a word"


@rule
async def check_an_audience_of_another_agent_is_rejected(subject: ProviderUnderTest) -> None:
    """Criterion 53."""
    drawers(subject, 1)
    authority = session(OwnerPrivateAudience(subject.agent_id + "-other"))
    context = CallerContext(authority, always)
    try:
        result = await subject.runtime.open(OpenRequest(subject.agent_id, context))
    except Exception:  # whatever a provider refuses with
        return
    if result.provider is not None:
        assert not await readable(result.provider, "heliotrope", "heliotrope"), "read with another agent's audience"


@rule
async def check_a_conversation_reads_only_itself(subject: ProviderUnderTest) -> None:
    """Criterion 54."""
    subject.plant(Planted("private", "The heliotrope is in the owner's cellar.\n"))
    subject.plant(Planted("here", "somebody asked for the heliotrope on the terrace", "room", "sessions"))
    subject.plant(Planted("there", "somebody sold the heliotrope at the harbour", "other-room", "sessions"))
    for key, own, others in ((ROOM, "terrace", ("cellar", "harbour")), (OTHER_ROOM, "harbour", ("cellar", "terrace"))):
        handle = await opened(subject, room(subject, key))
        assert await readable(handle, "heliotrope", own), "a conversation cannot read itself"
        for word in others:
            assert not await readable(handle, f"heliotrope {word}", word), "a conversation read beyond itself"


@rule
async def check_a_lapsed_caller_gets_nothing(subject: ProviderUnderTest) -> None:
    """Criteria 58 and 59: whenever currency lapses, the call raises; and no signal is needed for that."""
    drawers(subject, 2)
    signal = AbortSignal()
    for at in range(1, 60):
        current = Currency(lapses_at=at)
        try:
            handle = await opened(subject, owner(subject), current=current, signal=signal)
            page = await found(handle, "heliotrope")
            result = await handle.get(GetRequest(page.hits[0].reference))
        except Lapsed:
            continue
        assert not current.lapsed, "the check was made, it failed, and the answer was given all the same"
        assert result.status == "ok" and current.calls >= 3, "currency is not checked around each call"
        current.lapsed = True
        assert await raises(handle.search(SearchRequest("heliotrope"))), "a revoked caller was answered"
        assert await raises(handle.get(GetRequest(page.hits[0].reference))), "a revoked caller read on"
        assert not signal.aborted, "the check aborted the caller's signal"
        await handle.close()
        return
    raise AssertionError("a call that asks for currency without end")
