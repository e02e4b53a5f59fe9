"""What messages cost in a prompt: by the tokenizer given, else by an upper bound; never by a mean.

The bound is the UTF-8 bytes of a text: a byte-level BPE (as of GPT, Llama 3 and Qwen) starts from bytes and only joins
them, so no text has more tokens than bytes, and SentencePiece falls back to bytes for what it does not know. Every text
in a message counts, with what a chat format puts around it. Not here: what is kept (``assemble``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.text.units import utf8_length

CountTokens = Callable[[str], int]
"""A tokenizer's count of the tokens of a text."""

_NOT_SENT: Final = frozenset(
    {"id", "entryId", "entry_id", "at", "timestamp", "usage", "stopReason", "api", "provider", "model", "responseId"}
    | {"idempotencyKey"}
)
"""What hosts note about a message beside it; no model is shown it."""
_IMAGES: Final = frozenset({"image", "image_url", "input_image", "output_image"})


class Counter:
    """Counts tokens. A tokenizer that fails, or answers with what is no count, is answered for by the bound."""

    def __init__(self, count_tokens: CountTokens | None = None, image_tokens: int = limits.IMAGE_TOKENS_MAX) -> None:
        self._count = count_tokens
        self._image_tokens = image_tokens

    def text(self, text: str) -> int:
        """Tokens of a text alone."""
        if self._count is not None and text:
            try:
                count = self._count(text)
            except Exception:  # a tokenizer of somebody's; the prompt must be made all the same
                count = -1
            if type(count) is int and count >= 0:
                return count
        return utf8_length(text)

    def addition(self, text: str) -> int:
        """Tokens of a text that is put into the system prompt."""
        return self.text(text) + limits.MESSAGE_OVERHEAD_TOKENS if text else 0

    def messages(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Tokens of messages, each with what is put around it."""
        return sum(self.message(message) for message in messages)

    def message(self, message: Mapping[str, Any]) -> int:
        """Tokens of one message: names and texts, however deep, blocks and calls among them."""
        total = limits.MESSAGE_OVERHEAD_TOKENS
        waiting: list[Any] = [value for key, value in message.items() if key not in _NOT_SENT]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                total += self.text(value)
            elif isinstance(value, Mapping):
                total += limits.PART_OVERHEAD_TOKENS
                if value.get("type") in _IMAGES:
                    total += min(_bytes_in(value), self._image_tokens)
                else:
                    total += sum(self.text(str(key)) for key in value)
                    waiting.extend(value.values())
            elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
                waiting.extend(value)
            elif value is not None:
                total += self.text(str(value))
        return total


def _bytes_in(block: Any) -> int:
    """UTF-8 bytes of all texts in a block, names included."""
    total = 0
    waiting = [block]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        else:
            total += utf8_length(str(value))
    return total
