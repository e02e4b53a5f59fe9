"""What a provider answered, looked at before anybody gets it: its shape, and that it speaks of itself alone.

Not here: the call and its checks (``bound_handle``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from memory_sqlite import errors
from memory_sqlite.runtime.shapes import (
    AutomaticRecall,
    Citation,
    Found,
    GetResult,
    Health,
    NotFound,
    ProviderHit,
    Reference,
    SearchPage,
)

FOREIGN = "memory reference belongs to a different provider"


def is_injectable(hit: ProviderHit) -> bool:
    """Whether a hit may be put before a prompt unasked: only when its provider says so, in so many words."""
    recall = hit.automatic_recall
    return recall is not None and recall.eligible is True


def own_reference(reference: Any, provider_id: str) -> None:
    """Raises ``ProviderInvalid`` for what is no reference, ``ProviderRefused`` for another provider's."""
    if not isinstance(reference, Reference) or not isinstance(reference.id, str) or not reference.id:
        raise errors.ProviderInvalid("memory provider returned no reference where one belongs")
    if reference.provider_id != provider_id:
        raise errors.ProviderRefused(FOREIGN)


def page(answer: Any, provider_id: str) -> SearchPage:
    """A page with its hits as a tuple. Raises ``ProviderInvalid``, ``ProviderRefused``."""
    if not isinstance(answer, SearchPage) or not isinstance(answer.hits, (tuple, list)):
        raise errors.ProviderInvalid("memory provider returned no page of hits")
    if not _text_or_none(answer.next_cursor) or not _text_or_none(answer.warning):
        raise errors.ProviderInvalid("memory provider returned a page with a malformed cursor or warning")
    if answer.coverage not in (None, "complete", "partial"):
        raise errors.ProviderInvalid("memory provider returned a page with an unknown coverage")
    hits = tuple(answer.hits)
    return replace(answer, hits=tuple(_hit(hit, provider_id) for hit in hits))


def passage(answer: Any, provider_id: str) -> GetResult:
    """What was read, or that there is no such thing. Raises ``ProviderInvalid``, ``ProviderRefused``."""
    if isinstance(answer, NotFound):
        return answer
    if not isinstance(answer, Found) or answer.status != "ok" or not isinstance(answer.text, str):
        raise errors.ProviderInvalid("memory provider returned neither a text nor not_found")
    own_reference(answer.reference, provider_id)
    return replace(answer, citations=_citations(answer.citations, provider_id))


def health(answer: Any) -> Health:
    """Raises ``ProviderInvalid`` for what is no health."""
    if not isinstance(answer, Health) or answer.status not in ("ready", "degraded", "unavailable"):
        raise errors.ProviderInvalid("memory provider returned no health")
    return answer


def _hit(hit: Any, provider_id: str) -> ProviderHit:
    if not isinstance(hit, ProviderHit) or not isinstance(hit.excerpt, str):
        raise errors.ProviderInvalid("memory provider returned a hit without an excerpt")
    own_reference(hit.reference, provider_id)
    score: Any = hit.score
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score)
    ):
        raise errors.ProviderInvalid("memory provider returned a score that is no number")
    recall: Any = hit.automatic_recall
    if recall is not None and not isinstance(recall, AutomaticRecall):
        raise errors.ProviderInvalid("memory provider returned malformed recall metadata")
    return replace(hit, citations=_citations(hit.citations, provider_id))


def _citations(citations: Any, provider_id: str) -> tuple[Citation, ...]:
    if citations is None:
        return ()
    if not isinstance(citations, (tuple, list)):
        raise errors.ProviderInvalid("memory provider returned malformed citations")
    kept = tuple(citations)
    for citation in kept:
        if not isinstance(citation, Citation) or not isinstance(citation.label, str):
            raise errors.ProviderInvalid("memory provider returned a citation without a label")
        if citation.reference is not None:
            own_reference(citation.reference, provider_id)
    return kept


def _text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)
