"""Findings about data of the layered-memory product that lies where it could be brought in. Called by ``examine``.

Where it is looked for, and what of it is one, is ``interop.layered_found``'s. Not here: bringing it in.
"""

from __future__ import annotations

import os
from pathlib import Path

from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.doctor.place import Place
from memory_sqlite.interop.layered_found import look
from memory_sqlite.sources.places import shown
from memory_sqlite.storage.store import layered_layout


def legacy(place: Place) -> list[Finding]:
    """Where such data is: in the data directory itself, or in that product's own place."""
    there = look(place.data_dir, os.environ)
    paths = [one.path for one in there]
    if not any(one.here for one in there) and _is_refused(place.data_dir):
        paths.insert(0, place.data_dir)
    if not paths:
        return []
    evidence: Evidence = {"directories": len(paths), "files": sum(one.files for one in there)}
    sealed = sum(one.encrypted is True for one in there)
    if sealed:
        evidence["encrypted"] = sealed
    return [Finding("legacy_found", evidence, [shown(str(path)) for path in paths])]


def _is_refused(data_dir: Path) -> bool:
    """Whether opening would call the data directory that product's, which it does for less than one whole day file."""
    try:
        return layered_layout(data_dir)
    except OSError:
        return False  # another user's
