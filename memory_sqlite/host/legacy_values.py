"""Values of somebody else's legacy manager, read by name: an object's attributes or a mapping's keys.

Managers of older hosts answer with objects or with the contract's JSON, and leave out what they do not know. A value of
another type than the contract's counts as not said. Not here: what the values mean (``legacy``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from memory_sqlite.runtime.manager_shapes import camel


def value_of(thing: Any, name: str) -> Any:
    """A member by its Python name, or by the contract's; ``None`` where there is none."""
    for known in (name, camel(name)):
        if isinstance(thing, Mapping):
            if known in thing:
                return thing[known]
        elif hasattr(thing, known):
            return getattr(thing, known)
    return None


def text_of(thing: Any, name: str) -> str | None:
    """The same where it is a text."""
    value = value_of(thing, name)
    return value if isinstance(value, str) else None


def number_of(thing: Any, name: str) -> float | None:
    """The same where it is a finite number."""
    value = value_of(thing, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None


def whole_of(thing: Any, name: str) -> int | None:
    """The same where it is a whole number."""
    value = number_of(thing, name)
    return int(value) if value is not None and value == int(value) else None


def members(thing: Any) -> dict[str, Any]:
    """All members of a mapping or a dataclass by the contract's names, without those that are not said."""
    if isinstance(thing, Mapping):
        found = dict(thing)
    elif is_dataclass(thing) and not isinstance(thing, type):
        found = {one.name: getattr(thing, one.name) for one in fields(thing)}
    else:
        found = dict(getattr(thing, "__dict__", {}))
    return {camel(str(name)): value for name, value in found.items() if value is not None}
