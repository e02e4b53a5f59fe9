"""What ``status`` says of vectors: how many there are, of which model, and what to run for those that are missing.

Reads the generation alone; no provider is made and no model loaded for it. Called by ``reporting``.
"""

from __future__ import annotations

import json
from typing import Any, Final

import apsw

from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.vector_spaces import of_settings
from memory_sqlite.config import Settings
from memory_sqlite.generations import vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.indexing import vector_inputs

_INDEX: Final = "Run `memory-sqlite index`."
_SPEND: Final = "Run `memory-sqlite index --yes`: it sends them to a provider that charges."
_REBUILD: Final = "Run `memory-sqlite index --full`."


def vectors(opened: Opened, settings: Settings, index: apsw.Connection | None) -> dict[str, Any]:
    """``index`` is the current generation, ``None`` when there is none that can be read: then nothing can be counted,
    and ``filed``, ``missing`` and ``characters`` are ``None`` unless no provider is set."""
    nothing = 0 if settings.embedding_provider is None else None
    said: dict[str, Any] = {
        "provider": settings.embedding_provider,
        "model": settings.embedding_model,
        "dimensions": settings.embedding_dimensions,
        "state": "off" if settings.embedding_provider is None else "none",
        "cost": None,
        "filed": nothing,
        "missing": nothing,
        "characters": nothing,
        "run": None,
        "others": [],
        "route": opened.route,
        "resident": [] if opened.workers is None or opened.embedding is None else opened.workers.residents(),
        "service": None if opened.embedding is None else opened.embedding.state(),
    }
    if index is None:
        return said if settings.embedding_provider is None else said | {"state": "unavailable", "run": _INDEX}
    try:
        _spaces(said, opened, settings, index)
    except apsw.SQLError:  # somebody took the tables away; words do not need them
        said |= {"state": "unavailable", "run": _REBUILD}
    return said


def _spaces(said: dict[str, Any], opened: Opened, settings: Settings, index: apsw.Connection) -> None:
    spaces = vector_rows.spaces(index)
    chosen = of_settings(spaces, said["service"], settings)
    said["others"] = [_described(index, space) for space in spaces if space is not chosen]
    if settings.embedding_provider is None:
        return
    left = vector_inputs.missing(index, chosen)
    said |= {"filed": 0, "missing": left.texts, "characters": left.characters}
    if chosen is not None:
        said |= _described(index, chosen)
        if said["route"] is None:
            from memory_sqlite.search.vectors.nearest import choose

            said["route"] = choose(index, chosen)
        if said["state"] == "complete" and left.texts:
            said["state"] = "partial"
    if left.texts:
        paid = chosen is not None and chosen.cost == "paid" and not vector_inputs.is_small(left)
        said["run"] = _SPEND if paid else _INDEX if opened.filer is None else None


def _described(index: apsw.Connection, space: Space) -> dict[str, Any]:
    identity = json.loads(space.identity)
    return {
        "provider": identity.get("provider"),
        "model": identity.get("model"),
        "dimensions": space.dimensions,
        "state": space.state,
        "cost": space.cost,
        "filed": vector_rows.filed(index, space),
    }
