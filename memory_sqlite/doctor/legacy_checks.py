"""Findings about data of the layered-memory product that lies where it could be brought in. Called by ``examine``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from memory_sqlite.doctor.finding import Finding
from memory_sqlite.doctor.place import Place
from memory_sqlite.sources.places import shown
from memory_sqlite.storage.store import layered_layout

USUAL_PLACE: Final = "~/.openclaw/state/memory"
"""Where that product keeps its data when nothing is set (its reference, section 12, ``dataDir``)."""


def _is_layered(path: Path) -> bool:
    try:
        return path.is_dir() and layered_layout(path)
    except OSError:
        return False  # another user's


def legacy(place: Place) -> list[Finding]:
    """Where such data is: in the data directory itself, or in that product's own place."""
    candidates = (place.data_dir, Path(USUAL_PLACE).expanduser())
    found = [path for path in dict.fromkeys(candidates) if _is_layered(path)]
    return [Finding("legacy_found", {"directories": len(found)}, [shown(str(path)) for path in found])] if found else []
