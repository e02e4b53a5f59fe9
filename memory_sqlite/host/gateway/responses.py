"""Responses of the gateway's memory methods, as JSON-ready values.

Not here: what is answered (``methods``, ``file_methods``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Literal

from memory_sqlite import errors, limits
from memory_sqlite.host.gateway.requests import VERSION
from memory_sqlite.host.legacy_values import members
from memory_sqlite.runtime import manager_shapes

Response = dict[str, Any]


def success(payload: Mapping[str, Any]) -> Response:
    """A method's answer."""
    return {"ok": True, "payload": dict(payload)}


def failure(code: Literal["INVALID_REQUEST", "UNAVAILABLE"], message: str) -> Response:
    """Why there is none."""
    return {"ok": False, "error": {"code": code, "message": message}}


def unavailable(error: Exception, prefix: str = "") -> Response:
    """A failure behind the parsing, in the error's own words."""
    return failure("UNAVAILABLE", prefix + words_of(error)[: limits.GATEWAY_MESSAGE_CHARS])


def words_of(error: Exception) -> str:
    """An error's own words; its kind where it has none, or raises when it is asked for them."""
    if isinstance(error, errors.MemorySqliteError):
        return error.message
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def sayable(response: Response) -> Response:
    """The response, or that it is none: a plugin may have put something into it that JSON cannot say."""
    try:
        json.dumps(response, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return failure("UNAVAILABLE", "the memory plugin answered what JSON cannot say")
    return response


def version_2(agent_id: str, provider_id: str | None, provided: Mapping[str, Any]) -> dict[str, Any]:
    """What a provider said, and after it what the host knows: nothing that a provider says takes the host's place."""
    return {**provided, "version": VERSION, "agentId": agent_id, "providerId": provider_id}


def file_result(result: Any) -> Any:
    """A legacy manager's result as the contract's JSON, whatever object it is. Raises ``ProviderInvalid``."""
    known = isinstance(result, Mapping) or (is_dataclass(result) and not isinstance(result, type))
    said = result if known else members(result)
    if not said:
        raise errors.ProviderInvalid("memory runtime returned a hit that says nothing")
    return manager_shapes.wire(said)
