"""Which of a provider's project candidates a host puts before a prompt, and in which order.

A provider may have filtered already or not: the host filters again, and trusts nothing that is not said. Pure. Not
here: asking (``host.consumers.project_recall``), the lines (``recalled_lines``).
"""

from __future__ import annotations

from collections.abc import Iterable

from memory_sqlite.runtime.shapes import ProviderHit
from memory_sqlite.text.project_keys import project_key


def active_keys(keys: Iterable[str]) -> frozenset[str]:
    """The keys of a turn that say something."""
    return frozenset(filter(None, map(project_key, keys)))


def all_active(hit: ProviderHit, active: frozenset[str]) -> bool:
    """Whether every project that an entry belongs to is active; so it is for an entry of no project."""
    keys = hit.automatic_recall.project_keys if hit.automatic_recall is not None else None
    return all(project_key(key) in active for key in keys or ())


def is_eligible(hit: ProviderHit) -> bool:
    """Whether an entry may be recalled unasked: only where its provider says so, in so many words."""
    return hit.automatic_recall is not None and hit.automatic_recall.eligible is True


def chosen(hits: Iterable[ProviderHit], active: frozenset[str]) -> list[ProviderHit]:
    """The eligible entries that belong to projects, all of them active: the most important first, then by reference."""
    kept = [hit for hit in hits if is_eligible(hit) and _has_projects(hit) and all_active(hit, active)]
    return sorted(kept, key=_order)


def _has_projects(hit: ProviderHit) -> bool:
    return hit.automatic_recall is not None and bool(hit.automatic_recall.project_keys)


def importance_of(hit: ProviderHit) -> float:
    """How important an entry is said to be; 0 where nothing is said."""
    said = hit.automatic_recall.importance if hit.automatic_recall is not None else None
    return said if said is not None else 0.0


def _order(hit: ProviderHit) -> tuple[float, str, str, str]:
    reference = hit.reference
    return -importance_of(hit), reference.provider_id, reference.id, reference.fragment or ""
