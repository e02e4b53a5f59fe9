"""Rollouts of Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``.

Lines ``{"timestamp","type","payload"}``: ``session_meta`` (id, cwd, source), ``response_item`` (``message`` with
``input_text`` or ``output_text`` blocks, ``function_call`` and ``function_call_output`` and their custom and shell
kin, ``reasoning``), ``event_msg``, ``turn_context``, ``compacted``. Older files have no envelope: the first line is the
bare session meta and each following line a bare item. Source: the host's public source and descriptions of real files.

Ignored: ``event_msg`` (a second copy for the screen of what ``response_item`` says), ``reasoning`` (hidden), and copies
of other sessions' meta in forked rollouts. Text that the host put into the user role (environment, instructions,
notifications) and the ``developer`` role become ``system``. Sessions are the owner's own and direct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite.clock import parse_time
from memory_sqlite.model import SessionInfo
from memory_sqlite.sources.jsonl import Line
from memory_sqlite.sources.transcript_formats.context import Context, as_mapping, project_of, type_of, usable_key
from memory_sqlite.sources.transcript_formats.items import Ignored, Item

NAME: Final = "codex"

_ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_HOST_OPENINGS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<skill>",
    "<skills_instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
)


def recognises(value: Mapping[str, Any]) -> bool:
    """An envelope, a bare item, or the bare session meta of older files."""
    kind = value.get("type")
    if isinstance(kind, str):
        if kind in _ENVELOPES:
            return isinstance(value.get("payload"), dict)
        return kind in _CALLS or kind in _OUTPUTS or (kind == "message" and _has_codex_blocks(value.get("content")))
    return value.get("record_type") == "state" or ("instructions" in value and "id" in value and "timestamp" in value)


def _has_codex_blocks(content: object) -> bool:
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in ("input_text", "output_text") for block in content
    )


class CodexReader:
    """Reads enveloped and bare items alike."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._session = self._describe({})
        self._has_meta = False

    def read(self, value: Mapping[str, Any], line: Line) -> list[Item]:
        """Raises ``InvalidArgument`` for a message that cannot be one."""
        kind, item = type_of(value), value
        if kind in _ENVELOPES:
            item = as_mapping(value.get("payload"))
        if kind == "session_meta" or (kind is None and "record_type" not in value and "id" in value):
            if not self._has_meta:
                self._has_meta = True
                self._session = self._describe(item, value.get("timestamp"))
            return [Ignored(line.number)]
        said = self._said(item) if kind == "response_item" or kind not in _ENVELOPES else None
        if said is None:
            return [Ignored(line.number)]
        message, entry_ids = said
        times = (value.get("timestamp"), item.get("timestamp"))
        return [self._context.speak(self._session, line, message, record=value, times=times, entry_ids=entry_ids)]

    def finish(self) -> list[Item]:
        return []

    def _describe(self, meta: Mapping[str, Any], timestamp: object = None) -> SessionInfo:
        source = meta.get("source")
        is_subagent = "subagent" in source if isinstance(source, dict | str) else False
        return SessionInfo(
            self._context.session_key(meta.get("id")),
            chat_type="direct",
            kind="subagent" if is_subagent else "interactive",
            sender_is_owner=not is_subagent,
            project=project_of(meta.get("cwd")),
            started_at=parse_time(meta.get("timestamp")) or parse_time(timestamp),
        )

    def _said(self, item: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """The message in an item and the ids of its entry; a call and its output share ``call_id`` and differ here."""
        kind, own_id = type_of(item), usable_key(item.get("id"))
        if kind == "message":
            role = item.get("role")
            if role == "developer" or (role == "user" and _is_host_text(item.get("content"))):
                role = "system"
            said = {"role": role, "content": item.get("content"), "id": own_id}
            return said, (own_id,) if own_id else ()
        call_id = usable_key(item.get("call_id")) or own_id
        if kind in _CALLS:
            return {"role": "assistant", "content": None}, (f"{call_id}:call",) if call_id else ()
        if kind in _OUTPUTS:
            output = item.get("output")
            if isinstance(output, dict):
                output = output.get("content")
            return {"role": "tool", "content": output}, (f"{call_id}:output",) if call_id else ()
        return None


def _is_host_text(content: Any) -> bool:
    """Whether all text of a user item was written by the host."""
    blocks = content if isinstance(content, list) else [content]
    texts = [text for block in blocks if isinstance(text := as_mapping(block).get("text", block), str) and text.strip()]
    return bool(texts) and all(text.lstrip().startswith(_HOST_OPENINGS) for text in texts)
