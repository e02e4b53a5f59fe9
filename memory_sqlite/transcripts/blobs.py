"""Base64 inside messages: recognised, and replaced by a mark that says how many bytes were there.

Images and files pasted into a conversation are no memory, and their base64 floods an index (case C040). Called by
``normalise`` for the text and the raw record. Not here: what else a block holds (``content``).
"""

from __future__ import annotations

import re
from typing import Any, Final

BLOB_MIN_CHARS: Final = 201
"""A run of up to 200 characters is kept: tokens, hashes and short keys are things people search for."""

_BINARY_KEYS: Final = frozenset(
    {"data", "base64", "b64_json", "bytes", "blob", "image_data", "encrypted_content"}
    | {"signature", "thinkingSignature", "thoughtSignature"}
)
"""Keys of blocks whose long value is binary whatever its letters are."""

# The look-behind lets a match start only where a run starts, which keeps the search linear.
_RUN: Final = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{BLOB_MIN_CHARS},}}={{0,2}}")
_ENTIRE: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_UPPER: Final = re.compile(r"[A-Z]")
_LOWER: Final = re.compile(r"[a-z]")
_OTHER: Final = re.compile(r"[0-9+/_-]")


def without_blobs(text: str) -> str:
    """``text`` with every run of base64 over 200 characters replaced by ``[base64:<bytes>]``."""
    return _RUN.sub(_mark_run, text) if len(text) >= BLOB_MIN_CHARS else text


def might_hold_blob(encoded: str) -> bool:
    """Whether compact JSON text is worth walking: one linear search instead of a walk through every value."""
    return len(encoded) >= BLOB_MIN_CHARS and (_RUN.search(encoded) is not None or '"data"' in encoded)


def json_without_blobs(value: Any, key: str = "") -> Any:
    """A copy of a JSON value with its base64 replaced; the value itself is not changed."""
    if isinstance(value, str):
        if len(value) < BLOB_MIN_CHARS:
            return value
        if key in _BINARY_KEYS and _is_alphabet(value):
            return _mark(value)
        return without_blobs(value)
    if isinstance(value, dict):
        return {name: json_without_blobs(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_without_blobs(item, key) for item in value]
    return value


def _is_alphabet(text: str) -> bool:
    return all(_ENTIRE.fullmatch(line) for line in text.split())  # some writers wrap base64


def _mark_run(match: re.Match[str]) -> str:
    run = match.group()
    return _mark(run) if _looks_random(run) else run


def _looks_random(run: str) -> bool:
    """Tell base64 from ``xxxx…``, a long word, a hex dump or a path.

    Base64 of real bytes has letters of both cases and digits within 200 characters, one alphabet only, and a slash in
    64 characters, not in ten. Anything else stays: losing text is worse than keeping a blob.
    """
    if not (_UPPER.search(run) and _LOWER.search(run) and _OTHER.search(run)):
        return False
    slashes = run.count("/")
    if (slashes or "+" in run) and ("-" in run or "_" in run):
        return False
    return slashes * 24 <= len(run)


def _mark(run: str) -> str:
    letters = len("".join(run.split()).rstrip("="))
    return f"[base64:{letters * 3 // 4}]"
