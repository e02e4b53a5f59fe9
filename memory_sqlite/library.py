"""Which SQLite is there: recent enough or not, able to encrypt or not, or two copies in each other's way.

The wheel ``apsw-sqlite3mc`` *is* apsw with another SQLite inside: both install the same package ``apsw``, so the one
that came last wins and pip knows of two. Everything but encryption runs on plain apsw too, since a host may bring it.
Not here: opening files (``storage.connection``, which asks ``require`` once when it is imported). Also called by
``config`` when a key is configured, and by ``status``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors

MINIMUM_SQLITE: Final = (3, 45, 0)
"""Contentless FTS5 tables with deletion came with SQLite 3.43; 3.45 is the oldest version this is claimed to run on."""
_DISTRIBUTION: Final = re.compile(r"(apsw(?:[-_.]sqlite3mc)?)-[^-]+(?:-[^/]*)?\.(?:dist|egg)-info", re.I)


def require() -> None:
    """Raise ``SqliteUnsuitable`` unless apsw's SQLite has what stores and generations need."""
    version = apsw.sqlite_lib_version()
    if _numbers(version) < MINIMUM_SQLITE:
        least = ".".join(str(part) for part in MINIMUM_SQLITE)
        raise errors.SqliteUnsuitable(f"apsw uses SQLite {version}; {least} or newer is needed")
    if "ENABLE_FTS5" not in apsw.compile_options:
        raise errors.SqliteUnsuitable(f"apsw uses a SQLite {version} that was built without FTS5")
    if not hasattr(apsw.Connection, "register_fts5_function"):
        raise errors.SqliteUnsuitable(
            f"apsw {apsw.apsw_version()} cannot register FTS5 functions; 3.47 or newer is needed"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def cipher() -> str | None:
    """Name and version of the cipher library inside SQLite, or ``None`` for plain apsw."""
    version = getattr(apsw, "mc_version", None)
    return str(version) if version is not None else None


def distributions() -> tuple[str, ...]:
    """The distributions that brought the package ``apsw``, as pip names them, read from the names beside it.

    A directory listing (0.1 ms): importing ``importlib.metadata`` to ask the same costs 25 ms.
    """
    try:
        names = [entry.name for entry in Path(apsw.__file__).parents[1].iterdir()]
    except OSError:  # imported from an archive: nothing can lie beside it
        return ()
    found = (_DISTRIBUTION.fullmatch(name) for name in names)
    return tuple(sorted({re.sub(r"[-_.]", "-", match[1].lower()) for match in found if match is not None}))


def cipher_problem() -> str | None:
    """Why nothing can be encrypted here, in words that follow "but"; ``None`` when it could be."""
    return "the SQLite of this apsw cannot encrypt" if cipher() is None else _overwritten()


def _overwritten() -> str | None:
    if len(distributions()) < 2:
        return None
    return "apsw and apsw-sqlite3mc are both installed and overwrite each other's files"


def describe() -> dict[str, str | None]:
    """For ``status``: versions of SQLite, apsw and the cipher, and what is wrong with them."""
    problem = _overwritten()
    return {
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "cipher": cipher(),
        "problem": None if problem is None else f"{problem}: {errors.EncryptionUnavailable.default_hint}",
    }
