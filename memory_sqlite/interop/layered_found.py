"""Whether data of the layered-memory product lies about that nobody has imported: looked for in its places, only read.

Facts: that product's default directory. Directories are listed and one small file is read; no line of a memory is. Not
here: importing (``layered``). Called by ``doctor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from memory_sqlite import limits
from memory_sqlite.interop import layered_check
from memory_sqlite.interop.layered_files import Layout, agent_directories, day_files, is_layered_directory
from memory_sqlite.values import dataclass

_DEFAULT_PLACE: Final = ".openclaw/state/memory"
"""Below the home directory (the product's ``dataDir`` default)."""


@dataclass(frozen=True, slots=True)
class FoundLayout:
    """One directory. ``layouts`` are those of which it holds files, ``agents`` the names of their directories.

    ``files`` counts day files up to ``limits.LAYERED_LOOK_FILES_MAX``. ``encrypted`` is what its check file says:
    ``None`` where it says nothing. ``here``: it is the data directory itself.
    """

    path: Path
    layouts: tuple[Layout, ...]
    agents: tuple[str, ...]
    files: int
    encrypted: bool | None
    here: bool


def look(data_dir: Path, environ: Mapping[str, str]) -> list[FoundLayout]:
    """What lies in the data directory itself and in that product's default place. Fast, reads only, never raises for
    what it finds: a directory that cannot be listed is none."""
    home = environ.get("HOME")
    places = [data_dir] + ([Path(home) / _DEFAULT_PLACE] if home else [])
    found: list[FoundLayout] = []
    seen: set[Path] = set()
    for place in places:
        try:
            resolved = place.resolve()
            if resolved in seen or not resolved.is_dir():
                continue
            seen.add(resolved)
            if (layout := _look_at(place, here=place == data_dir)) is not None:
                found.append(layout)
        except (OSError, RuntimeError):  # what cannot be listed, and a loop of links
            continue
    return found


def _look_at(place: Path, *, here: bool) -> FoundLayout | None:
    if not is_layered_directory(place):
        return None
    layouts: set[Layout] = set()
    files = 0
    for file in day_files(place, backups=True):
        if file.is_link:
            continue
        layouts.add(file.layout)
        files += 1
        if files >= limits.LAYERED_LOOK_FILES_MAX:
            break
    state, _ = layered_check.read_check(place)
    encrypted = {"sealed": True, "clear": False}.get(state)
    agents = tuple(directory.name for directory in agent_directories(place))
    return FoundLayout(place, tuple(sorted(layouts)), agents, files, encrypted, here)
