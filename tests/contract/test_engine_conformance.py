"""The conformance kit for context engines: ours passes, and engines that break a rule are caught by the check of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.context import conformance
from memory_sqlite.context.conformance import CHECKS, NEEDS, run_all
from memory_sqlite.context.shapes import AssembleResult, BootstrapResult, CommitResult, CompactResult, DeltaPage


class Ours:
    """Our engine over one memory."""

    features = frozenset({"following", "delegation"})

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def engine(self, *, read_delta: Any = None, compaction: Any = None) -> Any:
        return self.memory.context_engine(read_delta=read_delta, compaction=compaction)

    def remembered(self, session_key: str, session_id: str) -> Sequence[str]:
        page = self.memory.transcript_delta(session_key=session_key, session_id=session_id, cursor=None)
        return [str(entry.message["content"]) for entry in page.entries] if isinstance(page, DeltaPage) else []


@contextmanager
def ours() -> Iterator[Ours]:
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "data") as memory:
        yield Ours(memory)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_our_engine_passes(name: str) -> None:
    """Each check alone, as a third party's runner would call it."""
    CHECKS[name](ours)


def test_every_engine_check_is_listed() -> None:
    """A function that is written and not listed would never run; a feature is asked for by checks that there are."""
    assert {name for name in vars(conformance) if name.startswith("check_")} == set(CHECKS)
    assert set(NEEDS) <= set(CHECKS)


class Small:
    """An engine of a few lines that keeps all the rules, in memory: what the kit is written against besides ours."""

    def __init__(self, subject: Subject, read_delta: Any, compaction: Any) -> None:
        self.subject, self.read_delta, self.compaction = subject, read_delta, compaction
        self.behind: str | None = None

    async def commit_turn(self, *, advancement_key: str, messages: Any, **given: Any) -> Any:
        if advancement_key in self.subject.keys:
            return {"status": "duplicate"}
        self.subject.keys.add(advancement_key)
        self.subject.texts += [message["content"] for message in messages]
        return CommitResult("committed")

    async def assemble(self, *, messages: Any, token_budget: int, **given: Any) -> Any:
        kept: list[Any] = []
        for message in reversed(messages):
            if sum(len(one["content"]) for one in (*kept, message)) > token_budget:
                break
            kept.insert(0, message)
        return AssembleResult(tuple(kept), sum(len(one["content"]) for one in kept))

    async def compact(self, *, abort_signal: Any, **given: Any) -> Any:
        if abort_signal.aborted:
            return CompactResult(True, False, "aborted")
        stopped = asyncio.Event()
        abort_signal.on_abort(stopped.set)
        working = asyncio.ensure_future(self.compaction(**given))
        await stopped.wait()
        working.cancel()
        return CompactResult(True, False, "aborted")

    async def bootstrap(self, **given: Any) -> Any:
        while True:
            read = await self.read_delta(cursor=self.behind)
            if read.kind == "reset":
                self.behind = read.cursor
                continue
            if read.kind != "page":
                return BootstrapResult(False)
            self.subject.texts += [entry.message["content"] for entry in read.entries]
            self.behind = read.cursor
            if not read.has_more:
                return BootstrapResult(True)


class Subject:
    """The small engine's store."""

    features = frozenset({"following", "delegation"})
    kind: type[Small] = Small

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.texts: list[str] = []

    def engine(self, *, read_delta: Any = None, compaction: Any = None) -> Any:
        return self.kind(self, read_delta, compaction)

    def remembered(self, session_key: str, session_id: str) -> Sequence[str]:
        return self.texts


def made_of(engine: type[Small]) -> Callable[[], Any]:
    @contextmanager
    def make() -> Iterator[Any]:
        subject = Subject()
        subject.kind = engine
        yield subject

    return make


def test_a_small_engine_passes() -> None:
    """The kit asks for nothing that only ours has."""
    report = run_all(made_of(Small))
    assert report.findings == ()
    assert set(report.ran) == set(CHECKS) and report.not_run == ()


class Forgetful(Small):
    """Knows the keys of its own calls only."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.keys: set[str] = set()

    async def commit_turn(self, *, advancement_key: str, messages: Any, **given: Any) -> Any:
        if advancement_key in self.keys:
            return CommitResult("duplicate")
        self.keys.add(advancement_key)
        self.subject.texts += [message["content"] for message in messages]
        return CommitResult("committed")


class KeyFirst(Small):
    """Stores the key, waits, and stores the turn."""

    async def commit_turn(self, *, advancement_key: str, messages: Any, **given: Any) -> Any:
        if advancement_key in self.subject.keys:
            return CommitResult("duplicate")
        self.subject.keys.add(advancement_key)
        await asyncio.sleep(0)
        self.subject.texts += [message["content"] for message in messages]
        return CommitResult("committed")


class Rewriting(Small):
    """Takes what a repeat carries."""

    async def commit_turn(self, *, advancement_key: str, messages: Any, **given: Any) -> Any:
        known = advancement_key in self.subject.keys
        answer = await super().commit_turn(advancement_key=advancement_key, messages=messages)
        if known:
            self.subject.texts[-2:] = [message["content"] for message in messages]
        return answer


class Generous(Small):
    """Pays no heed to the budget."""

    async def assemble(self, *, messages: Any, token_budget: int, **given: Any) -> Any:
        return AssembleResult(tuple(messages), token_budget)


class Modest(Small):
    """Says that a prompt costs less than it does."""

    async def assemble(self, **given: Any) -> Any:
        return replace(await super().assemble(**given), estimated_tokens=1)


class Deaf(Small):
    """Hears no abort."""

    async def compact(self, **given: Any) -> Any:
        return await self.compaction(**given)


class Starting(Small):
    """Reads on from its own cursor after a reset."""

    async def bootstrap(self, **given: Any) -> Any:
        mine = self.behind
        read = await self.read_delta(cursor=mine)
        while read.kind == "page":
            self.subject.texts += [entry.message["content"] for entry in read.entries]
            self.behind = read.cursor
            if not read.has_more:
                break
            read = await self.read_delta(cursor=self.behind)
        return BootstrapResult(True)


class Insisting(Small):
    """Asks until the transcript is there, and gives up for good when it is told that it is not."""

    async def bootstrap(self, **given: Any) -> Any:
        if self.behind != "gone":
            await super().bootstrap(**given)
            self.behind = "gone"
        return BootstrapResult(True)


COMMITS = "check_first_commit_is_committed_and_repeats_are_duplicates"


@pytest.mark.parametrize(
    ("engine", "caught"),
    [
        (
            Forgetful,
            {COMMITS, "check_a_key_is_committed_once_by_many_at_once", "check_key_and_turn_are_stored_together"},
        ),
        (KeyFirst, {"check_key_and_turn_are_stored_together"}),
        (Rewriting, {COMMITS}),
        (Generous, {"check_assembled_messages_are_within_the_budget"}),
        (Modest, {"check_assembled_messages_are_within_the_budget"}),
        (Deaf, {"check_compact_does_nothing_for_who_has_aborted", "check_compact_stops_on_abort"}),
        (Starting, {"check_reset_rebuilds_from_the_new_cursor"}),
        (Insisting, {"check_reset_rebuilds_from_the_new_cursor", "check_unavailable_is_retried_later"}),
    ],
)
def test_engines_that_break_a_rule_are_caught(
    engine: type[Small], caught: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the checks that are named after it and by no other; each says the criterion's number."""
    if engine is Deaf:  # what hangs in it hangs for ever
        monkeypatch.setattr(conformance, "PATIENCE_S", 0.01)
    found = {finding.check: finding.why for finding in run_all(made_of(engine)).findings}
    assert set(found) == caught
    assert all(why.startswith("criterion 1") for why in found.values())


def test_what_an_engine_does_not_have_is_not_run_and_said() -> None:
    """An engine that reads no transcript and compacts by itself is not blamed for either."""

    class Alone(Deaf):
        async def bootstrap(self, **given: Any) -> Any:
            raise NotImplementedError  # no stub: the kit is told not to ask for what this engine lacks

        async def compact(self, *, abort_signal: Any, **given: Any) -> Any:
            abort_signal.raise_if_aborted()

    @contextmanager
    def make() -> Iterator[Any]:
        subject = Subject()
        subject.kind, subject.features = Alone, frozenset()  # type: ignore[misc]
        yield subject

    report = run_all(make)
    assert report.findings == ()
    assert set(report.not_run) == set(NEEDS)
