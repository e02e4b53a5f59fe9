"""What several passes over the notes did, told as one: counts add up, and what was made good is not told."""

from __future__ import annotations

from memory_sqlite.indexing.notes import NotesReport
from memory_sqlite.model import SourceProblem

ODD = SourceProblem("memory/odd.md", "is not text")
LINK = SourceProblem("memory/link.md", "is a link, which is not followed")
CHANGING = SourceProblem("memory/a.md", "changed while it was being indexed")


def first() -> NotesReport:
    return NotesReport(
        added=5, unchanged=2, chunks=9, unread=1, changing=1, problems=[LINK, ODD, CHANGING], looks=1,
        read={"memory/odd.md", "memory/a.md", "memory/b.md"},
    )  # fmt: skip


def test_one_pass_is_told_as_it_was() -> None:
    """Whatever was counted and wrong."""
    report = NotesReport()
    report.include(first())
    assert report == first()


def test_a_second_pass_adds_what_it_did_and_corrects_what_it_read_again() -> None:
    """The note that was changing is filed now; the one that is no text still is none, and is told once; what the second
    look took for unchanged was counted when it was added."""
    report = first()
    later = NotesReport(added=1, unchanged=7, chunks=2, unread=1, problems=[LINK, ODD], looks=1)
    later.read = {"memory/odd.md", "memory/a.md"}
    report.include(later)
    assert (report.added, report.changed, report.removed, report.unchanged, report.chunks) == (6, 0, 0, 2, 11)
    assert (report.unread, report.changing, report.looks) == (1, 0, 2)
    assert report.problems == [LINK, ODD]


def test_a_second_pass_that_reads_nothing_leaves_what_was_said() -> None:
    """A problem of a note that nobody looked into again stands."""
    report = first()
    report.include(NotesReport(unchanged=7, problems=[LINK], looks=1))
    assert report.problems == [LINK, ODD, CHANGING]
    assert (report.added, report.unchanged) == (5, 2)
