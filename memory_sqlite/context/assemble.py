"""What goes before a prompt within a token budget: the newest turns whole, what is recalled of the rest, in a frame.

First the newest turn and the messages it rests on; then up to a quarter of the room for what is recalled; then older
turns, newest first, until one does not fit. Nothing is ever over the budget: everything is counted, the frame too. Not
here: what a message costs (``budget``), what belongs together (``turn_units``), recall itself (``recalled``). Called by
the engine, in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.context.budget import Counter
from memory_sqlite.context.host_sessions import HostSession
from memory_sqlite.context.messages import words_of
from memory_sqlite.context.recalled import Item, Wanted, framed, recall
from memory_sqlite.context.shapes import AssembleResult
from memory_sqlite.context.shorten import shortened
from memory_sqlite.context.turn_units import holds_call, is_person, units
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.signals import AbortSignal

_RULES: Final = frozenset({"system", "developer"})
_SUMMARIES: Final = frozenset({"compactionSummary", "branchSummary"})


@dataclass(frozen=True)
class Prompt:
    """What a host wants a prompt of. ``budget`` in tokens; ``None`` for none. ``words`` are the prompt itself, which a
    host may add to the messages on its own."""

    session: HostSession
    messages: Sequence[Mapping[str, Any]]
    budget: int | None = None
    words: str | None = None
    signal: AbortSignal | None = None


@dataclass(frozen=True)
class _Kept:
    """Messages that are kept, what they cost, and how many older units were left out."""

    messages: list[Mapping[str, Any]]
    cost: int
    left_out: int


def assemble(rooms: AgentRooms, prompt: Prompt, counter: Counter) -> AssembleResult:
    """The messages and what is recalled beside them.

    Raises ``BudgetTooSmall`` when the newest turn does not fit even with its tool output shortened; a turn that has
    ended is left out instead where the prompt is another one, which the host adds. Raises ``Cancelled``.
    """
    head, turns = _parts(prompt.messages)
    must = _newest(head, turns, prompt.budget, counter, may_go=_is_history(turns, prompt.words))
    _stop(prompt.signal)
    newest = len(turns[-1]) if turns and not must.left_out else 0
    older = _Older([] if must.left_out else turns[:-1], counter)
    left = None if prompt.budget is None else prompt.budget - must.cost
    share = None if left is None else left // limits.ASSEMBLED_MEMORY_SHARE
    kept = older.within(None if left is None or share is None else left - share)
    shown = [*must.messages, *kept.messages]
    query = prompt.words if prompt.words and prompt.words.strip() else _last_words(prompt.messages)
    text = ""
    items: tuple[Item, ...] = ()
    if share is None or share > limits.MESSAGE_OVERHEAD_TOKENS:
        cancelled = prompt.signal.event if prompt.signal is not None else None
        words = frozenset(map(words_of, shown))
        is_part = kept.left_out > 0 or newest == 0 or any(one.get("role") in _SUMMARIES for one in head)
        items = recall(rooms, Wanted(prompt.session, query, words, is_part, cancelled))
        _stop(prompt.signal)
        text = framed(rooms, items, counter, share)
    spent = counter.addition(text)
    if left is not None and kept.left_out:
        kept = older.within(left - spent)  # what memory did not need
        seen = frozenset(map(words_of, kept.messages))
        text = framed(rooms, [item for item in items if item.words not in seen], counter, spent)
        spent = counter.addition(text)
    start = len(must.messages) - newest
    messages = (*must.messages[:start], *kept.messages, *must.messages[start:])
    return AssembleResult(messages, must.cost + kept.cost + spent, text or None, "assembled")


def _stop(signal: AbortSignal | None) -> None:
    if signal is not None:
        signal.raise_if_aborted()


def _parts(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[list[Mapping[str, Any]]]]:
    """What stands before everything (rules and a compaction's summary), and the units, oldest first."""
    count = 0
    while count < len(messages) and messages[count].get("role") in _RULES | _SUMMARIES:
        count += 1
    rest = messages[count:]
    return list(messages[:count]), [[rest[index] for index in unit] for unit in units(rest)]


def _newest(
    head: list[Mapping[str, Any]],
    turns: list[list[Mapping[str, Any]]],
    budget: int | None,
    counter: Counter,
    *,
    may_go: bool,
) -> _Kept:
    """What must be there: rules and the newest turn; a summary of what is older where it fits. A newest turn that is
    history (``may_go``) is left out where it does not fit even shortened, and with it all that is older."""
    newest = turns[-1] if turns else []
    cost = counter.messages(newest)
    whole = cost + counter.messages(head)
    if budget is None or whole <= budget:
        return _Kept([*head, *newest], whole, 0)
    rules = [message for message in head if message.get("role") in _RULES]
    beside = counter.messages(rules)
    if beside + cost > budget:
        cut = shortened(newest, lambda tried: beside + counter.messages(tried) <= budget)
        if cut is None and may_go and beside <= budget:
            return _Kept(rules, beside, len(turns))
        if cut is None:
            raise errors.BudgetTooSmall(f"the newest turn needs more than the {budget} tokens of the budget")
        newest, cost = cut, counter.messages(cut)
    return _Kept([*rules, *newest], beside + cost, 0)


def _is_history(turns: list[list[Mapping[str, Any]]], words: str | None) -> bool:
    """Whether the newest turn in the messages has ended, and the prompt is another that the host adds itself."""
    if not turns or words is None or not words.strip():
        return False
    last = turns[-1][-1]
    return (
        last.get("role") == "assistant" and not holds_call(last) and _last_words(turns[-1]) != " ".join(words.split())
    )


class _Older:
    """The turns before the newest; each is counted once."""

    def __init__(self, turns: list[list[Mapping[str, Any]]], counter: Counter) -> None:
        self._turns = turns
        self._counter = counter
        self._costs: list[int] = []

    def within(self, room: int | None) -> _Kept:
        """Whole units from the newest back, until one does not fit."""
        spent = count = 0
        while count < len(self._turns):
            if count == len(self._costs):
                self._costs.append(self._counter.messages(self._turns[-1 - count]))
            if room is not None and spent + self._costs[count] > room:
                break
            spent += self._costs[count]
            count += 1
        kept = self._turns[len(self._turns) - count :]
        return _Kept([message for unit in kept for message in unit], spent, len(self._turns) - count)


def _last_words(messages: Sequence[Mapping[str, Any]]) -> str:
    return next((words for message in reversed(messages) if is_person(message) and (words := words_of(message))), "")
