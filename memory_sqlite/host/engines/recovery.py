"""What a crash, a kill or a failing engine has left of a session, settled before its next run.

Turns that were only admitted go, because dispatching a run is not accepting its end; accepted ones are read and
delivered; blocked ones are told of and hold nobody up. Called by ``engine_host`` before each logical turn, and by a
host that starts alone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from memory_sqlite.host.engines.drain import Drain, DrainReport
from memory_sqlite.host.engines.outbox import TurnOutbox

_log: Final = logging.getLogger("memory_sqlite.host.engines.recovery")


async def discard_unaccepted(
    outbox: TurnOutbox, session_key: str | None = None, running: frozenset[str] = frozenset()
) -> int:
    """Give up turns that were only admitted, but for those that are running here; tell of blocked ones.

    For one session its host must know that nobody else runs it; without a session, that nobody else runs any.
    """
    gone = await asyncio.to_thread(outbox.discard_admitted, session_key, running)
    for _, reason in await asyncio.to_thread(outbox.blocked, session_key):
        _log.warning("a turn is blocked and was never given to its context engine (%s)", reason)
    return gone


async def deliver_all(drain: Drain, session_key: str | None = None) -> DrainReport:
    """Drain until nothing advances any more. Raises the store's errors."""
    report = await drain.run(session_key)
    while report.advanced:
        report = await drain.run(session_key)
    return report
