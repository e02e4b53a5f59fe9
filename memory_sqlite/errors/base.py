"""The base of every error, and the catalogue that is made of them."""

from __future__ import annotations

from typing import ClassVar


class MemorySqliteError(Exception):
    """Base of every error this package raises on purpose.

    ``code`` is stable and machine-readable, ``exit_code`` is what the command line exits with, ``retryable`` says
    whether the same call can succeed later without anyone changing anything, ``hint`` is the next step for a person.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint if hint is not None else self.default_hint


def _subclasses(base: type[MemorySqliteError]) -> list[type[MemorySqliteError]]:
    found: list[type[MemorySqliteError]] = []
    for child in base.__subclasses__():
        found.append(child)
        found.extend(_subclasses(child))
    return found


def catalogue() -> dict[str, type[MemorySqliteError]]:
    """Every error by its code, in definition order."""
    return {error.code: error for error in _subclasses(MemorySqliteError)}
