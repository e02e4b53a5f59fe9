"""The tools a flush's model sees: for a file, ``read`` and an appending ``write``; else ``read`` and the owner's own.

Projection is by the plugin that registered a tool, never by name alone, and the source's tool policy holds after it.
Not here: what counts as done (``evidence``), the file itself (``target``). Called by ``run``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.host.flush.evidence import Evidence
from memory_sqlite.host.flush.plans import CompletePlan
from memory_sqlite.host.flush.shapes import BoundTool, FlushSourceTurn
from memory_sqlite.host.flush.target import Target
from memory_sqlite.runtime.plugins import Tool, ToolContext, ToolResult

_log = logging.getLogger("memory_sqlite.host.flush")

READ: Final = "read"
WRITE: Final = "write"
NONE_DECLARED: Final = "<none declared>"

_WRITE_DESCRIPTION: Final = (
    "Add text at the end of {path}, the only file that can be written here. What is in it stays; nothing is replaced."
)


@dataclass(frozen=True)
class Binding:
    """What every call of a flush is bound to: ``check`` raises when the flush is over or its audience lapsed."""

    context: ToolContext
    check: Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Declared:
    """The owner's tools that a plan declares and that are left after ownership and policy."""

    persistence: tuple[Tool, ...]
    lookup: tuple[Tool, ...]
    missing_persistence: tuple[str, ...]
    missing_lookup: tuple[str, ...]


def declared(plan: CompletePlan, owner_id: str, registered: Mapping[str, Tool], source: FlushSourceTurn) -> Declared:
    """Which of the tools a plan names there are. ``read`` is the host's name: no plugin's tool counts under it."""
    owned = {
        name: tool for name, tool in registered.items() if tool.plugin_id == owner_id and name not in (READ, WRITE)
    }

    def left(names: tuple[str, ...]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        there = tuple(owned[name] for name in names if name in owned and source.allows(name))
        return there, tuple(name for name in names if name not in {tool.name for tool in there})

    persistence, missing_persistence = left(plan.persistence_tool_names)
    lookup, missing_lookup = left(plan.lookup_tool_names)
    return Declared(persistence, lookup, missing_persistence, missing_lookup)


def tools_arm(tools: Declared, source: FlushSourceTurn, binding: Binding, evidence: Evidence) -> tuple[BoundTool, ...]:
    """``read`` and the declared tools, those that persist watched for evidence."""
    return (
        *_read(source, binding),
        *(_bound(tool, binding, evidence) for tool in tools.persistence),
        *(_bound(tool, binding) for tool in tools.lookup),
    )


def file_arm(target: Target, source: FlushSourceTurn, binding: Binding) -> tuple[tuple[BoundTool, ...], str | None]:
    """``read`` and ``write``, and a warning when policy left no ``write``; the flush runs all the same."""
    write: tuple[BoundTool, ...] = ()
    warning = None
    if source.carries_write and source.allows(WRITE):
        write = (_write(target, binding),)
    elif source.carries_write:
        warning = "no write tool survived"
        _log.warning("memory flush: %s", warning)
    return (*_read(source, binding), *write), warning


def _read(source: FlushSourceTurn, binding: Binding) -> tuple[BoundTool, ...]:
    return tuple(_bound(tool, binding) for tool in source.host_tools if tool.name == READ and source.allows(READ))[:1]


def _bound(tool: Tool, binding: Binding, evidence: Evidence | None = None) -> BoundTool:
    async def call(arguments: Mapping[str, Any]) -> ToolResult:
        await binding.check()
        result = await tool.run(arguments, binding.context)
        await binding.check()
        if not isinstance(result, ToolResult):
            raise errors.ProviderInvalid(f"the tool {tool.name} did not return a tool result")
        if evidence is not None:
            evidence.take(result)
        return result

    return BoundTool(tool.name, tool.description, tool.parameters, call)


def _write(target: Target, binding: Binding) -> BoundTool:
    async def call(arguments: Mapping[str, Any]) -> ToolResult:
        await binding.check()
        path, content = arguments.get("path", target.relative_path), arguments.get("content")
        if not isinstance(content, str) or not content.strip():
            return ToolResult("content must be text that is not blank", is_error=True)
        if not isinstance(path, str) or not target.names(path):
            return ToolResult(f"only {target.relative_path} can be written here", is_error=True)
        try:
            added = await asyncio.to_thread(target.append, content)
        except (errors.PathNotAllowed, errors.RecordTooLarge) as error:
            return ToolResult(error.message, is_error=True)
        except OSError as error:
            return ToolResult(f"the file could not be written ({error.strerror})", is_error=True)
        return ToolResult(f"Added to {target.relative_path}.", {"path": target.relative_path, "bytes": added})

    return BoundTool(
        WRITE,
        _WRITE_DESCRIPTION.format(path=target.relative_path),
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        call,
    )
