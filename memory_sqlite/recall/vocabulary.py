"""What one generation knows about words, in the form in which ``terms`` asks: stems and shares of rows."""

from __future__ import annotations

import apsw

from memory_sqlite.recall.terms import COUNTED_ROWS
from memory_sqlite.search.vocabulary import Vocabulary


class KnownWords:
    """Stems and shares of one generation, for the length of one recall; each word is looked up once."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._vocabulary = Vocabulary(connection)
        rows = connection.execute("SELECT coalesce(sum(row_count), 0) FROM statistics WHERE name <> 'context'").get
        self._rows = rows if isinstance(rows, int) else 0
        self._stems: dict[str, str] = {}

    def stem(self, token: str) -> str:
        """The form in which two words are compared. Porter's step for a last y comes before that for endings, so that
        "deploy" and "deployment" meet only when the stem is stemmed again."""
        known = self._stems.get(token)
        if known is None:
            known = self._stems[token] = self._vocabulary.stem(self._vocabulary.stem(token))
        return known

    def share(self, token: str) -> float:
        """In which part of the rows a token occurs, 0 while there are too few rows to tell."""
        return self._vocabulary.count(token) / self._rows if self._rows >= COUNTED_ROWS else 0.0
