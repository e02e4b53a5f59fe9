"""Our hits as the results of the legacy contract, with no path of the machine in them.

Not here: searching (``manager``), whether a requester may see a result (``authorizing``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import parse_time
from memory_sqlite.model import ORIGIN_CLASSES, Hit, OriginClass, Page, SessionKind
from memory_sqlite.runtime.manager_shapes import MemorySearchResult, ResultProvenance
from memory_sqlite.runtime.outside import OutsideNotes
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.text.frame import one_line


@dataclass(frozen=True)
class Results:
    """One answer. ``references`` name the hits in the same order, as ``get`` and ``forget`` know them."""

    results: tuple[MemorySearchResult, ...]
    references: tuple[str, ...]
    stale: bool
    warnings: tuple[str, ...]
    routes: tuple[str, ...]

    @staticmethod
    def names(opened: Opened) -> OutsideNotes:
        """What gives notes outside of the workspace their names."""
        return OutsideNotes(opened)

    @classmethod
    def of(cls, page: Page, opened: Opened, *, for_prompts: bool) -> Results:
        """A page's hits as results; ``for_prompts`` makes of each line one that can neither close nor forge a frame."""
        names = cls.names(opened)
        kinds = _session_kinds(opened, page.hits)
        results = tuple(_result(hit, names, kinds, for_prompts) for hit in page.hits)
        return cls(results, tuple(hit.reference for hit in page.hits), page.stale, page.warnings, page.routes)

    def debug(self) -> Mapping[str, Any]:
        """How the search went, in numbers and names of routes."""
        return {"backend": "builtin", "hits": len(self.results), "routes": list(self.routes), "stale": self.stale}


def _session_kinds(opened: Opened, hits: tuple[Hit, ...]) -> dict[str, SessionKind]:
    keys = sorted({hit.session for hit in hits if hit.session is not None})
    if not keys:
        return {}
    with opened.store.readers.borrow() as store:
        marks = ", ".join("?" * len(keys))
        rows = all_rows(store, f"SELECT key, kind FROM sessions WHERE key IN ({marks})", tuple(keys))
    return {str(key): cast("SessionKind", kind) for key, kind in rows}


def prompt_safe(text: str) -> str:
    """Each line harmless (``text.frame``), lines kept."""
    return "\n".join(one_line(line) for line in text.splitlines())


def _result(hit: Hit, names: OutsideNotes, kinds: Mapping[str, SessionKind], for_prompts: bool) -> MemorySearchResult:
    origin = hit.provenance.get("origin")
    known: OriginClass = origin if origin in ORIGIN_CLASSES else "untrusted"
    # a note is the owner's own, written in no session
    kind: SessionKind = "unknown" if hit.session is None else kinds.get(hit.session, "unknown")
    path = names.hide(hit.path)
    return MemorySearchResult(
        path,
        hit.start_line,
        hit.end_line,
        hit.score,
        prompt_safe(hit.excerpt) if for_prompts else hit.excerpt,
        hit.source,
        importance=hit.importance,
        triggers="\n".join(hit.triggers) or None,
        project_key=";".join(hit.projects) or None,
        origin_class=known,
        citation=path + hit.citation.removeprefix(hit.path),
        provenance=ResultProvenance(known, kind, parse_time(hit.time) if hit.time is not None else None),
    )
