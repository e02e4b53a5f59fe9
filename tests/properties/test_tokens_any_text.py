"""Tokens of any text: total, stable, safe to put into MATCH, and the same for text and query."""

from __future__ import annotations

import unicodedata

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.generations.layout import FTS_TOKENIZER
from memory_sqlite.search.folding import fold
from memory_sqlite.search.marks import MarkFinder
from memory_sqlite.search.match import quoted
from memory_sqlite.search.query import understand
from memory_sqlite.search.tokens import TOKEN_MAX_CHARS, groups, tokenise

ANY = st.text(alphabet=st.characters(codec=None), max_size=80)
"""Every code point there is, lone surrogates and NUL among them."""
MIXED = st.lists(
    st.sampled_from(
        [
            *("ERR_CONN", "don't", "数据库", "ﾌﾟﾘﾝ", "İI", "ß", "ﬁle", "🚀", "C++", "a.b/c", "12,500", "né", "e\u0301"),
            *("\x00", "\ud800", '"', "*", "(", " ", "\n", "-"),
        ]
    ),
    max_size=14,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.one_of(ANY, MIXED))
def test_tokens_are_safe_and_short(text: str) -> None:
    """No separator, quote mark, NUL or surrogate, and none that is empty or too long."""
    for token in tokenise(text):
        assert 0 < len(token) <= TOKEN_MAX_CHARS
        assert not set(token) & set(' "\x00\n\t')
        assert not token.endswith(".")  # filter tokens do
        token.encode("utf-8")


@settings(max_examples=300, deadline=None)
@given(st.one_of(ANY, MIXED))
def test_text_and_query_take_the_same_way(text: str) -> None:
    """Groups, from which queries are made, are the same tokens in the same order."""
    assert tokenise(text) == [token for group in groups(fold(text)) for token in group.tokens]


@settings(max_examples=300, deadline=None)
@given(st.one_of(ANY, MIXED))
def test_normal_form_does_not_matter(text: str) -> None:
    """Composed or decomposed, the tokens are the same."""
    clean = text.encode("utf-8", "ignore").decode("utf-8")
    assert tokenise(unicodedata.normalize("NFC", clean)) == tokenise(unicodedata.normalize("NFD", clean))


@settings(max_examples=150, deadline=None)
@given(MIXED, MIXED, MIXED)
def test_fts_keeps_our_tokens_whole(before: str, text: str, after: str) -> None:
    """What we join with spaces FTS5 splits at the spaces and nowhere else, so any token finds its row."""
    tokens = tokenise(f"{before} {text} {after}")
    connection = apsw.Connection(":memory:")
    connection.execute(f"""CREATE VIRTUAL TABLE t USING fts5(b, content='', tokenize="{FTS_TOKENIZER}")""")
    connection.execute("INSERT INTO t (rowid, b) VALUES (1, ?)", (" ".join(tokens),))
    for token in set(tokens):
        assert connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (quoted([token]),)).get == 1
    if tokens:
        assert connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (quoted(tokens),)).get == 1


@settings(max_examples=200, deadline=None)
@given(st.one_of(ANY, MIXED))
def test_understanding_never_fails(text: str) -> None:
    """Any text is a query; every probe is made of tokens."""
    query = understand(text, now_ms=1_796_040_000_000)
    for term in query.terms:
        assert term.probes
        assert all(token and " " not in token for probe in term.probes for token in probe)


@settings(max_examples=200, deadline=None)
@given(st.one_of(ANY, MIXED))
def test_marks_lie_inside_the_text(text: str) -> None:
    """Offsets of matches are valid, and a token of the text is always found in it."""
    tokens = tokenise(text)
    marks = MarkFinder(dict.fromkeys(tokens, 1.0), lambda token: token).find(text)
    assert bool(marks) == bool(tokens)
    for mark in marks:
        assert 0 <= mark.start < mark.end <= len(text)
