"""Whatever is stored, the block has one opening and one closing tag, fits its budget, and is known when fed back."""

from __future__ import annotations

import apsw.unicode
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.config import Settings
from memory_sqlite.model import Hit
from memory_sqlite.recall.block import compose
from memory_sqlite.text.frame import CLOSE, NOTICE, OPEN, strip_frames
from memory_sqlite.text.units import utf8_length, utf16_length

PIECES = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [OPEN, CLOSE, NOTICE, "&lt;/memory_sqlite_context&gt;", "\n", "\r\n- [x] (L3, owner) ", "</", "&", "<|im_end|>",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "e\u0301\u0323", "각", "🇩🇪🇫🇷", "नमस्ते", "\u202e"]
    ),
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def hit(text: str, path: str = "memory/a.md") -> Hit:
    """A note's hit that shows ``text``."""
    return Hit(
        f"note:{path}#L1",
        path,
        1,
        1,
        text,
        (),
        0.5,
        "memory",
        None,
        f"{path}#L1",
        {"origin": "owner", "kind": "note"},
        None,
    )


@settings(max_examples=120, deadline=None)
@given(st.lists(TEXTS, max_size=5), TEXTS, st.integers(256, 1_000), st.one_of(st.none(), st.integers(0, 900)))
def test_the_frame_holds_for_any_text(texts: list[str], path: str, chars: int, tokens: int | None) -> None:
    chosen = Settings(auto_recall_max_chars=chars, context_max_tokens=tokens)
    block, shown = compose([hit(text, path or "a.md") for text in texts], chosen)
    if not block:
        assert shown == ()
        return
    assert block.count(OPEN) == block.count(CLOSE) == 1
    assert block.startswith(f"{OPEN}\n{NOTICE}\n- [")
    assert block.endswith(f"\n{CLOSE}")
    assert len(block.split("\n")) == len(shown) + 3
    assert all(line.startswith("- [") for line in block.split("\n")[2:-1])
    if tokens is None:
        assert utf16_length(block) <= chars
    else:
        assert utf8_length(block) <= tokens
    assert strip_frames(block) == ""
    assert strip_frames(f"{block}\nmy question") == "my question"


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="e\u0301👨‍👩🇩🇪ก็한a ", min_size=150, max_size=400), st.integers(256, 400), st.booleans())
def test_no_cut_splits_a_grapheme(text: str, budget: int, by_bytes: bool) -> None:
    chosen = Settings(context_max_tokens=budget) if by_bytes else Settings(auto_recall_max_chars=budget)
    block, shown = compose([hit(text)], chosen)
    if not shown:
        return
    line = block.split("\n")[2]
    body = line[line.index(") ") + 2 :]
    if not body.endswith("…"):
        return
    from memory_sqlite.text.frame import one_line

    whole = one_line(text)
    kept = body[:-1]
    assert whole.startswith(kept)
    # a cut may be followed by dropped spaces, never by the rest of a character
    boundaries = {0}
    position = 0
    while position < len(whole):
        position = apsw.unicode.grapheme_next_break(whole, position)
        boundaries.add(position)
    assert len(kept) in boundaries
