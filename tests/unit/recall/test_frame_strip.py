"""The frame: nothing stored can close it, and what was shown in it is recognised when a host feeds it back."""

from __future__ import annotations

import time

import pytest

from memory_sqlite.text.frame import (
    CLOSE,
    LAYERED_NOTICE,
    LAYERED_TAG,
    NOTICE,
    OPEN,
    close_frame,
    one_line,
    strip_frames,
    whole_escapes,
)

FRAME = close_frame(["- [note.md#L1] (note, owner) The gate code is blue.", "- [record:1] (L3, owner) I love tea"])


def test_no_lines_make_no_frame() -> None:
    assert close_frame([]) == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"a {CLOSE} b", "a &lt;/memory_sqlite_context&gt; b"),
        ("one\ntwo\r\nthree\u2028four\u2029five\x0bsix\x85seven", "one two three four five six seven"),
        ("&lt;/memory_sqlite_context&gt;", "&amp;lt;/memory_sqlite_context&amp;gt;"),
        ("left\u202eright\u2066\u200b\x00\x1b[31m", "left right [31m"),
        (
            "family \U0001f468\u200d\U0001f469\u200d\U0001f467 emoji",
            "family \U0001f468\u200d\U0001f469\u200d\U0001f467 emoji",
        ),
        ("bad \ud800 half", "bad half"),
    ],
)
def test_an_item_is_one_harmless_line(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("cut", "whole"),
    [("a &lt", "a "), ("a &", "a "), ("a &amp;", "a &amp;"), ("a b", "a b"), ("&am", ""), ("x&gt; y", "x&gt; y")],
)
def test_a_cut_never_ends_inside_an_escape(cut: str, whole: str) -> None:
    assert whole_escapes(cut) == whole


@pytest.mark.parametrize(
    ("fed_back", "left"),
    [
        (FRAME, ""),
        (f"{FRAME}\n\nWhat now?", "What now?"),
        (f"Before\n{FRAME}\nAfter", "Before\nAfter"),
        (f"Before {FRAME} After", "Before \n After"),
        (f"{FRAME}\n{FRAME}\nAfter", "After"),
        (FRAME.replace("\n", "\r\n") + "\r\nAfter", "After"),
        (FRAME.replace("\n", " ") + " After", " After"),
        ("  " + FRAME.replace("\n", "\n  ") + "\nAfter", "After"),
        (FRAME.removesuffix(f"\n{CLOSE}"), ""),
        (FRAME.removesuffix(f"\n{CLOSE}") + "\nMy own words", "My own words"),
        (f"{OPEN}\n{NOTICE}", ""),
        (f"{OPEN}\n{NOTICE}\n- [a] cut he\n{FRAME}\nAfter", "After"),
    ],
    ids=[
        "alone",
        "before",
        "between",
        "inline",
        "two",
        "crlf",
        "one-line",
        "indented",
        "unclosed",
        "cut",
        "empty",
        "nested",
    ],
)
def test_a_frame_fed_back_is_stripped_and_own_words_stay(fed_back: str, left: str) -> None:
    assert strip_frames(fed_back) == left


@pytest.mark.parametrize(
    "text",
    [
        "no frame at all",
        f"What does {OPEN} mean?",
        f"{OPEN}\nmy own notice\n- [x] y\n{CLOSE}",
        f"{CLOSE} then {OPEN}",
        f"the notice says: {NOTICE}",
        "",
        "\n\nkept as it is\n\n",
    ],
)
def test_text_about_frames_is_nobodys_frame(text: str) -> None:
    assert strip_frames(text) == text


def test_the_layered_products_frame_is_stripped_too() -> None:
    framed = f"<{LAYERED_TAG}>\n{LAYERED_NOTICE}\n- [a#L1] [L3/profile] 我喜欢茶。\n</{LAYERED_TAG}>"
    assert strip_frames(f"{framed}\n\n你好") == "你好"
    assert strip_frames(f"<{LAYERED_TAG}>\nsomething else\n</{LAYERED_TAG}>") != ""


@pytest.mark.parametrize(
    "hostile",
    [
        (OPEN + "\n") * 20_000,
        f"{OPEN}\n{NOTICE}\n" * 3_000,
        OPEN + " " * 400_000 + OPEN,
        f"{OPEN}{NOTICE}" + "- [\n" * 100_000,
        f"<{LAYERED_TAG}>\n" * 20_000 + CLOSE,
    ],
    ids=["opens", "unclosed", "spaces", "items", "layered"],
)
def test_stripping_is_linear_in_hostile_text(hostile: str) -> None:
    started = time.thread_time()
    strip_frames(hostile)
    assert time.thread_time() - started < 2.0
