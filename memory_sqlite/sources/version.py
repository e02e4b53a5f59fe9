"""The chunker's version, apart from the chunker: a search compares it and has no other use for the chunker.

Read by ``indexing.identity``; raised by whoever changes ``markdown``, ``blocks``, ``packing``, ``weights``, or what
is masked in a note before it is chunked.
"""

from __future__ import annotations

from typing import Final

CHUNKER_VERSION: Final = 2
"""Part of a generation's identity: raise it whenever the same note would be chunked differently."""
