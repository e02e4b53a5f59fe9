"""Names and scopes of stated facts: what may be one, and by what such facts are known in the store.

Light, for asking needs it as well as stating: no masking, no normal forms (``stated``). Called by ``layers.stated`` and
``recall.facts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.text.units import utf16_length, valid_unicode

SLOT_PREFIX: Final = "stated:"
"""Slots of stated facts begin so: their names and scopes say when they are relevant."""
PINNED: Final = 10
"""Importance of a pinned fact, the highest there is; nothing else gives a record of L3 an importance."""


def check_label(value: object, where: str) -> str:
    """One name or scope, its white space folded. Raises ``InvalidArgument`` naming ``where``."""
    if not isinstance(value, str) or not value.strip():
        raise errors.InvalidArgument(f"{where} must be text that is not blank")
    if utf16_length(value) > limits.FACT_NAME_MAX_UNITS or "\0" in value or valid_unicode(value) != value:
        raise errors.InvalidArgument(
            f"{where} must be valid Unicode without NUL, at most {limits.FACT_NAME_MAX_UNITS} UTF-16 units"
        )
    return " ".join(value.split())


def check_labels(values: object, where: str, most: int) -> tuple[str, ...]:
    """At most so many names or scopes, each once. Raises ``InvalidArgument`` naming ``where``."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes) or len(values) > most:
        raise errors.InvalidArgument(f"{where} must be a list of at most {most} names")
    return tuple(dict.fromkeys(check_label(value, where) for value in values))


def check_scopes(scopes: object) -> tuple[str, ...]:
    """Scopes as a reader names them. Raises ``InvalidArgument``."""
    return check_labels(scopes, "scopes", limits.FACT_SCOPES_MAX)
