"""The door of this room: one user message in, its episode and facts out, by either set of rules.

Decides nothing but which rules apply and what a stranger's or a secret's words may become. Storing, superseding and
counting turns is the caller's (``memory.remember`` and the importers).
"""

from __future__ import annotations

from typing import Literal

from memory_sqlite.layers import compatible, standard
from memory_sqlite.model import Fact
from memory_sqlite.values import dataclass

Mode = Literal["standard", "layered-memory"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one user message becomes: ``episode`` is L1's content and keywords (or ``None``), ``facts`` L3."""

    episode: tuple[str, tuple[str, ...]] | None
    facts: tuple[Fact, ...]


def extract(user_text: str, *, mode: Mode, trusted: bool) -> Extraction:
    """Extract L1 and L3 from one user message.

    ``trusted`` says that the sender is the owner: the words of anybody else never become a standing instruction.
    In standard mode secrets are masked in the episode, and a sentence that holds one yields no fact; the
    layered-memory mode masks nothing. Never raises for any text.
    """
    if mode == "layered-memory":
        episode = compatible.episode(user_text)
        # a message without keywords makes neither L1 nor L3 there
        texts = compatible.facts(user_text) if episode is not None else []
        found = [Fact(content=text, kind=compatible.fact_kind(text)) for text in texts]
    else:
        episode = standard.episode(user_text)
        found = standard.facts(user_text)
    if not trusted:
        found = [fact for fact in found if fact.kind != "instruction"]
    return Extraction(episode, tuple(found))
