"""Where the user's key comes from: named in the settings, read when it is needed, shown nowhere."""

from __future__ import annotations

from memory_sqlite.config import Settings
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Secret:
    """A place that a key can be read from."""

    variable: str


def from_settings(settings: Settings) -> Secret | None:
    """The place that the settings name, or ``None`` for a memory in clear. Reads nothing."""
    return Secret(settings.encryption_key_env) if settings.encryption_key_env is not None else None
