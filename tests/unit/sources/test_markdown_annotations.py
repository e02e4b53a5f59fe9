"""Annotations and front matter: what a note says about itself, and that saying it badly hides nothing."""

from __future__ import annotations

import pytest

from memory_sqlite.sources.annotations import take_annotations
from memory_sqlite.sources.front_matter import read_front_matter
from memory_sqlite.sources.markdown import read_markdown


def test_annotations_are_taken_out_of_the_text() -> None:
    """Several in one line, all three kinds, in any case, with either kind of comma."""
    text, said = take_annotations("- Tea. <!-- Trigger: 茶，tea; cup --> <!-- importance: 9 --> <!-- project: a/b -->")
    assert text == "- Tea."
    assert said is not None
    assert (said.triggers, said.importance, said.projects, said.problems) == (("茶", "tea", "cup"), 9, ("a/b",), ())


def test_text_around_an_annotation_stays() -> None:
    """In front of it, behind it and between two."""
    assert take_annotations("a <!-- trigger: x --> b <!-- project: p --> c")[0] == "a b c"
    assert take_annotations("<!-- trigger: x --> - b")[0] == "- b"


@pytest.mark.parametrize(
    "line", ["a <!-- note to self --> b", "use `<!-- trigger: x -->` so", "`` ` <!-- trigger: x --> ``"]
)
def test_ordinary_comments_and_code_stay(line: str) -> None:
    """They are the user's words."""
    assert take_annotations(line) == (line, None)


@pytest.mark.parametrize("value", ["0", "11", "-1", "3.5", "high", "９", ""])
def test_bad_importance_is_reported_and_its_entry_stays(value: str) -> None:
    """Never hidden, never guessed (a peer drops such an entry from every search)."""
    note = read_markdown(f"- Keep me. <!-- importance: {value} -->\n", curated=True)
    assert note.chunks[0].text.startswith("- Keep me.") and note.chunks[0].importance is None
    assert note.problems == ((1, "importance is not a whole number from 1 to 10"),)


def test_unclosed_and_empty_markers_are_reported() -> None:
    """With their lines."""
    note = read_markdown("- a <!-- project: -->\n- b <!-- trigger: x\n- c <!-- project: a key -->\n", curated=True)
    assert [chunk.text for chunk in note.chunks] == ["- a", "- b <!-- trigger: x", "- c <!-- project: a key -->"]
    assert [line for line, _ in note.problems] == [1, 2, 3]


def test_annotations_belong_to_their_entry() -> None:
    """To the entry they are in, in its nested lines or right below it; the highest importance counts."""
    text = (
        "# M\n- a <!-- trigger: x -->\n  more <!-- importance: 2 --> <!-- importance: 7 -->\n"
        "- b\n<!-- project: p -->\n- c\n"
    )
    chunks = read_markdown(text, curated=True).chunks
    assert [(c.triggers, c.importance, c.projects) for c in chunks] == [
        (("x",), 7, ()),
        ((), None, ("p",)),
        ((), None, ()),
    ]


def test_annotated_entry_of_an_ordinary_note_stands_alone() -> None:
    """A project is then not said of its neighbours."""
    text = "# Projects\n\n- Harbor <!-- project: h -->\n- Lighthouse <!-- project: l -->\n- Ledger\n- Garden\n"
    chunks = read_markdown(text).chunks
    assert [(c.start_line, c.end_line, c.projects) for c in chunks] == [(1, 3, ("h",)), (4, 4, ("l",)), (5, 6, ())]


def test_torn_entry_carries_its_annotations_in_each_part() -> None:
    """A long entry is one memory in several chunks."""
    chunks = read_markdown("- " + "word " * 900 + "<!-- importance: 8 -->\n", curated=True).chunks
    assert len(chunks) > 2 and {chunk.importance for chunk in chunks} == {8}


def test_annotation_above_a_heading_goes_to_what_follows() -> None:
    """Also in a fence there is none."""
    chunks = read_markdown("<!-- trigger: x -->\n# A\ntext\n```\n<!-- trigger: y -->\n```\n").chunks
    assert [chunk.triggers for chunk in chunks] == [("x",)]
    assert "trigger: y" in chunks[0].text


def test_front_matter_applies_to_all_chunks_and_stays_searchable() -> None:
    """An entry's own importance and project go before the note's; lines are not shifted."""
    text = (
        "---\ntitle: 'It''s \"so\"'\ntags: [a, \"b, c\"]\n"
        "importance: 4\nproject: whole\ntriggers:\n  - one\n  - two\n---\n"
        "# Heading\nText.\n\n- own <!-- project: mine --> <!-- trigger: three -->\n"
    )
    note = read_markdown(text)
    assert note.front.values["title"] == 'It\'s "so"' and note.front.values["tags"] == ("a", "b, c")
    first, second = note.chunks
    assert (first.start_line, first.end_line, first.heading) == (1, 11, "Heading") and "tags:" in first.text
    assert (first.triggers, first.importance, first.projects) == (("one", "two"), 4, ("whole",))
    assert (second.triggers, second.importance, second.projects) == (("three", "one", "two"), 4, ("mine",))
    assert second.start_line == 13 and note.problems == ()


def test_front_matter_values() -> None:
    """The shapes that notes use; what is deeper is kept as text."""
    block = (
        "---\na: x # note\nb: |\n  two\n  lines\nc: >-\n  folded\n  text\n"
        'd: "q\\"\\n"\ne:\n  f: 1\n  g: 2\nh: [x\nurl: http://x/#y\n...\n'
    )
    front = read_front_matter(block.split("\n"))
    assert dict(front.values) == {
        "a": "x", "b": "two\nlines", "c": "folded text", "d": 'q"\n', "e": "f: 1\ng: 2", "h": "[x", "url": "http://x/#y",
    }  # fmt: skip
    assert front.problems == ((13, "front matter value is not closed; read as text"),)
    assert front.lines == 15


def test_a_rule_is_no_front_matter() -> None:
    """Nor is what is never closed, which is reported because it looks like it."""
    assert read_front_matter(["---", "A text.", "---"]).lines == 0
    assert read_front_matter(["---", "A text."]).problems == ()
    assert read_front_matter(["---", "a: b", "text"]).problems == (
        (1, "front matter is not closed; read as ordinary text"),
    )
