"""Every check in order, each by itself: one that cannot be made never keeps another from being made.

Works from settings alone, so also where a memory does not open. Changes nothing. Called by the door, the command line
and ``fixing``. Not here: what is checked (the ``…_checks`` and ``…_state`` modules) and mending.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Literal

import apsw

from memory_sqlite import errors, library
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import (
    file_checks,
    index_state,
    legacy_checks,
    machine_checks,
    relation_checks,
    service_checks,
    source_checks,
    store_state,
    unused_pages,
)
from memory_sqlite.doctor.catalogue import FINDINGS
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.doctor.place import Place, Skipped, keys_stay
from memory_sqlite.doctor.report import Check, DoctorReport
from memory_sqlite.version import VERSION

Progress = Callable[[str, int, int | None], None]
_ORDER: Final = {"error": 0, "warning": 1, "info": 2}
_DAMAGE: Final = frozenset(
    {"store_damaged", "store_foreign", "index_damaged", "schema_differs", "file_unreadable", "texts_changed"}
)
"""Findings that say why another check could not read what it needed."""

CHECKS: Final[dict[str, Callable[[Place], list[Finding]]]] = {
    "libraries": machine_checks.libraries,
    "disk": machine_checks.disk,
    "permissions": file_checks.permissions,
    "foreign files": file_checks.foreign,
    "quarantine": file_checks.set_aside,
    "keys": store_state.keys,
    "store": store_state.file,
    "store pages": store_state.pages,
    "store rows": relation_checks.rows,
    "logs": store_state.logs,
    "store in use": store_state.in_use,
    "clock": machine_checks.clock,
    "outbox": relation_checks.outbox,
    "retention": relation_checks.expired,
    "generations": index_state.generations,
    "index": index_state.content,
    "unused pages": unused_pages.unused,
    "index in use": index_state.in_use,
    "notes": source_checks.notes,
    "transcripts": source_checks.transcripts,
    "watches": machine_checks.watches,
    "embedding": service_checks.embedding,
    "vector engine": service_checks.vector_engine,
    "worker": service_checks.worker,
    "other products": legacy_checks.legacy,
}
"""By name, in the order they are made and told."""


def examine(
    settings: Settings,
    clock: Clock,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    only: Collection[str] | None = None,
) -> DoctorReport:
    """Look everything over. ``only`` names the checks to make, ``None`` all of them.

    Raises nothing that a check meets: what could not be checked is told in ``checks``. Raises ``DirectoryInUse`` while
    the keys of the data directory are being changed.
    """
    if not settings.enabled:
        return DoctorReport("disabled", settings.agent)
    began = clock.monotonic()
    found: list[Finding] = []
    checks: list[Check] = []
    unexplained: list[Finding] = []
    names = [name for name in CHECKS if only is None or name in only]
    with keys_stay(settings.data_dir), Place(settings, clock, deep=deep) as place:
        for number, name in enumerate(names):
            if progress is not None:
                progress("checks", number, len(names))
            check, more = _made(name, place)
            checks.append(check)
            found += more
            if check.state == "failed":
                unexplained.append(Finding("check_failed", {"check": name, "reason": check.reason}))
    if any(one.code == "schema_older" for one in found):  # tables that later versions look into are not there yet
        unexplained = [one for one in unexplained if one.evidence["reason"] != apsw.SQLError.__name__]
        checks = [
            Check(one.name, "skipped", "schema_older") if one.reason == apsw.SQLError.__name__ else one
            for one in checks
        ]
    if unexplained and not any(one.code in _DAMAGE for one in found):
        found += unexplained
    found = sorted(_told_once(found), key=lambda one: _ORDER[one.severity])
    grave = tuple(one for one in found if one.severity != "info")
    return DoctorReport(
        "findings" if grave else "clean",
        settings.agent,
        findings=grave,
        notes=tuple(one for one in found if one.severity == "info"),
        checks=tuple(checks),
        versions=tuple(versions()),
        seconds=round(clock.monotonic() - began, 3),
    )


def unconfigured(error: errors.MemorySqliteError) -> DoctorReport:
    """The report where not even the settings can be read: that, and which check was therefore not made."""
    code = error.code if error.code in FINDINGS else "configuration_invalid"
    checks = tuple(Check(name, "skipped", error.code) for name in CHECKS)
    said = (Finding(code, {"reason": error.message}),)
    return DoctorReport("findings", "", findings=said, checks=checks, versions=tuple(versions()))


def versions() -> list[tuple[str, str]]:
    """Of this program, SQLite, apsw and the cipher."""
    described = library.describe()
    named = [("memory-sqlite", VERSION)]
    return named + [(name, str(described[name])) for name in ("sqlite", "apsw", "cipher") if described[name]]


_TWICE: Final = frozenset({"store rows", "generations", "index"})
"""Checks of what others may be changing at this moment: what is there at one look and not at the next is no fault."""


_TRIES: Final = 5
"""Files of a generation come and go while others build: a check that lost one between two calls is made again."""


def _looked(name: str, place: Place) -> list[Finding]:
    found = _once(name, place)
    if name not in _TWICE or all(one.severity == "info" for one in found):
        return found
    before = {(one.code, one.evidence.get("file")) for one in found}
    return [one for one in _once(name, place) if (one.code, one.evidence.get("file")) in before]


def _once(name: str, place: Place) -> list[Finding]:
    for _ in range(_TRIES - 1):
        try:
            return CHECKS[name](place)
        except FileNotFoundError:
            pass
    return CHECKS[name](place)


def _made(name: str, place: Place) -> tuple[Check, list[Finding]]:
    try:
        found = _looked(name, place)
    except Skipped as skipped:
        return Check(name, skipped.state, skipped.reason), []
    except errors.MemorySqliteError as error:
        # that the store or its key is at fault is told by the check of it; here it is why nothing was checked
        return Check(name, "skipped", error.code), []
    except PermissionError:
        return Check(name, "skipped", "permission denied"), [Finding("file_unreadable", {"check": name})]
    except UnicodeDecodeError:
        return Check(name, "failed", "UnicodeDecodeError"), [Finding("texts_changed", {"check": name})]
    except (apsw.Error, OSError, ValueError, TypeError, LookupError, AssertionError) as error:
        return Check(name, "failed", type(error).__name__), []
    grave: Literal["findings", "ok"] = "findings" if any(one.severity != "info" for one in found) else "ok"
    return Check(name, grave), found


def _told_once(found: list[Finding]) -> list[Finding]:
    """Of several findings that the store cannot be read the one that says most; of others, equal ones once."""
    kept: list[Finding] = []
    for one in found:
        if one in kept:
            continue
        if one.code in ("store_damaged", "index_damaged", "file_unreadable", "texts_changed"):
            known = next((other for other in kept if other.code == one.code), None)
            if known is not None:
                if len(one.evidence) > len(known.evidence) or "check" in known.evidence:
                    kept[kept.index(known)] = one
                continue
        kept.append(one)
    return kept
