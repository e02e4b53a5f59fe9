"""Salvage of stores with damage at random places: every row on a page that can be read comes over exactly.

Which rows lie on which pages is SQLite's own account (``damaged_store.pages_of_rows``), not the salvage's.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Literal

import pytest
from damaged_store import PAGE, Rows, encrypt, flipped, make, pages_of_rows, place, rows

from memory_sqlite import library
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor.salvage import SalvageReport, salvage

PLACES = int(os.environ.get("MEMORY_SQLITE_SWEEP", "5"))
Kind = Literal["plain", "aegis", "sqlcipher"]
KINDS: tuple[Kind, ...] = ("plain", "aegis", "sqlcipher")


class Source:
    """One store, whole: its bytes, its rows and where they lie."""

    def __init__(self, data_dir: Path, kind: Kind) -> None:
        self.agent = make(data_dir)
        self.key = None if kind == "plain" else FileKey(kind, bytes(range(32)), "key")
        store = self.agent / "memory.sqlite"
        if self.key is not None:
            encrypt(store, self.key)
        self.rows = rows(store, self.key)
        self.pages = pages_of_rows(store, self.key)
        self.content = store.read_bytes()

    def salvaged(self, content: bytes, tmp_path: Path) -> tuple[SalvageReport, Rows]:
        directory = place(self.agent, content, tmp_path / "damaged")
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        report = salvage(directory, out, self.key)
        assert (directory / "memory.sqlite").read_bytes() == content
        assert [path.name for path in directory.iterdir()] == ["memory.sqlite"]
        return report, rows(out / "agents" / self.agent.name / "memory.sqlite", self.key)

    def missing(self, got: Rows, damaged: set[int]) -> list[tuple[str, object]]:
        """Rows of undamaged pages that did not come over as they were."""
        return [
            (table, row[0]) for (table, row), on in self.pages.items() if not on & damaged and row not in got[table]
        ]


@pytest.fixture(scope="module", params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    if request.param != "plain" and library.cipher() is None:
        pytest.skip("needs apsw-sqlite3mc")
    return Source(tmp_path_factory.mktemp(request.param) / "data", request.param)


def test_a_whole_store_comes_over_whole(source: Source, tmp_path: Path) -> None:
    """Nothing damaged: every row of every table, and ``whole``."""
    report, got = source.salvaged(source.content, tmp_path)
    assert got == source.rows
    assert report.status == "whole" and report.session_key == "kept"
    assert (report.unreadable_pages, report.unattributed_pages, report.doubtful) == (0, 0, 0)
    assert report.pages == len(source.content) // PAGE
    assert {table: counts["rows"] for table, counts in report.tables.items()} == {
        table: len(found) for table, found in source.rows.items()
    }


@pytest.mark.sweep
def test_one_flipped_bit_costs_its_page_and_no_more(source: Source, tmp_path: Path) -> None:
    """At random places, those of the schema and of the first page among them."""
    chosen = random.Random(20)
    for _ in range(PLACES):
        content, page = flipped(source.content, chosen)
        report, got = source.salvaged(content, tmp_path)
        assert source.missing(got, {page}) == [], page
        if source.key is not None:  # the check of its page names it, and nothing altered comes over
            assert report.unreadable_pages == 1 and report.status == "partial"
            unaltered = set(got) - {"sessions", "turns"}  # of which some are made anew
            assert all(got[table] <= source.rows[table] for table in unaltered)


@pytest.mark.parametrize("page", [1, 3])
def test_a_lost_page_of_the_schema_costs_nothing(source: Source, tmp_path: Path, page: int) -> None:
    """What the tables look like is known: their pages are told by their rows. The salt is all that is needed of the
    first page, and not even that for ``aegis``."""
    begin = (page - 1) * PAGE + (16 if page == 1 else 0)
    content = source.content[:begin] + random.Random(3).randbytes(page * PAGE - begin) + source.content[page * PAGE :]
    report, got = source.salvaged(content, tmp_path)
    assert source.missing(got, {page}) == []
    assert report.status == "partial"


def test_many_lost_pages(source: Source, tmp_path: Path) -> None:
    """A stretch in the middle, as of a bad sector, and pages here and there; some zeros, some rubbish."""
    chosen = random.Random(5)
    count = len(source.content) // PAGE
    lost = set(range(count // 2, count // 2 + 6)) | set(chosen.sample(range(2, count), 6))
    content = bytearray(source.content)
    for number in lost:
        filler = bytes(PAGE) if number % 2 else chosen.randbytes(PAGE)
        content[(number - 1) * PAGE : number * PAGE] = filler
    report, got = source.salvaged(bytes(content), tmp_path)
    assert source.missing(got, lost) == []
    if source.key is not None:
        assert report.unreadable_pages == len(lost)


def test_a_file_that_was_cut_short(source: Source, tmp_path: Path) -> None:
    """In the middle of a page: what is before it comes over."""
    count = len(source.content) // PAGE
    left = count // 2
    report, got = source.salvaged(source.content[: left * PAGE + 1000], tmp_path)
    assert source.missing(got, set(range(left + 1, count + 1))) == []
    assert report.pages == left and report.status == "partial"
