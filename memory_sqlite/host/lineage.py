"""From an admitted session to its durable root, over what was recorded when each one was spawned.

Trust comes from the recorded receipts alone: neither the launching turn nor chat metadata copied to a child grants
anything. Every life on the way is leased, and all leases are given back when the walk is refused. Not here: what the
root means for an audience (``audiences``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory_sqlite import errors, limits
from memory_sqlite.host.leases import Lease, close_all
from memory_sqlite.host.session_rows import SessionRow, SessionRows, SpawnReceipt

_SESSION_ID = re.compile(r"[0-9a-f-]{36}")
_MALFORMED = "the session's lineage is malformed"


@dataclass(frozen=True)
class Root:
    """The durable root of a session: its row, whether its turn was the owner's, and the lives on the way to it."""

    row: SessionRow
    owner: bool
    leases: tuple[Lease, ...]


def agent_of_key(key: str) -> str | None:
    """Whose session a key ``agent:<id>:<rest>`` names; ``None`` for a key of another form, which grants nothing."""
    parts = key.split(":", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "agent" and parts[1] and parts[2] else None


def is_session_id(value: Any) -> bool:
    """Whether it has the form of a session id: 36 characters of lowercase hex or dash."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None


def malformed() -> errors.AudienceDenied:
    """The refusal of whatever is recorded in a form that nobody can trust."""
    return errors.AudienceDenied("ineligible", _MALFORMED)


async def walk(
    rows: SessionRows,
    agent_of: Callable[[str], str | None],
    *,
    agent_id: str,
    key: str,
    session_id: str,
    owner: bool,
    admitted: SessionRow | None,
) -> Root:
    """Walk from a session to its root. ``admitted`` is its row where the host has read it already.

    Raises ``AudienceDenied`` with the kind, and holds no lease then.
    """
    leases: list[Lease] = []
    try:
        row, owner = await _walk(rows, agent_of, agent_id, key, session_id, owner, admitted, leases)
        await rows.settled(lease.key for lease in leases)
        if any(lease.ended or lease.pending for lease in leases):
            raise errors.AudienceDenied("unverified", "a session of the lineage moved while it was resolved")
    except errors.AudienceDenied:
        close_all(leases)
        raise
    except Exception as error:
        # what storage says could name files or hold text: only the kind of failure is passed on
        close_all(leases)
        what = type(error).__name__
        raise errors.AudienceDenied("unverified", f"the session's lineage could not be read ({what})") from None
    except BaseException:
        close_all(leases)
        raise
    return Root(row, owner, tuple(leases))


async def _walk(
    rows: SessionRows,
    agent_of: Callable[[str], str | None],
    agent_id: str,
    key: str,
    session_id: str,
    owner: bool,
    admitted: SessionRow | None,
    leases: list[Lease],
) -> tuple[SessionRow, bool]:
    seen: set[str] = set()
    revision: str | None = None
    while True:
        if len(seen) == limits.LINEAGE_HOPS_MAX:
            raise errors.AudienceDenied("ineligible", "the session's lineage is too deep")
        if not isinstance(key, str) or agent_of(key) != agent_id or not is_session_id(session_id) or key in seen:
            raise malformed()
        row = admitted if admitted is not None and not seen else await _read(rows, key)
        if row is None or row.key != key or row.session_id != session_id:
            raise _gone(first=not seen)
        if seen and row.lifecycle_revision != revision:
            raise _gone(first=False)
        seen.add(key)
        leases.append(Lease(rows, key, row.incarnation))
        receipt: Any = row.spawned_by  # stored data: anything may be in it
        if receipt is None:
            return row, owner
        if not isinstance(receipt, SpawnReceipt):
            raise malformed()
        if receipt.owner is None or not receipt.parent_session_id:
            raise errors.AudienceDenied("stale-lineage", "the session predates lineage receipts; spawn it anew")
        if (
            not isinstance(receipt.owner, bool)
            or not isinstance(receipt.parent_key, str)
            or not receipt.parent_key
            or (row.navigation_parent is not None and row.navigation_parent != receipt.parent_key)
            or not is_session_id(receipt.parent_session_id)
            or receipt.parent_revision == ""
        ):
            raise malformed()
        key, session_id, revision = receipt.parent_key, receipt.parent_session_id, receipt.parent_revision
        owner = receipt.owner


async def _read(rows: SessionRows, key: str) -> SessionRow | None:
    await rows.settled([key])
    return await rows.read(key)


def _gone(*, first: bool) -> errors.AudienceDenied:
    if first:
        return errors.AudienceDenied("unverified", "the admitted session is not the one that is stored now")
    return errors.AudienceDenied("stale-lineage", "a session of the lineage was reset or removed; spawn it anew")
