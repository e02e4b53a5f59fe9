"""Several terms: all, then most, rare ones first; phrases, unfinished and misspelt words among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

Make = Callable[[Mapping[str, str]], Any]
FILLER = "The weather was mild and nothing else happened on that day. "


def test_all_then_most_then_one(make_index: Make) -> None:
    """A note that holds every term stands above one that holds most, however often that one repeats them."""
    index = make_index(
        {
            "memory/all.md": f"{FILLER * 3}The router in the attic got a VLAN for the cameras.",
            "memory/most.md": "Router, attic, router, attic, router, attic: the cameras, the cameras.",
            "memory/some.md": "Router attic router attic router attic.",
            "memory/one.md": "Cameras cameras cameras cameras cameras.",
            "memory/none.md": FILLER,
        }
    )
    assert index.paths("router attic VLAN cameras") == ["all.md", "most.md", "some.md", "one.md"]


def test_the_rare_term_decides(make_index: Make) -> None:
    """Of two notes with one term each, the one with the rarer term is first; what everybody says comes last."""
    index = make_index(
        {
            "memory/rare.md": "A zeppelin was seen.",
            **{f"memory/n{number}.md": f"The report number {number} was filed." for number in range(12)},
        }
    )
    found = index.paths("zeppelin report", max_results=20)
    assert found[0] == "rare.md"
    assert len(found) == 13


def test_rare_and_common_in_chinese(make_index: Make) -> None:
    """The same for pairs of characters in a run without spaces."""
    index = make_index(
        {
            "memory/rare.md": "飞艇飘过港口。",
            **{f"memory/n{number}.md": f"第{number}份报告已经归档。" for number in range(12)},
        }
    )
    assert index.paths("飞艇报告", max_results=20)[0] == "rare.md"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"north tower"', {"phrase.md"}),
        ('lamp "north tower"', {"phrase.md"}),
        ("“north tower”", {"phrase.md"}),
        ('"tower north"', set()),
        ('"數據庫備份"', {"zh.md"}),
        ("“数据库备份”", {"zh.md"}),
        ('"备份数据库"', set()),
        ('"회의록 정리"', {"ko.md"}),
        ('"nørth tower"', {"phrase.md"}),
    ],
)
def test_a_quoted_phrase_is_demanded(make_index: Make, query: str, expected: set[str]) -> None:
    """In this order and next to one another, in any script and form of its characters."""
    index = make_index(
        {
            "memory/phrase.md": "The lamp hangs in the north tower.",
            "memory/words.md": "The tower stands to the north of the lamp.",
            "memory/zh.md": "每晚运行数据库备份。",
            "memory/zh2.md": "备份完成后检查数据库。",
            "memory/ko.md": "회의록 정리를 끝냈다.",
            "memory/ko2.md": "정리한 회의록이다.",
        }
    )
    assert set(index.paths(query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("harbour conf", "net.md"),
        ("harbour confi", "net.md"),
        ("маршрут", "ru.md"),
        ("crem*", "tea.md"),
        ("harbour rooter", "net.md"),
        ("harbour oruter", "net.md"),
        ("configurtaion", "net.md"),
        ("cnofigurtaion", "net.md"),
        ("маршрутизотор", "ru.md"),
        ("crème", "tea.md"),
        ("creme brulee", "tea.md"),
        ("CREME BRULE", "tea.md"),
    ],
)
def test_unfinished_and_misspelt_words(make_index: Make, query: str, expected: str) -> None:
    """A word that occurs nowhere is tried as a beginning, then with one edit, two from six letters on."""
    index = make_index(
        {
            "memory/net.md": "The harbour router configuration is in the vault.",
            "memory/sea.md": "The harbour was closed; boats stayed in the bay.",
            "memory/ru.md": "Маршрутизатор стоит в подвале.",
            "memory/tea.md": "Crème brûlée with tea.",
        }
    )
    assert index.paths(query)[0] == expected


@pytest.mark.parametrize("query", ["4712", "xqzt", "ab", "rout3r-99"])
def test_what_is_not_stretched(make_index: Make, query: str) -> None:
    """Numbers and codes mean what they say, and a few letters could be anything."""
    index = make_index({"memory/a.md": "The code is 4711.", "memory/b.md": "The router: ac, xenon."})
    assert index.paths(query) == []
