"""What is pushed down holds no line back: the same rows with and without it, however JSON is spelt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from memory_sqlite.query import prefilter

from .query_kit import Answer

WORDS = ["tea", "Tea", "a/b", 'q"q', "back\\slash", "naïve", "喜欢", "tab\there", "\U0001f600", "12", "1.5", "", "x y",
         "{", "[1,2]", "true", "null", "line\nfeed", "\ufffd", "per%cent", "under_score", "Infinity",
         "abcdef ghi"]  # fmt: skip
VALUES = [*WORDS, 12, 1.5, True, None, {"deep": "tea time"}, ["naïve", "a/b"], {"a": 1.0, "b": 1e16}, 1e400]
PATTERNS = ["%tea%", "%TEA%", "te_", "%a/b%", '%q"q%', "%喜欢%", "%1%", "%deep%", "%\\%", "%ef gh%", "%", "%tru%",
            "*tea*", "*Tea", "[tT]ea", "*a?b*", "*naïve*", "*[*]*", "%e+1%", "%nfin%", '%","%', "%: %"]  # fmt: skip


def spelt(value: object, style: int) -> str:
    """One value in several of JSON's spellings."""
    text = json.dumps(value, ensure_ascii=style % 2 == 0, separators=((", ", ": ") if style & 2 else (",", ":")))
    if style & 4:
        text = text.replace("/", "\\/")
    if style & 8:
        text = text.replace("e", "\\u0065") if '"' in text and "true" not in text and "1e" not in text else text
    return text.replace("Infinity", "1e999") if value == 1e400 else text


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lines=some.lists(some.tuples(some.sampled_from(VALUES), some.integers(0, 15)), min_size=1, max_size=40),
    word=some.sampled_from(WORDS),
    pattern=some.sampled_from(PATTERNS),
)
def test_a_condition_pushed_down_gives_the_same_rows(
    tmp_path: Path, lines: list[tuple[object, int]], word: str, pattern: str
) -> None:
    """``+column`` keeps SQLite from handing the condition over; both ways must agree."""
    file = tmp_path / "p.jsonl"
    text = "\n".join(f'{{"k":{spelt(value, style)},"other":"tea"}}' for value, style in lines)
    file.write_bytes(text.encode() + b'\n{"k":"tea\xff"}\n{"k":"te\\u0061"}\nnot json tea\n')
    operator = "GLOB" if "*" in pattern or "[" in pattern else "LIKE"
    for condition, said in (
        ("k = :w", "+k = :w"),
        ("k IN (:w, 'tea')", "+k IN (:w, 'tea')"),
        (f"k {operator} :p", f"+k {operator} :p"),
        (f"raw {operator} :p", f"+raw {operator} :p"),
        (f"value {operator} :p", f"+value {operator} :p"),
        ("k = :w COLLATE NOCASE", "+k = :w COLLATE NOCASE"),
    ):
        sql = "SELECT line, k FROM jsonl(:f, 'k') WHERE "
        values = {"f": str(file), "w": word, "p": pattern}
        assert Answer(sql + condition, values).rows == Answer(sql + said, values).rows, condition


@pytest.mark.parametrize("value", ["", "12", "-1.5e3", "{x", "[", "\ufffd", 5, None])
def test_what_has_no_one_spelling_has_no_needle(value: object) -> None:
    assert prefilter.of_value("=", value) is None


def test_needles() -> None:
    """The bytes of a text, of each spelling; the longest literal piece of a pattern; in lower case for LIKE."""
    assert prefilter.of_value("=", "a/b") == prefilter.Needle((b'"a/b"', b"\\/", b"\\u"))
    assert prefilter.of_value("=", {"tea"}) == prefilter.Needle((b'"tea"', b"\\u"))
    assert prefilter.of_text("LIKE", "%ab%GRANITE_x%") == prefilter.Needle((b"granite",), fold=True)
    assert prefilter.of_text("GLOB", "*Gran[iI]te*") == prefilter.Needle((b"Gran",))
    assert prefilter.of_text("LIKE", "%a%") is None
    assert prefilter.of_value("LIKE", "%1234%") is None
    few, many = prefilter.Needle((b"abc",)), prefilter.Needle((b"abcdef", b"\\u"))
    assert prefilter.best([None, many, few]) == few


def test_another_collation_is_not_pushed_down(tmp_path: Path) -> None:
    """``=`` means equal bytes only where SQLite compares bytes."""
    file = tmp_path / "Case.jsonl"
    file.write_text('{"k":"Tea"}\n{"k":"tea "}\n')
    sql = "SELECT line FROM jsonl(?) WHERE "
    assert Answer(sql + "k = 'TEA' COLLATE NOCASE", [str(file)]).rows == [(1,)]
    assert Answer(sql + "k = 'tea' COLLATE RTRIM", [str(file)]).rows == [(2,)]
    assert len(Answer(sql + "file = ? COLLATE NOCASE", [str(file), str(file).upper()]).rows) == 2
