"""What a provider answered, looked at before anybody gets it: its shape, and that it speaks of itself alone.

Each field is read once, looked at, and put into the contract's own class: what was looked at is what is given out, also
where a provider answers with objects of its own. Not here: the call and its checks (``bound_handle``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
_NO_REFERENCE = "memory provider returned no reference where one belongs"
_BAD_RECALL = "memory provider returned malformed recall metadata"


def own_reference(reference: Any, provider_id: str) -> Reference:
    """A copy. Raises ``ProviderInvalid`` for what is no reference, ``ProviderRefused`` for another provider's."""
    if not isinstance(reference, Reference):
        raise errors.ProviderInvalid(_NO_REFERENCE)
    copy = Reference(reference.provider_id, reference.id, reference.revision, reference.fragment)
    if not isinstance(copy.id, str) or not copy.id or not _texts_or_none(copy.revision, copy.fragment):
        raise errors.ProviderInvalid(_NO_REFERENCE)
    if copy.provider_id != provider_id:
        raise errors.ProviderRefused(FOREIGN)
    return copy


def page(answer: Any, provider_id: str) -> SearchPage:
    """A page with its hits as a tuple. Raises ``ProviderInvalid``, ``ProviderRefused``."""
    if not isinstance(answer, SearchPage):
        raise errors.ProviderInvalid("memory provider returned no page of hits")
    copy = SearchPage(answer.hits, answer.next_cursor, answer.coverage, answer.warning)
    if not isinstance(copy.hits, (tuple, list)):
        raise errors.ProviderInvalid("memory provider returned no page of hits")
    if not _texts_or_none(copy.next_cursor, copy.warning):
        raise errors.ProviderInvalid("memory provider returned a page with a malformed cursor or warning")
    if copy.coverage not in (None, "complete", "partial"):
        raise errors.ProviderInvalid("memory provider returned a page with an unknown coverage")
    hits = tuple(_hit(hit, provider_id) for hit in copy.hits)
    return SearchPage(hits, copy.next_cursor, copy.coverage, copy.warning)


def passage(answer: Any, provider_id: str) -> GetResult:
    """What was read, or that there is no such thing. Raises ``ProviderInvalid``, ``ProviderRefused``."""
    if isinstance(answer, NotFound) and answer.status == "not_found":
        return NotFound()
    text = answer.text if isinstance(answer, Found) and answer.status == "ok" else None
    if not isinstance(text, str):
        raise errors.ProviderInvalid("memory provider returned neither a text nor not_found")
    reference = own_reference(answer.reference, provider_id)
    citations = _citations(answer.citations, provider_id)
    truncated, *lines = answer.truncated, answer.from_line, answer.lines, answer.next_from
    if not (truncated is None or isinstance(truncated, bool)) or not _integers_or_none(*lines):
        raise errors.ProviderInvalid("memory provider returned a malformed range of lines")
    return Found(reference, text, citations, truncated, *lines)


def health(answer: Any) -> Health:
    """Raises ``ProviderInvalid`` for what is no health."""
    if not isinstance(answer, Health):
        raise errors.ProviderInvalid("memory provider returned no health")
    status, message, details = answer.status, answer.message, answer.details
    known = status in ("ready", "degraded", "unavailable") and isinstance(details, Mapping)
    if not known or not _texts_or_none(message):
        raise errors.ProviderInvalid("memory provider returned no health")
    return Health(status, message, dict(details))


def _hit(hit: Any, provider_id: str) -> ProviderHit:
    excerpt = hit.excerpt if isinstance(hit, ProviderHit) else None
    if not isinstance(excerpt, str):
        raise errors.ProviderInvalid("memory provider returned a hit without an excerpt")
    reference = own_reference(hit.reference, provider_id)
    score, source = hit.score, hit.source
    if not _number_or_none(score):
        raise errors.ProviderInvalid("memory provider returned a score that is no number")
    if not _texts_or_none(source):
        raise errors.ProviderInvalid("memory provider returned a hit with a malformed source")
    citations = _citations(hit.citations, provider_id)
    return ProviderHit(reference, excerpt, score, source, citations, _recall(hit.automatic_recall))


def _recall(recall: Any) -> AutomaticRecall | None:
    if recall is None:
        return None
    if not isinstance(recall, AutomaticRecall):
        raise errors.ProviderInvalid(_BAD_RECALL)
    eligible, keys, triggers, importance = recall.eligible, recall.project_keys, recall.triggers, recall.importance
    if keys is not None:
        if not isinstance(keys, (tuple, list)):
            raise errors.ProviderInvalid(_BAD_RECALL)
        keys = tuple(keys)
    if not _texts_or_none(triggers, *(keys or ())) or not _number_or_none(importance):
        raise errors.ProviderInvalid(_BAD_RECALL)
    return AutomaticRecall(eligible, keys, triggers, importance)


def _citations(citations: Any, provider_id: str) -> tuple[Citation, ...]:
    if citations is None:
        return ()
    if not isinstance(citations, (tuple, list)):
        raise errors.ProviderInvalid("memory provider returned malformed citations")
    return tuple(_citation(citation, provider_id) for citation in citations)


def _citation(citation: Any, provider_id: str) -> Citation:
    label = citation.label if isinstance(citation, Citation) else None
    if not isinstance(label, str):
        raise errors.ProviderInvalid("memory provider returned a citation without a label")
    reference, url, *lines = citation.reference, citation.url, citation.start_line, citation.end_line
    if not _texts_or_none(url) or not _integers_or_none(*lines):
        raise errors.ProviderInvalid("memory provider returned malformed citations")
    return Citation(label, None if reference is None else own_reference(reference, provider_id), url, *lines)


def _texts_or_none(*values: Any) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _integers_or_none(*values: Any) -> bool:
    return all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values)


def _number_or_none(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
