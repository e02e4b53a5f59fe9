"""The routes of vector search on real embeddings of more than 20,000 real texts: the same ten, by every one of them.

The texts are the sentences of SciFact's abstracts, the questions its claims, the embeddings those of the static model.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
import quality_harness as harness

from memory_sqlite.generations import layout, vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import extension
from memory_sqlite.search.vectors.allowed import EVERYTHING, Allowed
from memory_sqlite.search.vectors.nearest import nearest
from memory_sqlite.search.vectors.resident import Resident

pytestmark = pytest.mark.quality

ROWS = 40_000
QUESTIONS = 60
HALF = Allowed('filter : ("private.")')
TWENTIETH = Allowed('filter : ("session=3.")')


class Filed(NamedTuple):
    """A generation with the vectors of real texts, the same as a matrix, and the questions."""

    connection: apsw.Connection
    space: Space
    matrix: Any
    questions: Any

    def truth(self, question: Any, allowed: Allowed, k: int) -> tuple[list[int], float]:
        """The exact ``k`` nearest by the matrix: chunk ids, and the cosine of the last."""
        import numpy as np

        numbers = np.arange(1, len(self.matrix) + 1)
        keep = {EVERYTHING: numbers > 0, HALF: numbers % 2 == 0, TWENTIETH: numbers % 20 == 3}[allowed]
        scores = np.where(keep, self.matrix @ question, -np.inf)
        order = np.argsort(-scores, kind="stable")[:k]
        return [int(place) + 1 for place in order], float(scores[order[-1]])


@pytest.fixture(scope="module")
def filed(external: Path) -> Filed:
    """SciFact's sentences, as many as are needed."""
    pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    pytest.importorskip("tokenizers", reason="the static model comes with the extra `static`")
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        pytest.skip("the static model comes with the extra `static`")
    from memory_sqlite.embeddings.models.word_llama import WordLlama

    model = WordLlama(Path(found.origin).parent)
    abstracts, claims = harness.scifact_rows(external)
    texts = list(dict.fromkeys(line for _, title, text in abstracts for line in (title, *text.splitlines()) if line))
    matrix = model.vectors(texts, query=False)
    matrix = matrix[matrix.any(axis=1)][:ROWS].astype("<f4")
    assert len(matrix) == ROWS
    numbers = range(1, ROWS + 1)
    connection = apsw.Connection(":memory:")
    with connection:
        layout.create(connection, {})
        space = vector_rows.make_space(connection, "{}", matrix.shape[1], {})
        connection.executemany(
            "INSERT INTO chunks (id, document_id, ordinal, start_line, end_line, text, heading, triggers, projects, "
            "text_hash, tokens, line_starts, flags) VALUES (?, ?, 0, 1, 1, '', '', '[]', '[]', x'', 1, x'', 0)",
            ((number, number) for number in numbers),
        )
        connection.executemany(
            "INSERT INTO lexical (rowid, body, filter) VALUES (?, '', ?)",
            ((number, _tokens(number)) for number in numbers),
        )
        rows = ((number, number.to_bytes(16, "big"), matrix[number - 1].tobytes()) for number in numbers)
        assert vector_rows.put(connection, space, rows) == ROWS
    return Filed(connection, space, matrix, model.vectors(list(claims)[:QUESTIONS], query=True).astype("<f4"))


def _tokens(number: int) -> str:
    return layout.filter_tokens(
        kind="message", source="sessions", layer="L0", session_id=number % 20, owner_private=number % 2 == 0
    )


def recall(filed: Filed, resident: Resident, allowed: Allowed, k: int) -> float:
    """Share of the exact ``k`` nearest that the resident finds; whatever is as near as the last of them is right."""
    right = 0
    for question in filed.questions:
        found = nearest(filed.connection, filed.space, question.tobytes(), allowed, k, resident=resident)
        assert found.route == resident.route
        assert len(found.rows) == k
        _, last = filed.truth(question, allowed, k)
        right += sum(cosine >= last - 1e-6 for _, cosine in found.rows)
    return right / (k * len(filed.questions))


def test_bits_and_int8_find_what_is_nearest(filed: Filed) -> None:
    """The cascade of large indexes, also with filters: .99 of the ten nearest, .98 of the hundred."""
    resident = Resident(filed.space, float_rows=0)
    assert resident.refresh(filed.connection)
    assert resident.route == "resident-int8+bits", resident.describe()
    for allowed in (EVERYTHING, HALF, TWENTIETH):
        assert recall(filed, resident, allowed, 10) >= 0.99, resident.describe()
    assert recall(filed, resident, EVERYTHING, 100) >= 0.98, resident.describe()


def test_int8_alone_finds_what_is_nearest(filed: Filed, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left where bits cannot be counted or trusted."""
    from memory_sqlite.search.vectors import codes

    monkeypatch.setattr(codes, "has_bit_count", lambda: False)
    resident = Resident(filed.space, float_rows=0)
    assert resident.refresh(filed.connection)
    assert resident.route == "resident-int8"
    assert recall(filed, resident, EVERYTHING, 10) >= 0.999


def test_exact_routes_are_equal(filed: Filed) -> None:
    """The same rows with the same cosines, whatever is installed, and those of the matrix."""
    connection, space = filed.connection, filed.space
    resident = Resident(space, float_rows=2 * ROWS)
    assert resident.refresh(connection)
    assert resident.route == "resident-float32"
    for question in filed.questions[:3]:
        for allowed in (EVERYTHING, TWENTIETH):
            asked = (connection, space, question.tobytes(), allowed, 10)
            rows = nearest(*asked, resident=resident).rows
            assert {chunk for chunk, _ in rows} == set(filed.truth(question, allowed, 10)[0])
            assert nearest(*asked, route="exact-python").rows == rows
            assert nearest(*asked, route="exact-numpy").rows == rows
            if extension.load(connection):
                assert nearest(*asked, route="sqlite-vec").rows == rows
