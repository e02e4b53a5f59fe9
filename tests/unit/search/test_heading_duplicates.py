"""Two notes that say the same under titles of their own are one hit; of short ones the title is what they say."""

from __future__ import annotations

from pathlib import Path

from memory_sqlite import Memory

BODY = "The coffee machine in the hall is cleaned every six weeks with vinegar and two litres of water."


def note(workspace: Path, name: str, text: str) -> None:
    (workspace / "memory" / f"{name}.md").write_text(text, encoding="utf-8")


def test_the_same_under_another_title_is_listed_under_the_hit(memory: Memory, workspace: Path) -> None:
    """One hit, with the citation of the other."""
    note(workspace, "first", f"# Machine A\n\n{BODY}\n")
    note(workspace, "second", f"# Machine B\n\n{BODY}\n")
    memory.index()
    hits = memory.search("coffee machine vinegar").hits
    assert len(hits) == 1
    assert {hits[0].path, hits[0].duplicates[0].partition("#")[0]} == {"memory/first.md", "memory/second.md"}


def test_short_notes_keep_their_titles(memory: Memory, workspace: Path) -> None:
    """``Paid.`` below two headings is not one thing said twice."""
    note(workspace, "rent", "# Rent invoice\n\nPaid in cash.\n")
    note(workspace, "gas", "# Gas invoice\n\nPaid in cash.\n")
    memory.index()
    assert {hit.path for hit in memory.search("invoice paid").hits} == {"memory/rent.md", "memory/gas.md"}


def test_another_body_under_the_same_title_is_another_hit(memory: Memory, workspace: Path) -> None:
    """The heading is left out of the comparison, not compared alone."""
    note(workspace, "first", f"# Machine\n\n{BODY}\n")
    note(workspace, "second", "# Machine\n\nThe coffee machine upstairs was sold to the bakery next door in March.\n")
    memory.index()
    assert len(memory.search("coffee machine").hits) == 2
