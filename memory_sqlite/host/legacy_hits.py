"""One result of a legacy manager as a provider's hit: its reference, its citation, whether it may be recalled unasked.

Not here: calling the manager and authorising its results (``legacy``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.host.legacy_values import number_of, text_of, value_of, whole_of
from memory_sqlite.runtime.shapes import AutomaticRecall, Citation, ProviderHit, Reference, SearchRequest
from memory_sqlite.sources.annotations import take_annotations
from memory_sqlite.text.project_keys import project_key

_TRUSTED: Final = ("owner", "agent")


def hit(result: Any, provider_id: str) -> ProviderHit:
    """Raises ``ProviderInvalid`` for a result without a path or a text: it could not be shown, cited or read."""
    path, snippet = text_of(result, "path"), text_of(result, "snippet")
    if not path or snippet is None:
        raise errors.ProviderInvalid("memory runtime manager returned a result without a path or a snippet")
    first, last = whole_of(result, "start_line"), whole_of(result, "end_line")
    fragment = None if first is None or last is None else f"L{first}-L{last}"
    place = path if fragment is None else f"{path}#L{first}-L{last}"
    return ProviderHit(
        Reference(provider_id, path, fragment=fragment),
        _without_annotations(snippet),
        score=number_of(result, "score"),
        source=text_of(result, "source"),
        citations=(Citation(text_of(result, "citation") or place, start_line=first, end_line=last),),
        automatic_recall=_recall(result),
    )


def as_asked(hits: Sequence[ProviderHit], request: SearchRequest) -> tuple[ProviderHit, ...]:
    """The hits that the request allows, whatever the manager made of it: its floor, sources, projects and number.

    A hit without a score is below any floor but none. With active projects, a hit that names projects of which none is
    active is left out; one of no project stays.
    """
    floor = request.min_score or 0.0
    kept = [hit for hit in hits if floor <= 0 or (hit.score is not None and hit.score >= floor)]
    if request.sources is not None:
        kept = [hit for hit in kept if hit.source in request.sources]
    if request.active_project_keys:
        active = {project_key(key) for key in request.active_project_keys}
        kept = [hit for hit in kept if not (keys := _project_keys(hit)) or not active.isdisjoint(keys)]
    return tuple(kept[: request.max_results])


def _project_keys(hit: ProviderHit) -> set[str]:
    stored = hit.automatic_recall.project_keys if hit.automatic_recall is not None else None
    return {project_key(key) for key in stored or ()}


def _without_annotations(snippet: str) -> str:
    """The words of an entry, without what it says about itself to the machine."""
    lines: list[str] = []
    for line in snippet.split("\n"):
        kept, said = take_annotations(line)
        if said is None or kept.strip():
            lines.append(kept)
    return "\n".join(lines)


def _recall(result: Any) -> AutomaticRecall:
    """Only an entry of the owner or the agent, out of no transcript, and of a project that it names if it names any."""
    origin = text_of(value_of(result, "provenance"), "origin_class")
    stored = text_of(result, "project_key")
    keys = None if stored is None else tuple(key.strip() for key in stored.split(";") if key.strip())
    eligible = text_of(result, "source") == "memory" and origin in _TRUSTED and keys != ()
    return AutomaticRecall(eligible, keys, text_of(result, "triggers"), number_of(result, "importance"))
