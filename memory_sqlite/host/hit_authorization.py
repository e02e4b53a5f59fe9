"""What a legacy runtime lets a caller see of its manager's raw hits. Nobody sees a raw hit before this was asked.

Not here: calling the manager (``legacy``, ``consumers.legacy_lane``, ``gateway``), a runtime's own policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_sqlite import errors
from memory_sqlite.host.legacy_values import value_of
from memory_sqlite.host.racing import calling
from memory_sqlite.runtime.callers import SessionAuthority


async def authorized(
    runtime: Any,
    raw: Sequence[Any],
    *,
    config: Mapping[str, Any],
    agent_id: str,
    session: SessionAuthority | None,
) -> Sequence[Any]:
    """What the owner lets this caller see; ``session`` of ``None`` is the host or an operator. Without the runtime's
    word nothing that was said in a session is shown. Raises ``ProviderInvalid`` and what the runtime raises."""
    authorize = getattr(runtime, "authorize_search_hits", None)
    if not callable(authorize):
        return [one for one in raw if value_of(one, "source") != "sessions"]

    def ask() -> Any:
        return authorize(
            config=config,
            agent_id=agent_id,
            hits=raw,
            requester_session_key=session.session_key if session is not None else None,
            sandboxed=session.sandboxed if session is not None else False,
            trusted_agent_scope=session is None,
            conversation_recall=session.conversation_recall if session is not None else None,
        )

    return listed(await calling(ask), "authorize_search_hits")


def listed(answer: Any, method: str) -> Sequence[Any]:
    """A list of hits. Raises ``ProviderInvalid`` for what is none."""
    if not isinstance(answer, list | tuple):
        raise errors.ProviderInvalid(f"memory runtime {method} returned no list")
    return answer
