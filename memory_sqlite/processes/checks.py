"""Checked reading of JSON values: each function gives the value in its type or raises ``WireError`` naming the field.

Written out instead of a schema library, because a worker starts in 0.2 s and answers in 0.1 ms. Called by the codecs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from memory_sqlite.processes.frames import WireError

T = TypeVar("T")
Check = Callable[[object], T]


def text(value: object) -> str:
    """A string."""
    if isinstance(value, str):
        return value
    raise WireError("not a string")


def whole(value: object) -> int:
    """A whole number that SQLite can hold."""
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    raise WireError("not a whole number")


def count(value: object) -> int:
    """A whole number of at least 0."""
    found = whole(value)
    if found < 0:
        raise WireError("negative")
    return found


def number(value: object) -> float:
    """A finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise WireError("not a finite number")


def truth(value: object) -> bool:
    """A boolean."""
    if isinstance(value, bool):
        return value
    raise WireError("not a boolean")


def mapping(value: object) -> dict[str, Any]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise WireError("not an object")


def one_of(*allowed: str) -> Check[Any]:
    """One of these words."""
    known: Final = frozenset(allowed)

    def check(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise WireError("not one of the words allowed")

    return check


def optional(check: Check[T]) -> Check[T | None]:
    """``null``, or what ``check`` takes."""
    return lambda value: None if value is None else check(value)


def several(check: Check[T], at_most: int | None = None) -> Check[tuple[T, ...]]:
    """A list of what ``check`` takes."""

    def checked(value: object) -> tuple[T, ...]:
        if not isinstance(value, list) or (at_most is not None and len(value) > at_most):
            raise WireError("not a list, or a list too long")
        return tuple([check(item) for item in value])

    return checked


def numbers_by_name(value: object) -> Mapping[str, float]:
    """An object of finite numbers."""
    return {name: number(item) for name, item in mapping(value).items()}


def fields(value: object, table: Mapping[str, Check[Any]]) -> dict[str, Any]:
    """An object with exactly the fields of the table, each as its check gives it."""
    found = mapping(value)
    if found.keys() != table.keys():
        raise WireError("an object with other fields than agreed")
    return {name: _named(name, check, found[name]) for name, check in table.items()}


def row(value: object, table: Mapping[str, Check[Any]]) -> dict[str, Any]:
    """A list with the fields of the table in its order: an object without its names, for what travels by the dozen."""
    if not isinstance(value, list) or len(value) != len(table):
        raise WireError("a row with other fields than agreed")
    return {name: _named(name, check, item) for (name, check), item in zip(table.items(), value, strict=True)}


def _named(name: str, check: Check[Any], value: object) -> Any:
    try:
        return check(value)
    except WireError as error:
        raise WireError(f"{name}: {error}") from None
