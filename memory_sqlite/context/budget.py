"""What messages cost in a prompt: by the tokenizer given, else by an upper bound; never by a mean.

The bound is the UTF-8 bytes of a text: a byte-level BPE (as of GPT, Llama 3 and Qwen) starts from bytes and only joins
them, so no text has more tokens than bytes, and SentencePiece falls back to bytes for what it does not know. Every text
in a message counts, with what a chat format puts around it. Not here: what is kept (``assemble``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.text.units import utf8_length

CountTokens = Callable[[str], int]
"""A tokenizer's count of the tokens of a text."""

_NOT_SENT: Final = frozenset(
    {"id", "entryId", "entry_id", "at", "timestamp", "usage", "stopReason", "api", "provider", "model", "responseId"}
    | {"idempotencyKey"}
)
"""What hosts note about a message beside it; no model is shown it."""
_IMAGES: Final = frozenset({"image", "image_url", "input_image", "output_image"})
_CONTENT: Final = frozenset({"content", "output", "details"})
"""Where images are images; one in the arguments of a call is shown to the model as text."""


class Counter:
    """Counts tokens. A tokenizer that fails, or answers with what is no count, is answered for by the bound."""

    def __init__(self, count_tokens: CountTokens | None = None, image_tokens: int = limits.IMAGE_TOKENS_MAX) -> None:
        """Raises ``InvalidArgument`` for an ``image_tokens`` that is no count."""
        if type(image_tokens) is not int or image_tokens < 0:
            raise errors.InvalidArgument("image_tokens must be an integer that is not negative")
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
        waiting: list[tuple[Any, bool]]  # and whether it is content, where images are images
        waiting = [(value, key in _CONTENT) for key, value in message.items() if key not in _NOT_SENT]
        while waiting:
            value, is_content = waiting.pop()
            if isinstance(value, str):
                total += self.text(value)
            elif isinstance(value, Mapping):
                total += limits.PART_OVERHEAD_TOKENS
                if is_content and _is_image(value):
                    total += self._image_tokens + _bytes_beside_image(value)
                else:
                    total += sum(self.text(str(key)) for key in value)
                    waiting += [(inner, is_content and key in _CONTENT) for key, inner in value.items()]
            elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
                waiting += [(inner, is_content) for inner in value]
            elif value is not None:
                total += self.text(str(value))
        return total


def _is_image(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind in _IMAGES


def _bytes_beside_image(block: Mapping[str, Any]) -> int:
    """UTF-8 bytes of all texts in an image's block, names included, but for the longest: that is the image, or where it
    lies, and neither tells what it costs."""
    sizes = []
    waiting: list[Any] = [block]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        else:
            sizes.append(utf8_length(str(value)))
    return sum(sizes) - max(sizes)
