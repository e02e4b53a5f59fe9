"""What our tools are called; plans, tools and prompts name them alike."""

from __future__ import annotations

from typing import Final

MEMORY_SEARCH: Final = "memory_search"
MEMORY_GET: Final = "memory_get"
MEMORY_REMEMBER: Final = "memory_remember"
