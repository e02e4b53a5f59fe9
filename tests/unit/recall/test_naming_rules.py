"""When words name a fact: whole names, one slip of the keys, and what is never a name. Invented words only."""

from __future__ import annotations

import pytest

from memory_sqlite.recall.naming import Naming, is_everyday, is_slip, words_of

NAMES = (
    "lighthouse ledger",
    "quokka",
    "turbine_rotor",
    "express",
    "C++",
    "node.js",
    "路由器",
    "ノート",
    "회의록",
    "🚀",
    "harbor gateways",
    "composer",
)


def named(words: str, known: frozenset[str] = frozenset(), names: tuple[str, ...] = NAMES) -> set[str]:
    phrases = {name: words_of(name) for name in names}
    naming = Naming(words, phrases.values(), known.__contains__)
    return {name for name, phrase in phrases.items() if naming.holds(phrase)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Where does the Lighthouse Ledger live?", {"lighthouse ledger"}),
        ("the lighthouse and its ledger", set()),
        ("ledger lighthouse", set()),
        ("lighthouse", set()),
        ("turbine rotor, or turbine-rotor, or turbine_rotor", {"turbine_rotor"}),
        ("all QUOKKAS here", {"quokka"}),
        ("the harbor gateway is down", {"harbor gateways"}),
        ("is it C++ or C?", {"C++"}),
        ("just C", set()),
        ("node.js and node js", {"node.js"}),
        ("node is down", set()),
        ("我们的路由器在哪里", {"路由器"}),
        ("路由", set()),
        ("我們的路由器在哪裡", {"路由器"}),
        ("このノートを見て", {"ノート"}),
        ("어제의 회의록을 찾아줘", {"회의록"}),
        ("launch 🚀 now", {"🚀"}),
        ("", set()),
        ("\x00 ' OR 1=1 -- \" NEAR(", set()),
    ],
)
def test_a_name_stands_whole_and_in_its_order(words: str, expected: set[str]) -> None:
    """In any case, number and spelling of its joints; never in part, never in another order."""
    assert named(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("qoukka", set()),  # its second letter is wrong
        ("quoka", {"quokka"}),  # one less
        ("quokkka", {"quokka"}),  # one more
        ("quolka", {"quokka"}),  # another
        ("quokak", {"quokka"}),  # two swapped
        ("quolla", set()),  # two edits
        ("quokkar", set()),  # a letter more at the end is another word
        ("the lighthuose ledgre", {"lighthouse ledger"}),
        ("exprss", {"express"}),
        ("compose", {"composer"}),  # a letter less at the end is a slip
        ("nodde.js", set()),  # node is too short to be meant
    ],
)
def test_one_slip_of_the_keys_is_forgiven(words: str, expected: set[str]) -> None:
    """One edit on a word that nobody knows, the first two letters right, the word that was meant long enough."""
    assert named(words) == expected


def test_a_known_word_is_no_slip() -> None:
    """Neither one that facts hold, nor an everyday one, nor one that is itself a name."""
    assert named("quoka", frozenset({"quoka"})) == set()
    assert named("we talked about the later one", names=("latter",)) == set()
    assert named("compose", names=("composer", "compose")) == {"compose"}


def test_what_facts_hold_is_asked_only_of_likely_slips() -> None:
    """The texts of facts are not read for a question without one."""
    asked: list[str] = []

    def is_known(word: str) -> bool:
        asked.append(word)
        return False

    Naming("zebra wanders over quoka hills", [words_of("quokka")], is_known)
    assert asked == ["quoka"]


def test_everyday_words_name_nothing() -> None:
    """They are no names of facts found in talk; a phrase of them may be one."""
    assert is_everyday(words_of("work")) and is_everyday(words_of("works"))
    assert not is_everyday(words_of("quokka")) and not is_everyday(words_of("night work"))


def test_slips_are_symmetrical_but_for_the_ending() -> None:
    """The rule on two words alone."""
    assert is_slip("lantren", "lantern") and is_slip("lanten", "lantern")
    assert not is_slip("lanterns", "lantern") and not is_slip("lantern", "lantern")
