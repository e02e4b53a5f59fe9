"""Facts that a host states: a sentence with a name, other names, the scopes it holds in, pinned or not.

Lives here: what such a fact may be and its normal form, before anything is written. Pure. Not here: storing it
(``layers.stating``), finding it by its names (``recall.facts``), facts found in what was said (``layers.extract``).
Called by ``agent.stating``.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from memory_sqlite import errors, limits
from memory_sqlite.layers.labels import SLOT_PREFIX, check_label, check_labels
from memory_sqlite.text.frame import strip_frames
from memory_sqlite.text.secrets import mask
from memory_sqlite.text.units import cut_utf16, utf16_length, valid_unicode
from memory_sqlite.values import dataclass

FACT_KINDS: Final = ("preference", "identity", "instruction", "decision", "entity", "question", "relation")
"""What a stated fact may be. The first three are also what is found in talk."""

_WORD: Final = re.compile(r"[^\W_]+(?:\+\+|#)?")
"""``redis_cache`` and "Redis cache" are one name; ``C`` and ``C++`` are two."""
_KEYS: Final = frozenset({"content", "name", "aliases", "scopes", "kind", "pinned", "status"})


@dataclass(frozen=True, slots=True)
class Stated:
    """One stated fact, checked and masked. ``names`` are its name and its other names, as they were given."""

    content: str
    kind: str
    slot: str
    names: tuple[str, ...]
    scopes: tuple[str, ...]
    pinned: bool
    status: Literal["active", "superseded"]
    redactions: int = 0


def check(facts: object, *, redact: bool, is_name: Callable[[str], bool]) -> tuple[Stated, ...]:
    """Every fact of a call, or ``InvalidArgument`` naming the first that is none; a recalled block is left out.

    ``is_name`` tells whether there is a word in a name: by a name without one nothing would ever be found.
    """
    if not isinstance(facts, Sequence) or isinstance(facts, str | bytes):
        raise errors.InvalidArgument("facts must be a list of facts")
    if len(facts) > limits.FACTS_PER_CALL_MAX:
        raise errors.InvalidArgument(f"facts must be at most {limits.FACTS_PER_CALL_MAX} a call")
    found = [_check_one(fact, f"facts[{number}]", redact, is_name) for number, fact in enumerate(facts)]
    return tuple(fact for fact in found if fact is not None)


def slot_of(name: str | None, scopes: Sequence[str], content: str) -> str:
    """What a later statement must share to be about the same: the scopes and the name, or else the very sentence."""
    told = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    if name is not None:
        plain = unicodedata.normalize("NFKC", name).casefold()
        told = " ".join(_WORD.findall(plain)) or plain
    # no label holds these two: they are white space, which was folded
    return f"{SLOT_PREFIX}{chr(31).join(sorted(scopes))}{chr(30)}{told}"


def _check_one(fact: object, where: str, redact: bool, is_name: Callable[[str], bool]) -> Stated | None:
    if not isinstance(fact, Mapping):
        raise errors.InvalidArgument(f"{where} must be a mapping with content")
    if any(key not in _KEYS for key in fact):
        raise errors.InvalidArgument(f"{where} may hold {', '.join(sorted(_KEYS))} and nothing else")
    content, masked = _content(fact.get("content"), where, redact)
    if not content:
        return None
    kind = fact.get("kind", "preference")
    if kind not in FACT_KINDS:
        raise errors.InvalidArgument(f"{where}: kind must be one of {', '.join(FACT_KINDS)}")
    status = fact.get("status", "active")
    if status not in ("active", "superseded"):
        raise errors.InvalidArgument(f"{where}: status must be active or superseded")
    pinned = fact.get("pinned", False)
    if not isinstance(pinned, bool):
        raise errors.InvalidArgument(f"{where}: pinned must be true or false")
    given = fact.get("name")
    name = None if given is None else _masked(check_label(given, f"{where}: name"), redact)
    aliases = check_labels(fact.get("aliases", ()), f"{where}: aliases", limits.FACT_ALIASES_MAX)
    aliases = tuple(_masked(alias, redact) for alias in aliases)
    scopes = check_labels(fact.get("scopes", ()), f"{where}: scopes", limits.FACT_SCOPES_MAX)
    scopes = tuple(_masked(scope, redact) for scope in scopes)
    names = aliases if name is None else (name, *aliases)
    if not all(map(is_name, names)):
        raise errors.InvalidArgument(f"{where}: name and aliases must each hold a letter, a digit or a symbol")
    return Stated(
        content,
        str(kind),
        slot_of(name, scopes, content),
        tuple(dict.fromkeys(names)),
        scopes,
        pinned,
        cast(Literal["active", "superseded"], status),
        masked,
    )


def _content(value: Any, where: str, redact: bool) -> tuple[str, int]:
    if not isinstance(value, str) or not value.strip():
        raise errors.InvalidArgument(f"{where}: content must be text that is not blank")
    if utf16_length(value) > limits.FACT_CONTENT_MAX_UNITS:
        raise errors.InvalidArgument(f"{where}: content must be at most {limits.FACT_CONTENT_MAX_UNITS} UTF-16 units")
    text = " ".join(strip_frames(valid_unicode(value)).split())
    text, masked = mask(text) if redact else (text, 0)
    return cut_utf16(text, limits.FACT_CONTENT_MAX_UNITS), masked


def _masked(label: str, redact: bool) -> str:
    return mask(label)[0] if redact else label
