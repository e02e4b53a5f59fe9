"""A healthy directory to plant faults in, made once and copied, and the doctor called on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import apsw

from memory_sqlite import Memory
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor.examine import CHECKS, examine
from memory_sqlite.doctor.fixing import fix
from memory_sqlite.doctor.report import DoctorReport
from memory_sqlite.paths import agent_directory

MARKERS = ("granite", "tea", "pottery", "sess-amber")
"""Words of the memory, a note's name and a session's: none of them may be in a finding's evidence."""
QUICK: Collection[str] = frozenset(CHECKS) - {"worker"}
"""Every check but the one that starts a process."""


@dataclass
class Patient:
    """One agent's directory."""

    root: Path
    settings: Settings

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def directory(self) -> Path:
        return agent_directory(self.data, "main")

    @property
    def store(self) -> Path:
        return self.directory / "memory.sqlite"

    @property
    def index(self) -> Path:
        return self.directory / "index-000001.sqlite"

    def own_notes(self) -> Path:
        """The folder of the notes, of its own from here on. Copies are other files: they wait to be taken in."""
        workspace = self.settings.workspace
        assert workspace is not None
        shutil.copytree(workspace, self.root / "workspace")
        self.settings = replace(self.settings, workspace=self.root / "workspace")
        return self.root / "workspace" / "memory"

    @contextmanager
    def opened(self, path: Path) -> Iterator[apsw.Connection]:
        """A database of it, to meddle with."""
        connection = apsw.Connection(str(path))
        try:
            yield connection
        finally:
            connection.close()

    def run(self, path: Path, *statements: str) -> None:
        """Meddle with a database of it."""
        with self.opened(path) as connection:
            for statement in statements:
                connection.execute(statement).fetchall()

    def examine(self, *, deep: bool = False, only: Collection[str] = QUICK) -> DoctorReport:
        return examine(self.settings, Clock(), deep=deep, only=only)

    def fix(self, *, deep: bool = False) -> DoctorReport:
        return fix(self.settings, Clock(), deep=deep, only=QUICK)


def codes(report: DoctorReport) -> set[str]:
    """Of findings and notes alike; that these tests run beside Python's sqlite3 is none of theirs."""
    return {one.code for one in (*report.findings, *report.notes)} - {"library_shared"}


def build(root: Path) -> None:
    """Two sessions, facts, notes, a transcript with a line that is none, and something forgotten."""
    notes = root / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "pottery.md").write_text("# Kiln\n\nThe granite key is under the mat.\n")
    transcript = root / "talk.jsonl"
    transcript.write_text('{"role": "user", "content": "We drink granite tea."}\nno line of JSON\n')
    os.utime(transcript, (1_700_000_000, 1_700_000_000))  # settled, so that it is kept as read whole
    os.utime(notes / "pottery.md", (1_700_000_000, 1_700_000_000))
    with Memory.open(settings=Settings(data_dir=root / "data", workspace=root / "workspace")) as memory:
        for session in ("sess-amber", "sess-blue", "sess-gone"):
            for said in ("I love granite tea.", "My cat is called Basalt."):
                memory.remember(
                    session=session,
                    chat_type="direct",
                    sender_is_owner=True,
                    messages=[
                        {"role": "user", "content": f"{said} ({session})"},
                        {"role": "assistant", "content": "Noted."},
                    ],
                )
        memory.import_transcripts([transcript], session="sess-amber-file")
        memory.index()
        memory.forget(sessions=["sess-gone"])
        while memory.status()["index"]["dirty"]:  # a note written within the last moment is looked at once more
            memory.index()


def copied(healthy: Path, root: Path) -> Patient:
    """A copy of the data to do harm to; the notes stay where they were indexed (see ``own_notes``)."""
    shutil.copytree(healthy / "data", root / "data")
    return Patient(root, Settings(data_dir=root / "data", workspace=healthy / "workspace"))
