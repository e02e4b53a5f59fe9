"""Naming facts holds for any text: it never fails, a name is found in itself and in a sentence, order counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_sqlite import errors
from memory_sqlite.agent import stating
from memory_sqlite.config import Settings
from memory_sqlite.model import SessionInfo
from memory_sqlite.recall.naming import Naming, words_of

WORDS = st.text("abcdefgho", min_size=1, max_size=8)


def never(word: str) -> bool:
    return False


@given(st.text(), st.lists(st.text(), max_size=4))
def test_any_words_and_any_names(words: str, names: list[str]) -> None:
    """Nothing in them is syntax; a name without a word in it names nothing."""
    phrases = [words_of(name) for name in names]
    naming = Naming(words, phrases, never)
    for phrase in phrases:
        assert isinstance(naming.holds(phrase), bool)
        assert phrase or not naming.holds(phrase)


@given(st.text(min_size=1), st.text())
def test_a_name_stands_in_itself(name: str, more: str) -> None:
    """Alone, and behind other words."""
    phrase = words_of(name)
    assert not phrase or Naming(name, [phrase], never).holds(phrase)
    assert not phrase or Naming(f"{more}\n{name}", [phrase], never).holds(phrase)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
    | st.text(".,-_%\u0301\u3002", min_size=1)
)
def test_what_can_be_stated_as_a_name_can_be_named(name: str) -> None:
    """And nothing else is taken for one: only a name with a word in it is ever found."""
    try:
        prepared = stating.prepare(
            SessionInfo("s"), [{"content": "Stands.", "name": name}], Settings(redact_secrets=False)
        )
    except errors.InvalidArgument:
        assert not name.strip() or "\0" in name or not words_of(" ".join(name.split()))
    else:
        assert words_of(prepared.facts[0].names[0])


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, min_size=1, max_size=3))
def test_without_slips_a_name_is_a_run_of_the_words(words: list[str], name: list[str]) -> None:
    """Exactly then: where every word is known, none counts as a slip."""
    said, phrase = words_of(" ".join(words)), words_of(" ".join(name))
    runs = {said[at : at + len(phrase)] for at in range(len(said))}
    assert Naming(" ".join(words), [phrase], lambda word: True).holds(phrase) == (phrase in runs)
