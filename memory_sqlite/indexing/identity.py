"""What a generation was built with. A generation of another identity is replaced by a full build, never patched."""

from __future__ import annotations

from typing import Any

from memory_sqlite.generations import layout
from memory_sqlite.search.tokens import TOKENIZER_VERSION
from memory_sqlite.sources.version import CHUNKER_VERSION


def expected() -> dict[str, Any]:
    """The identity this code builds."""
    return {"format": layout.FORMAT, "tokenizer": TOKENIZER_VERSION, "chunker": CHUNKER_VERSION}
