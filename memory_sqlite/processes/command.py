"""How a worker is started: which program, which arguments, which environment.

A worker is spawned by module name, never forked: it has nothing of its parent's memory. It gets no secret by way of
arguments or environment; of the environment it gets only what an interpreter needs to start. Called by ``pool``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from memory_sqlite.values import dataclass

_KEPT: Final = (
    "PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
    "TZ",
)  # fmt: skip
"""Where the interpreter's libraries, its user packages and temporary files are, and the machine's time zone. Nothing
else is passed on."""
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*w?(?:\.exe)?", re.IGNORECASE)
_NEEDED: Final = ("memory_sqlite", "apsw", "numpy", "sqlite_vec", "tokenizers")
_SITE: Final = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def worker_command(module: str) -> Command | None:
    """How to start a worker, or ``None`` where ``sys.executable`` is no Python (embedded, frozen)."""
    executable = sys.executable
    if not executable or getattr(sys, "frozen", False) or not _PYTHON.fullmatch(Path(executable).name):
        return None
    # -P: nothing is imported from the working directory; UTF-8 mode: file names mean the same on both sides
    flags = ["-P", "-X", "utf8"]
    if sys.flags.no_user_site:
        flags.append("-s")
    return Command((executable, *flags, "-m", module), environment(os.environ, sys.path))


def environment(given: Mapping[str, str], search_path: Sequence[str]) -> dict[str, str]:
    """The stripped environment of a worker whose parent has ``given`` and imports from ``search_path``.

    ``PYTHONPATH`` names the places that this package and what it needs come from, where a fresh interpreter would not
    look by itself (a host that ships its own copies); the parent's own ``PYTHONPATH`` is not passed on.
    """
    kept = {name: given[name] for name in _KEPT if name in given}
    places = [place for place in map(os.path.abspath, filter(None, search_path)) if _holds(place)]
    extra = [place for place in dict.fromkeys(places) if not _is_default(place)]
    if extra:
        kept["PYTHONPATH"] = os.pathsep.join(extra)
    return kept


def _holds(place: str) -> bool:
    return any((Path(place) / name / "__init__.py").is_file() for name in _NEEDED)


def _is_default(place: str) -> bool:
    return Path(place).name in _SITE and (
        place.startswith((sys.prefix, sys.base_prefix)) or (not sys.flags.no_user_site and _is_of_user(place))
    )


def _is_of_user(place: str) -> bool:
    site = sys.modules.get("site")
    return site is not None and place == site.getusersitepackages()
