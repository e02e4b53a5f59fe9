"""memory-sqlite: a local, layered, long-term memory engine for AI agents.

Importing this package loads nothing else: names are resolved on first use, so that a command starts fast.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_sqlite.async_memory import AsyncMemory
    from memory_sqlite.errors import MemorySqliteError
    from memory_sqlite.memory import Memory

__version__ = "0.1.0"
__all__ = ["AsyncMemory", "Memory", "MemorySqliteError", "__version__"]

if not os.path.isdir(os.path.join(__path__[0], "migrations")):  # noqa: PTH112, PTH118 - pathlib is not loaded for this
    # imported where it lies, by a Python started in a clone: there migrations/ and workers/ are beside this directory
    __path__.append(os.path.dirname(__path__[0]))  # noqa: PTH120

_HOMES = {
    "Memory": "memory_sqlite.memory",
    "AsyncMemory": "memory_sqlite.async_memory",
    "MemorySqliteError": "memory_sqlite.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
