"""Korean, Japanese and Chinese as people type them: particles, short words, widths, scripts beside one another."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memory_sqlite.search.folding import search_form
from memory_sqlite.search.hangul import is_ending, word_length
from memory_sqlite.search.query import understand
from memory_sqlite.search.tokens import tokenise

Make = Callable[[Mapping[str, str]], Any]


def _invented() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cjk_questions", Path(__file__).with_name("cjk_questions.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INVENTED = _invented()


def _index(make_index: Make, notes: Mapping[str, str]) -> Any:
    return make_index({f"memory/{name}": text for name, text in notes.items()})


@pytest.mark.parametrize(("question", "expected"), INVENTED.KOREAN_QUESTIONS)
def test_korean_questions(make_index: Make, question: str, expected: str) -> None:
    """The word is found under another particle than the one it was asked with, and a shared ending finds nothing."""
    assert _index(make_index, INVENTED.KOREAN_NOTES).paths(question)[0] == expected


@pytest.mark.parametrize(("question", "expected"), INVENTED.JAPANESE_QUESTIONS)
def test_japanese_questions(make_index: Make, question: str, expected: str) -> None:
    """Without spaces, with particles and polite endings, in any width."""
    assert _index(make_index, INVENTED.JAPANESE_NOTES).paths(question)[0] == expected


@pytest.mark.parametrize(
    ("run", "word"),
    [
        ("회의는", "회의"),
        ("회의를", "회의"),
        ("회의", "회의"),
        ("회의록", "회의록"),
        ("학교에서", "학교"),
        ("집에서", "집"),
        ("가을", "가을"),
        ("마을에서는", "마을"),
        ("시작하나요", "시작"),
        ("에서", "에서"),
        ("도서관", "도서관"),
        ("会議は", "会議は"),
    ],
)
def test_where_a_korean_word_ends(run: str, word: str) -> None:
    """The longest ending is cut, never the whole word, and never one character from a word of two."""
    assert run[: word_length(run)] == word


def test_what_an_ending_is_worth() -> None:
    """Pairs that hold an ending count little, grammar counts nothing, and the word is looked for as a run."""
    weights = {term.text: term.weight for term in understand("회의록을 어디에서", now_ms=0).terms if term.kind == "cjk"}
    assert weights == {"회의": 1.0, "의록": 1.0, "록을": 0.3, "디에": 0.3}
    kinds = {term.text for term in understand("회의록을", now_ms=0).terms if term.kind == "run"}
    assert kinds == {"회 회의 의 의록 록"}
    assert is_ending("에서") and is_ending("를") and not is_ending("회의")


@pytest.mark.parametrize("query", ["Docker를", "Docker에서 실행", "docker는?"])
def test_a_particle_on_a_word_of_another_script(make_index: Make, query: str) -> None:
    """``Docker를`` looks for Docker and for no particle."""
    index = make_index(
        {"memory/a.md": "Docker 설정을 바꿨다.", "memory/b.md": "서버를 껐다. 집에서 일했다. 나는 쉬었다."}
    )
    assert index.paths(query) == ["a.md"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("犬", {"ja.md"}),
        ("朝", {"ja.md"}),
        ("猫", {"zh.md"}),
        ("茶", {"zh.md", "ko.md"}),
        ("차", {"ko.md"}),
        ("보리", {"ko.md"}),
        ("散歩", {"ja.md"}),
        ("散步", {"ja.md"}),
        ("Z9", {"zh.md"}),
    ],
)
def test_one_and_two_characters(make_index: Make, query: str, expected: set[str]) -> None:
    """The shortest word there is finds every note that holds it."""
    index = make_index(
        {
            "memory/ja.md": "犬の散歩は朝六時。",
            "memory/zh.md": "猫的茶杯在Z9柜子里。",
            "memory/ko.md": "할머니는 보리차(茶)를 좋아하신다.",
            "memory/en.md": "Nothing of the kind.",
        }
    )
    assert set(index.paths(query)) == expected


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("ﾌﾟﾘﾝﾀｰ", "プリンター"),
        ("ﾊﾟｿｺﾝ", "パソコン"),
        ("ｳﾞｧｲｵﾘﾝ", "ヴァイオリン"),
        ("ｶﾞｷﾞｸﾞ", "ガギグ"),
        ("ＡＢＣ１２３", "ABC123"),
        ("Ｋａｆｆｅｅ", "kaffee"),
        ("㈱", "(株)"),
        ("①", "1"),
        ("ﾊﾝｸﾞﾙ", "ハングル"),
        ("ﾡﾷ", "ㄱㅇ"),
        (unicodedata.normalize("NFD", "비밀번호"), "비밀번호"),
        (unicodedata.normalize("NFD", "がぎぐパピプ"), "がぎぐパピプ"),
    ],
)
def test_widths_and_composed_forms_are_one(typed: str, stored: str) -> None:
    """Half width with (semi)voiced marks, full width, circled, jamo: the same tokens on both sides."""
    assert search_form(typed).casefold() == search_form(stored).casefold()
    assert tokenise(typed) == tokenise(stored)


@pytest.mark.parametrize("query", ["에서는", "는", "は", "的", "什么", "어떻게", "なに"])
def test_grammar_alone_is_no_error(make_index: Make, query: str) -> None:
    """It finds what holds those characters, or nothing."""
    hits, info = make_index({"memory/a.md": "数据库。データ。데이터."}).search(query)
    assert hits == []
    assert info.warnings == ()
