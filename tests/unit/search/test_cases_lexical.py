"""Cases from real bugs of memory products that concern words: each named by its id, inputs copied."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Make = Callable[[Mapping[str, str]], Any]


def test_case_C002_colons_and_paths_are_words(make_index: Make) -> None:
    """A colon is never a column filter: labels, drives and made-up columns are words."""
    index = make_index(
        {
            "memory/win.md": "Settings are in C:\\Data\\demo\\settings.yaml on the bench laptop.\n",
            "memory/todo.md": "NOTE: oil the kettle hinge before Friday.\n",
            "memory/err.md": "The probe logged fault:overheat near noon.\n",
        }
    )
    assert index.paths("C:\\Data\\demo")[0] == "win.md"
    assert index.paths("NOTE: oil")[0] == "todo.md"
    assert index.paths("fault:overheat")[0] == "err.md"
    # "settings" is a word of win.md; whether a column is called "path" or "nosuch" makes no difference
    assert index.paths("path:settings") == index.paths("nosuch:settings") == ["win.md"]


def test_case_C004_apostrophes_and_quotes(make_index: Make) -> None:
    """Both apostrophes are one; a balanced phrase is demanded, an unbalanced one is its words."""
    index = make_index(
        {
            "memory/q.md": "We don't merge the quartz branch on Fridays.\n",
            "memory/q2.md": "They don\u2019t merge the basalt branch either.\n",
        }
    )
    assert set(index.paths("don't merge")) == set(index.paths("don\u2019t merge")) == {"q.md", "q2.md"}
    assert index.paths('"quartz branch"') == ["q.md"]
    assert index.paths('"quartz branch')[0] == "q.md"
    assert index.paths("'''") == []
    assert index.paths("a'b") == []


def test_case_C006_user_text_is_never_syntax(make_index: Make) -> None:
    """Column filters, stars, FTS commands and SQL in a query are words or nothing."""
    index = make_index(
        {
            "memory/a.md": "The harbor crane needs grease.\n",
            "memory/b.md": "A rebuild is planned for the dock.\n",
        }
    )
    tables = index.connection.execute("SELECT count(*) FROM sqlite_schema").get
    assert index.paths("*") == []
    assert index.paths("rebuild") == ["b.md"]
    for hostile in ("text:harbor", "{text path}:harbor", 'harbor"; DROP TABLE chunks;--', "harbor' OR 1=1 --"):
        assert index.paths(hostile) in (["a.md"], [])
    assert index.connection.execute("SELECT count(*) FROM sqlite_schema").get == tables
    assert index.paths("harbor") == ["a.md"]


def test_case_C008_scores_are_ordered_and_never_vanish(make_index: Make) -> None:
    """Scores are in 0 to 1, larger is better, and a word that is everywhere still finds."""
    filler = "filler words about gardens and roofs " * 20
    files = {
        "memory/s1.md": "zephyr ledger\n",
        "memory/s2.md": f"zephyr\n\n{filler}\n",
        "memory/s3.md": "nothing relevant here\n",
        **{f"memory/c{i}.md": f"common note number {i}\n" for i in range(10)},
    }
    index = make_index(files)
    hits, _ = index.search("zephyr", max_results=5)
    assert [hit.path for hit in hits] == ["memory/s1.md", "memory/s2.md"]
    assert hits[0].score > hits[1].score
    common, _ = index.search("common", max_results=5)
    assert len(common) == 5
    for hit in (*hits, *common):
        assert math.isfinite(hit.score)
        assert 0.0 <= hit.score <= 1.0
    assert [hit.score for hit in common] == sorted((hit.score for hit in common), reverse=True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("istanbul", "tr.md"),
        ("İSTANBUL", "tr.md"),
        ("isparta", "tr.md"),
        ("ılık", "tr2.md"),
        ("strasse", "de.md"),
        ("STRAßE", "de.md"),
        ("ABC123", "fw.md"),
        ("file cabinet", "lig.md"),
        ("café", "nfd.md"),
        ("cafe", "nfd.md"),
    ],
)
def test_case_C010_case_and_form(make_index: Make, query: str, expected: str) -> None:
    """Case and compatibility forms fold alike on both sides.

    The case asks for two runs under two locales; no function used here reads the locale (``str.casefold`` and
    ``unicodedata`` do not), so one run shows both.
    """
    index = make_index(
        {
            "memory/tr.md": "İstanbul ofisi ve ISPARTA deposu.\n",
            "memory/tr2.md": "Bardakta ılık su var.\n",
            "memory/de.md": "Die Straße ist gesperrt.\n",
            "memory/fw.md": "Code ＡＢＣ１２３ is retired.\n",
            "memory/lig.md": "Open the ﬁle cabinet.\n",
            "memory/nfd.md": "Meet at the cafe\u0301 on Monday.\n",
        }
    )
    assert index.paths(query) == [expected]


def test_case_C012_file_names_dates_and_wildcards(make_index: Make) -> None:
    """A name or a date in it finds the note; per cent and underscore are literal."""
    index = make_index(
        {
            "memory/2026-07-02-0915.md": "Short granite remark.\n",
            "memory/kettle-plan.md": "Nothing about that appliance in the body.\n",
            "memory/flag.md": "The 100%_done flag is set.\n",
            "memory/other.md": "The 100xxydone flag is not that one; 1000 undone.\n",
        }
    )
    assert index.paths("2026-07-02-0915")[0] == "2026-07-02-0915.md"
    assert index.paths("2026-07-02")[0] == "2026-07-02-0915.md"
    assert index.paths("kettle-plan")[0] == "kettle-plan.md"
    assert index.paths("100%_done") == ["flag.md"]
    assert len(index.paths("a_b%")) < 4


def test_case_C014_short_queries(make_index: Make) -> None:
    """One and two characters are enough, in any script, alone or beside a longer word."""
    index = make_index(
        {
            "memory/cat.md": "家里的猫怕打雷。\n",
            "memory/rain.md": "打雷下雨，带伞。\n",
            "memory/ai.md": "The NZ team reads QA papers at desk 17.\n",
        }
    )
    assert index.paths("猫") == ["cat.md"]
    assert set(index.paths("打雷")) == {"cat.md", "rain.md"}
    for query in ("QA", "nz", "17", "desk NZ"):
        assert index.paths(query) == ["ai.md"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("折り紙", "ja.md"),
        ("図書館", "ja.md"),
        ("プリンタ", "ja2.md"),
        ("ガイド", "ja3.md"),
        ("종이접기", "ko.md"),
        ("도서관", "ko.md"),
        (unicodedata.normalize("NFD", "종이접기"), "ko.md"),
    ],
)
def test_case_C016_japanese_and_korean(make_index: Make, query: str, expected: str) -> None:
    """Words inside sentences, half-width kana, decomposed kana and jamo are found."""
    index = make_index(
        {
            "memory/ja.md": "今日は図書館で折り紙を習った。\n",
            "memory/ja2.md": "ﾌﾟﾘﾝﾀの紙が切れた。\n",
            "memory/ja3.md": unicodedata.normalize("NFD", "ガイドを読む。\n"),
            "memory/ko.md": "오늘 도서관에서 종이접기를 배웠다.\n",
        }
    )
    assert index.paths(query)[0] == expected


def test_case_C018_full_width_punctuation(make_index: Make) -> None:
    """Full-width marks hide nothing, raise nothing, and matches are marked on the stored characters."""
    index = make_index({"memory/pw.md": "旧柜子编号：ＡＢＣ－１２３（停用）。\n"})
    for query in ("ABC-123", "ＡＢＣ", "编号", "（停用）"):
        assert index.paths(query) == ["pw.md"], query
    assert index.paths("？！") == []
    assert index.paths("「」") == []
    hit = index.search("ABC-123")[0][0]
    assert [hit.excerpt[span.start : span.end] for span in hit.matches] == ["ＡＢＣ－１２３"]


def test_case_C020_one_tokenizer_for_notes_and_sessions(index: Any, note: Any, message: Any) -> None:
    """The same sentence is found in a note and in a transcript, and beyond the BMP too."""
    sentence = "后天早上八点检查船厂排期。"
    index.put(note("memory/a.md", sentence), message(1, 1, sentence), message(1, 2, "𠮷野家の予約"))
    assert index.paths("船厂", sources=("memory",)) == ["a.md"]
    # in the session the message itself comes first; its neighbour is found through it
    assert index.search("船厂", sources=("sessions",))[0][0].message_id == "s1m1"
    both, _ = index.search("船厂")
    # equal texts are one hit: the note (curated) stands for it and names the message
    assert both[0].path == "memory/a.md"
    assert "sessions/token1#L1" in both[0].duplicates
    for query in ("𠮷野", "野家"):
        assert index.search(query, sources=("sessions",))[0][0].message_id == "s1m2"
