"""What a query gives: the result type of the door, and what callers may ask for. Called by ``query_methods``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_sqlite import errors, limits
from memory_sqlite.query.sql_text import is_unicode
from memory_sqlite.values import dataclass

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to one query.

    ``rows`` hold text, whole numbers, floats, bytes and ``None``; they are empty where they were handed to ``on_rows``,
    and ``row_count`` counts them either way. ``truncated`` says that there are more. ``plan`` is what ``explain`` asks
    for. ``files`` and ``bytes_read`` are what JSONL and transcripts took, unpacked.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    row_count: int = 0
    truncated: bool = False
    plan: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    files: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    disabled: bool = False


def checked_parameters(given: Sequence[Any] | Mapping[str, Any] | None) -> tuple[Any, ...] | dict[str, Any]:
    """Parameters as SQLite takes them. Raises ``QueryInvalid`` for what is none of its kinds."""
    if given is None:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | Mapping):
        raise errors.QueryInvalid("parameters are a list of values, or values by name")
    if len(given) > limits.QUERY_PARAMETERS_MAX:
        raise errors.QueryInvalid(f"there are more than {limits.QUERY_PARAMETERS_MAX} parameters")
    if isinstance(given, Mapping):
        return {_name(name): _value(value) for name, value in given.items()}
    return tuple(_value(value) for value in given)


def checked_bounds(max_rows: int, timeout_s: float, memory_bytes: int) -> None:
    """Raises ``InvalidArgument`` for a bound out of range."""
    for name, value, (low, high, _) in (
        ("max_rows", max_rows, limits.QUERY_ROWS),
        ("timeout_s", timeout_s, limits.QUERY_TIMEOUT_S),
        ("memory_bytes", memory_bytes, limits.QUERY_MEMORY_BYTES),
    ):
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise errors.InvalidArgument(f"{name} must be a number from {low} to {high}")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise errors.QueryInvalid("the name of a parameter is a text")
    return name.lstrip(":@$")


def _value(value: object) -> Any:
    if isinstance(value, str) and not is_unicode(value):
        raise errors.QueryInvalid("a parameter holds half a character")
    if value is None or isinstance(value, str | bytes | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    raise errors.QueryInvalid("a parameter is a text, a number of 64 bits, bytes or None")
