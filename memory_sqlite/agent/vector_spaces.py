"""Which of a generation's spaces of vectors belongs to the provider that is set, as far as is known without loading it.

Reads rows alone. Called by ``vector_status``, and by ``embedding`` where a provider could not be loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memory_sqlite.config import Settings
from memory_sqlite.generations.vector_rows import Space


def of_settings(spaces: Sequence[Space], service: Mapping[str, Any] | None, settings: Settings) -> Space | None:
    """The newest space that fits the settings; ``None`` where none does, or no provider is set.

    ``service`` is what the provider's service says of itself, which is exact once its model is loaded.
    """
    fitting = [space for space in spaces if _fits(json.loads(space.identity), service, settings)]
    return fitting[-1] if fitting else None


def _fits(identity: Mapping[str, Any], service: Mapping[str, Any] | None, settings: Settings) -> bool:
    if service is not None and "revision" in service:
        return all(service[name] == value for name, value in identity.items())
    asked = {
        "provider": settings.embedding_provider,
        "model": settings.embedding_model,
        "dimensions": settings.embedding_dimensions,
    }
    return all(value is None or identity.get(name) == value for name, value in asked.items())
