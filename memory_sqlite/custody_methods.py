"""The door's methods for keeping: retention, holds, backups.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: the work. Inherited by
``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings


class CustodyMethods:
    """What ``Memory`` can do of this kind."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # this is ``Memory``'s own

        def _enter(self) -> Opened | None: ...
