"""Reading candidates' texts within a budget, and counting on them what did not choose them.

Lives here: ``max_search_bytes`` and the counting of common terms. Not here: excerpts. Called by ``retrieve``.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import apsw

from memory_sqlite.model import Coverage
from memory_sqlite.search.candidates import Candidate, Resolved
from memory_sqlite.search.tokens import tokenise


def read_texts(connection: apsw.Connection, ranked: list[Candidate], wanted: int, max_bytes: int) -> Coverage:
    """Fill ``text`` of the first ``wanted`` candidates, best first, up to ``max_bytes`` of UTF-8 in all.

    When they do not all fit, half of the budget goes to the best, and what is left to the newest and to profile facts
    (L3) among the rest before anything else, so that a flood of long old texts starves neither. Returns ``partial``
    when a text was left out.
    """
    candidates = ranked[:wanted]
    sizes = {
        int(chunk): int(size)
        for chunk, size in connection.execute(
            "SELECT id, octet_length(text) FROM chunks WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps([candidate.chunk_id for candidate in candidates]),),
        )
    }
    chosen = candidates
    if sum(sizes.values()) > max_bytes:
        chosen = _within(candidates, sizes, max_bytes)
    by_chunk = {candidate.chunk_id: candidate for candidate in chosen}
    for chunk, text in connection.execute(
        "SELECT id, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(by_chunk)),)
    ):
        by_chunk[int(chunk)].text = str(text)
    return "complete" if len(chosen) == len(candidates) else "partial"


def _within(candidates: list[Candidate], sizes: dict[int, int], max_bytes: int) -> list[Candidate]:
    chosen: dict[int, Candidate] = {}
    used = 0

    def take(order: list[Candidate], budget: int) -> None:
        nonlocal used
        for candidate in order:
            size = sizes.get(candidate.chunk_id, 0)
            if candidate.chunk_id not in chosen and used + size <= budget:
                chosen[candidate.chunk_id] = candidate
                used += size

    take(candidates, max_bytes // 2)
    take([candidate for candidate in candidates if candidate.layer == "L3"], max_bytes * 5 // 8)
    take(sorted(candidates, key=lambda candidate: -(candidate.at or 0)), max_bytes * 3 // 4)
    take(candidates, max_bytes)
    return list(chosen.values())


def count_in_texts(
    candidates: list[Candidate], skipped: list[int], terms: tuple[Resolved, ...], stem: Callable[[str], str]
) -> None:
    """Add to ``own`` the terms that were left out of choosing: common words, counted on the text itself."""
    owners = {stem(probe[-1]): index for index in skipped for probe in terms[index].probes}
    known: dict[str, int | None] = {}
    for candidate in candidates:
        for position, token in enumerate(tokenise(candidate.text)):
            if token not in known:
                known[token] = owners.get(stem(token))
            index = known[token]
            if index is not None:
                candidate.own.setdefault(index, [[], [], [], [], []])[0].append(position)
