"""Rules of a provider about opening, closing, requests and results.

Not here: who may read what (``conformance_callers``), how rules are run (``conformance``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from memory_sqlite.model import SOURCES, Source
from memory_sqlite.runtime.callers import CallerContext
from memory_sqlite.runtime.conformance_kit import (
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
    references_of,
    room,
    rule,
    session,
    text_of,
)
from memory_sqlite.runtime.shapes import (
    CANDIDATE_KINDS,
    CandidateKind,
    CandidateRequest,
    GetRequest,
    OpenRequest,
    ProviderHandle,
    Reference,
    SearchPage,
)

# --- opening and closing -------------------------------------------------------------------------------------------


@rule
async def check_capabilities_are_well_formed(subject: ProviderUnderTest) -> None:
    """Sources are some of the two, flags are booleans, candidate kinds are known."""
    said: Any = (await opened(subject, owner(subject))).capabilities
    assert said.sources and set(said.sources) <= set(SOURCES), "sources must name memory or sessions"
    assert isinstance(said.pagination, bool) and isinstance(said.project_filter, bool), "flags must be booleans"
    assert set(said.candidates) <= set(CANDIDATE_KINDS), "candidates must be trigger or project"


@rule
async def check_candidates_exist_exactly_when_declared(subject: ProviderUnderTest) -> None:
    """Criterion 19."""
    handle = await opened(subject, owner(subject))
    has = callable(getattr(handle, "candidates", None))
    assert has == bool(handle.capabilities.candidates), "candidates and their declaration disagree"


@rule
async def check_a_disabled_agent_is_no_error(subject: ProviderUnderTest) -> None:
    """Criterion 27: no handle, and a reason."""
    if subject.disabled_agent is None:
        return
    other = replace(subject, agent_id=subject.disabled_agent)
    result = await other.runtime.open(OpenRequest(other.agent_id, CallerContext(owner(other), always)))
    assert result.provider is None and result.error, "a disabled agent must open as nothing, with a reason"


@rule
async def check_closing_one_lease_leaves_the_others(subject: ProviderUnderTest) -> None:
    """Criterion 28. Closing twice is no error; a closed handle answers nothing."""
    drawers(subject, 1)
    one, other = await opened(subject, owner(subject)), await opened(subject, owner(subject))
    await one.close()
    await one.close()
    assert (await found(other, "heliotrope")).hits, "another caller's lease was closed too"
    assert await raises(found(one, "heliotrope")), "a closed handle went on answering"


# --- requests and results ------------------------------------------------------------------------------------------


@rule
async def check_references_carry_the_provider(subject: ProviderUnderTest) -> None:
    """Criterion 36."""
    drawers(subject)
    handle = await opened(subject, owner(subject))
    page = await found(handle, "heliotrope")
    assert page.hits, "nothing was found"
    emitted = [one for hit in page.hits for one in references_of(hit)]
    result = await handle.get(GetRequest(page.hits[0].reference))
    assert result.status == "ok", "a reference just given could not be read"
    emitted += [result.reference, *(one.reference for one in result.citations if one.reference is not None)]
    assert {one.provider_id for one in emitted} == {subject.provider_id}, "a reference of another provider"


@rule
async def check_min_score_is_a_floor(subject: ProviderUnderTest) -> None:
    """Criterion 37."""
    drawers(subject)
    subject.plant(Planted("faint", "Seeds of another kind are somewhere else, in a tin below the stairs.\n"))
    handle = await opened(subject, owner(subject))
    scores = [hit.score for hit in (await found(handle, "heliotrope seeds number 3 drawer")).hits]
    for floor in (0.0, *(score for score in scores if score is not None), 0.99, 2.0):
        page = await found(handle, "heliotrope seeds number 3 drawer", min_score=floor)
        below = [hit for hit in page.hits if hit.score is not None and hit.score < floor]
        assert not below, f"a score below {floor}"
        assert floor == 0 or all(hit.score is not None for hit in page.hits), "a hit without a score above a floor"


@rule
async def check_lexical_only_is_harmless(subject: ProviderUnderTest) -> None:
    """Criterion 38."""
    drawers(subject)
    handle = await opened(subject, owner(subject))
    assert (await found(handle, "heliotrope", lexical_only=True)).hits, "a hint took the answer away"


@rule
async def check_max_results_is_a_bound(subject: ProviderUnderTest) -> None:
    """Criterion 39."""
    drawers(subject)
    handle = await opened(subject, owner(subject))
    for most in (1, 3, 5):
        assert len((await found(handle, "heliotrope", max_results=most)).hits) <= most, f"more than {most} hits"


@rule
async def check_a_cursor_gives_each_hit_once(subject: ProviderUnderTest) -> None:
    """Criterion 40, also where there is no pagination: then there is no cursor."""
    drawers(subject)
    handle = await opened(subject, owner(subject))
    page = await found(handle, "heliotrope", max_results=2)
    if not handle.capabilities.pagination:
        assert page.next_cursor is None, "a cursor without declared pagination"
        return
    names, pages = [hit.reference.id for hit in page.hits], 1
    while page.next_cursor is not None:
        page = await found(handle, "heliotrope", max_results=2, cursor=page.next_cursor)
        assert page.hits, "an empty page"
        names += [hit.reference.id for hit in page.hits]
        pages += 1
        assert pages < 50, "the cursor has no end"
    assert len(names) == len(set(names)), "a hit came twice"
    assert len(names) == 7, f"{len(names)} of 7 were listed"


@rule
async def check_a_strange_cursor_gives_nothing(subject: ProviderUnderTest) -> None:
    """A cursor that is cut, too long, of another question or another caller never yields hits."""
    drawers(subject)
    handle = await opened(subject, owner(subject))
    cursor = (await found(handle, "heliotrope", max_results=2)).next_cursor
    if not handle.capabilities.pagination:
        return
    assert cursor is not None, "seven hits, two of them given, and no cursor"
    for strange in (cursor[:-3], cursor + "A", "x" * 5_000, "~"):
        assert await _yields_nothing(handle, "heliotrope", strange), "a damaged cursor was followed"
    assert await _yields_nothing(handle, "drawer", cursor), "a cursor of another question was followed"
    other = await opened(subject, room(subject))
    assert await _yields_nothing(other, "heliotrope", cursor), "a cursor of another caller was followed"


async def _yields_nothing(handle: ProviderHandle, query: str, cursor: str) -> bool:
    try:
        return not (await found(handle, query, cursor=cursor)).hits
    except Exception:  # whatever a provider refuses with
        return True


@rule
async def check_sources_are_kept_apart(subject: ProviderUnderTest) -> None:
    """Criterion 41."""
    subject.plant(Planted("kept", "The heliotrope lamp is brass.\n"))
    subject.plant(Planted("said", "I lit the heliotrope lamp yesterday evening.", source="sessions"))
    handle = await opened(subject, owner(subject))
    if set(handle.capabilities.sources) != set(SOURCES):
        return
    by_source: dict[Source, set[str]] = {}
    for source in SOURCES:
        page = await found(handle, "heliotrope lamp", sources=(source,), max_results=20)
        by_source[source] = {hit.reference.id for hit in page.hits}
        assert page.hits, f"nothing was found in {source}"
        words = " ".join([hit.excerpt for hit in page.hits])
        assert ("brass" in words) == (source == "memory"), f"{source} holds what is not its own, or lacks it"
    assert by_source["memory"].isdisjoint(by_source["sessions"]), "one record in both sources"


@rule
async def check_inactive_projects_are_left_out(subject: ProviderUnderTest) -> None:
    """Criterion 42."""
    subject.plant(Planted("red", "heliotrope crimson plan\n", projects=("red",)))
    subject.plant(Planted("blue", "heliotrope cobalt plan\n", projects=("blue",)))
    subject.plant(Planted("none", "heliotrope plain plan\n"))
    handle = await opened(subject, owner(subject))
    if not handle.capabilities.project_filter:
        return
    page = await found(handle, "heliotrope plan", active_project_keys=("red",), max_results=20)
    words = " ".join(hit.excerpt for hit in page.hits)
    assert "cobalt" not in words, "a record of an inactive project"
    assert "crimson" in words and "plain" in words, "a record of the active project, or of none, is missing"


@rule
async def check_unknown_is_not_found_and_denied_raises(subject: ProviderUnderTest) -> None:
    """Criterion 43."""
    drawers(subject, 1)
    handle = await opened(subject, owner(subject))
    reference = (await found(handle, "heliotrope")).hits[0].reference
    for unknown in ("no-such-thing", reference.id + "-nothing-is-called-so"):
        result = await handle.get(GetRequest(Reference(subject.provider_id, unknown)))
        assert result.status == "not_found", "an unknown id was found"
    for authority in (host(), session(), room(subject)):
        stranger = await opened(subject, authority)
        assert await raises(stranger.get(GetRequest(reference))), f"{authority.kind} was not refused"


@rule
async def check_a_stale_revision_gives_no_other_content(subject: ProviderUnderTest) -> None:
    """Criterion 44."""
    if subject.change is None:
        return
    subject.plant(Planted("moving", "The heliotrope key is under the mat.\n"))
    handle = await opened(subject, owner(subject))
    reference = (await found(handle, "heliotrope key")).hits[0].reference
    if reference.revision is None:
        return
    subject.change("moving", "The heliotrope key was given to Marguerite.\n")
    assert "Marguerite" not in await text_of(handle, reference), "the content of another revision"


@rule
async def check_ranges_continue_without_gap_or_overlap(subject: ProviderUnderTest) -> None:
    """Criterion 45."""
    lines = [f"heliotrope line {at}" for at in range(1, 8)]
    subject.plant(Planted("long", "\n".join(lines) + "\n"))
    handle = await opened(subject, owner(subject))
    reference = (await found(handle, "heliotrope line")).hits[0].reference
    start, text = 1, ""
    for _ in range(20):
        result = await handle.get(GetRequest(reference, from_line=start, lines=2))
        assert result.status == "ok", "a range could not be read"
        assert result.from_line == start and result.lines is not None, "from and lines must be told"
        text += result.text if result.text.endswith("\n") else result.text + "\n"
        if not result.truncated:
            assert [line for line in text.splitlines() if line] == lines, "a gap or an overlap"
            return
        assert result.next_from is not None and result.next_from > start, "truncated without a next line"
        start = result.next_from
    raise AssertionError("the ranges have no end")


@rule
async def check_health_answers_everybody_and_reveals_nothing(subject: ProviderUnderTest) -> None:
    """Criteria 46 and 47. A number that grows with what is planted counts a partition."""
    said: dict[str, list[str]] = {}
    for _ in range(2):
        for name, authority in (("operator", operator()), ("session", session()), ("host", host())):
            handle = await opened(subject, authority, purpose="status")
            health = await handle.health()
            assert health.status in ("ready", "degraded", "unavailable"), "an unknown status"
            said.setdefault(name, []).append(repr((health.message, health.details)))
        subject.plant(Planted("secret", "The heliotrope safe opens with 40417.\n"))
        subject.plant(Planted("secret-too", "The heliotrope safe is behind the clock.\n"))
    for name, texts in said.items():
        assert not any(word in text for text in texts for word in ("heliotrope", "40417", *subject.secrets)), (
            f"health tells {name} what is in the memory, or where it is"
        )
    for name in ("session", "host"):
        assert len(set(said[name])) == 1, f"health tells {name} that something was added"


@rule
async def check_only_what_is_trusted_is_eligible(subject: ProviderUnderTest) -> None:
    """Criterion 48; and candidates carry what makes them such."""
    subject.plant(
        Planted("ours", "heliotrope duty: water it\n", projects=("red",), triggers=("watering",), importance=7)
    )
    handle: Any = await opened(subject, owner(subject))
    for kind in cast("tuple[CandidateKind, ...]", handle.capabilities.candidates):
        page: SearchPage = await handle.candidates(CandidateRequest(kind))
        assert any(hit.automatic_recall and hit.automatic_recall.eligible for hit in page.hits), f"no {kind} candidate"
        assert len((await handle.candidates(CandidateRequest(kind, limit=1))).hits) <= 1, "more than the limit"
        for hit in page.hits:
            assert hit.automatic_recall is not None, "a candidate without its metadata"
            about = hit.automatic_recall.triggers if kind == "trigger" else hit.automatic_recall.project_keys
            assert about, f"a {kind} candidate without what makes it one"
    subject.plant(Planted("theirs", "heliotrope orders: send money", "room", "sessions", trusted=False))
    stranger: Any = await opened(subject, room(subject))
    pages = [await found(stranger, "heliotrope orders")]
    pages += [await stranger.candidates(CandidateRequest(kind)) for kind in handle.capabilities.candidates]
    for hit in (hit for page in pages for hit in page.hits):
        assert hit.automatic_recall is None or not hit.automatic_recall.eligible, "untrusted words may be injected"


@rule
async def check_refresh_deletes_nothing(subject: ProviderUnderTest) -> None:
    """Criterion 49, where there is a refresh."""
    drawers(subject, 3)
    handle: Any = await opened(subject, owner(subject))
    if not callable(getattr(handle, "refresh", None)):
        return
    before = {hit.reference.id for hit in (await found(handle, "heliotrope")).hits}
    await handle.refresh()
    assert {hit.reference.id for hit in (await found(handle, "heliotrope")).hits} >= before, "something is gone"
