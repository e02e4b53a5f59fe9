"""What a message's content says in plain text: strings and lists of blocks, of any host.

Policy, the same for the string and the list form of everything: what a person or the agent said is text; hidden
reasoning, tool calls, images and files are not (they stay in the raw record); tool output is text only when the message
is nothing but tool output, and is then marked, so that L0 keeps it and the index leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite.errors import InvalidArgument

_SILENT: Final = frozenset(
    # hidden reasoning
    {"thinking", "redacted_thinking", "reasoning", "reasoning_text", "thought", "encrypted_content"}
    # calls of tools
    | {"tool_use", "server_tool_use", "mcp_tool_use", "toolCall", "tool_call", "toolUse", "function_call"}
    | {"custom_tool_call", "local_shell_call", "web_search_call", "functionCall"}
    # things that are not words
    | {"image", "image_url", "input_image", "output_image", "audio", "input_audio", "output_audio", "video", "file"}
    | {"input_file", "document", "container_upload", "base64"}
)
_TOOL_RESULTS: Final = frozenset(
    {"tool_result", "toolResult", "tool-result", "function_call_output", "custom_tool_call_output", "mcp_tool_result"}
    | {"web_search_tool_result", "code_execution_tool_result", "bash_code_execution_tool_result"}
)


def read_content(content: Any, where: str) -> tuple[str, bool]:
    """Plain text of ``content``, and whether it is tool output and nothing else.

    ``content`` is a string, ``None``, one block, or a list of strings and blocks; ``where`` names it in errors. Raises
    ``InvalidArgument`` for any other type; an odd block inside a list only loses itself.
    """
    if content is None:
        return "", False
    if isinstance(content, str):
        return content, False
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list | tuple):
        raise InvalidArgument(f"{where} must be a string or a list of blocks")
    spoken: list[str] = []
    output: list[str] = []
    has_results = has_others = False
    for block in content:
        if is_tool_result(block):
            has_results = True
            output.append(_result_text(block))
        else:
            has_others = True
            spoken.append(_block_text(block))
    only_results = has_results and not has_others
    return "\n".join(part for part in (output if only_results else spoken) if part), only_results


def is_tool_result(block: Any) -> bool:
    """Whether a block is what a tool gave back."""
    return isinstance(block, Mapping) and _type_of(block) in _TOOL_RESULTS


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping) or _type_of(block) in _SILENT or block.get("thought") is True:
        return ""
    for key in ("text", "refusal"):
        text = block.get(key)
        if isinstance(text, str):
            return text
    return ""


def _type_of(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def _result_text(block: Mapping[str, Any]) -> str:
    """Text of a tool result whose content is a string, a list, one block or nothing (C040)."""
    content = block.get("content", block.get("output"))
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else [content]
    return "\n".join(text for text in map(_block_text, parts) if text)
