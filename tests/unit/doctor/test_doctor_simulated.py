"""Faults of the machine, of services and of permissions: those that no file holds are simulated where they are asked
for, one by one."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from doctor_kit import MARKERS, QUICK, Patient, codes

from memory_sqlite import errors, library
from memory_sqlite.clock import Clock, FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import examine, holders, machine_checks, store_state, unconfigured
from memory_sqlite.doctor.examine import CHECKS
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY
from memory_sqlite.processes.retrieval import Retrieval
from memory_sqlite.search.vectors import extension
from memory_sqlite.storage import file_system

MonkeyPatch = pytest.MonkeyPatch


def only(patient: Patient, *names: str, deep: bool = False) -> set[str]:
    report = patient.examine(only=names, deep=deep)
    assert not [word for word in MARKERS if word in str(report.as_json(names=False))]
    return codes(report)


# --- files -----------------------------------------------------------------------------------------------------------


def denied(monkeypatch: MonkeyPatch, mode: int) -> None:
    """What a user who is not root is told; root is never refused."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, asked, **more: False if asked == mode else real(path, asked, **more))


def test_a_directory_that_can_be_read_only(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Worth knowing and no fault: a medium may be read-only because somebody wants it so."""
    denied(monkeypatch, os.W_OK)
    report = patient.examine()
    assert codes(report) == {"directory_read_only"}
    assert report.status == "clean"


def test_a_store_that_cannot_be_read(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Said by the permissions, never as damage."""
    denied(monkeypatch, os.R_OK)
    assert only(patient, "permissions") == {"file_unreadable"}


def test_files_of_another_user(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Not said to root, who has all files."""
    monkeypatch.setattr(os, "geteuid", lambda: patient.store.stat().st_uid + 1)
    assert only(patient, "permissions") == {"owner_differs"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert only(patient, "permissions") == set()


def test_a_log_that_has_grown(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """With how much of it is written back; --fix empties it once nobody holds it."""
    with patient.opened(patient.store) as reader:
        reader.pragma("wal_autocheckpoint", 0)
        reader.execute("UPDATE turns SET at = at + 1").fetchall()
        monkeypatch.setattr(store_state, "WAL_MOST", 1_024)
        report = patient.examine()
        (finding,) = report.findings
        assert finding.code == "wal_large"
        assert finding.evidence["file"] == "memory.sqlite-wal"
        assert (finding.evidence["frames"], finding.evidence["written_back"]) == (
            reader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0],
            0,
        )
    patient.run(patient.store, "SELECT 1")
    assert [(one.code, one.outcome) for one in patient.fix().mendings] == []


def test_a_large_log_is_emptied(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """A log without anybody who has it open, as after a kill: written back and cut, nothing lost."""
    with patient.opened(patient.store) as writer:
        writer.pragma("wal_autocheckpoint", 0)
        writer.execute("UPDATE turns SET at = at + 1").fetchall()
        kept = patient.store.with_name("memory.sqlite-wal").read_bytes()
        main = patient.store.read_bytes()
    patient.store.write_bytes(main)
    log = patient.store.with_name("memory.sqlite-wal")
    log.write_bytes(kept)
    log.chmod(0o600)
    monkeypatch.setattr(store_state, "WAL_MOST", 1_024)
    with patient.opened(patient.store) as reader:  # somebody who reads nothing now is no hindrance
        reader.execute("SELECT count(*) FROM turns").fetchall()
        report = patient.fix()
        assert [(one.code, one.outcome) for one in report.mendings] == [("wal_large", "mended")]
        assert report.findings == ()
        assert log.stat().st_size == 0


# --- the machine -----------------------------------------------------------------------------------------------------


def test_two_wheels_of_apsw(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """They overwrite each other's files."""
    monkeypatch.setattr(library, "distributions", lambda: ("apsw", "apsw-sqlite3mc"))
    assert only(patient, "libraries") >= {"library_two_copies"}


def test_a_process_with_two_libraries(patient: Patient, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Told from what a process has mapped, for those that have the store open; also from a made-up list."""
    proc = tmp_path / "proc"
    for number, mapped in ((41, "/x/apsw/__init__.so\n/x/_sqlite3.so\n"), (42, "/x/apsw/__init__.so\n")):
        (proc / str(number) / "fd").mkdir(parents=True)
        (proc / str(number) / "fd" / "3").symlink_to(patient.store)
        (proc / str(number) / "maps").write_text(mapped)
    (proc / "43" / "fd").mkdir(parents=True)
    (proc / "self").mkdir()
    assert holders.of([patient.store], proc) == holders.Holders((41, 42), True)
    assert holders.of([patient.index], proc).shown() == "none"
    assert holders.of([patient.store], tmp_path / "no such system").shown() == "unknown"
    assert holders.libraries(41, proc) == {"apsw", "sqlite3"}
    monkeypatch.setattr(holders, "libraries", lambda number: frozenset({"apsw", "sqlite3"}))
    report = patient.examine(only=["libraries"])
    assert [(one.code, one.severity) for one in report.notes] == [("library_shared", "info")]


MOUNTS = """\
21 1 0:19 / / rw,relatime - ext4 /dev/vda1 rw
22 21 0:20 / /mnt/net rw shared:1 - {kind} server:/share rw
23 21 0:21 / /mnt/net/local\\040disk rw shared:2 master:1 - xfs /dev/vdb rw
24 1 0:22 / / rw,relatime - overlay overlay rw
broken line
"""


@pytest.mark.parametrize(
    ("kind", "judged"),
    [
        ("nfs4", "network"),
        ("9p", "network"),
        ("fuse.s3fs", "unsuitable"),
        ("btrfs", "local"),
        ("fuse.sshfs", "network"),
    ],
)
def test_kinds_of_mounts(tmp_path: Path, kind: str, judged: str) -> None:
    """The deepest mount above a directory counts, also above one that is not there yet; names are unescaped."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(kind=kind))
    (tmp_path / "d").mkdir()
    mounts.write_text(MOUNTS.format(kind=kind).replace("/mnt/net", str(tmp_path)))
    assert file_system.of(tmp_path / "d" / "not yet", mounts) == file_system.FileSystem(kind, judged)  # type: ignore[arg-type]
    (tmp_path / "local disk").mkdir()
    assert file_system.of(tmp_path / "local disk", mounts) == file_system.FileSystem("xfs", "local")
    assert file_system.of(tmp_path, tmp_path / "nothing") == file_system.FileSystem("unknown", "unknown")


def test_network_and_unsuitable_mounts(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """The doctor names the type. Opening for writing refuses the one, and every search of the other says so."""
    from memory_sqlite import Memory

    monkeypatch.setattr(file_system, "of", lambda path: file_system.FileSystem("nfs4", "network"))
    report = patient.examine(only=["disk"])
    assert [(one.code, one.evidence) for one in report.findings] == [("file_system_network", {"type": "nfs4"})]
    with Memory.open(settings=patient.settings) as memory:
        assert any("nfs4" in warning for warning in memory.search("cat").warnings)
    monkeypatch.setattr(file_system, "of", lambda path: file_system.FileSystem("fuse.s3fs", "unsuitable"))
    assert only(patient, "disk") == {"file_system_unsuitable"}
    with pytest.raises(errors.FileSystemUnsuitable, match=r"fuse\.s3fs"):
        Memory.open(settings=patient.settings)


def test_a_full_disk(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Less room than a second copy of the index needs, with both numbers."""
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 5})())
    (finding,) = patient.examine(only=["disk"]).findings
    assert finding.code == "disk_low"
    assert finding.evidence == {
        "free_bytes": 5,
        "needed_bytes": machine_checks.ROOM_BYTES + patient.index.stat().st_size,
    }


def test_more_folders_than_watches(patient: Patient, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """A system that does not say how many there may be is not guessed about."""
    limit = tmp_path / "max_user_watches"
    limit.write_text("1\n")
    monkeypatch.setattr(machine_checks, "INOTIFY", limit)
    assert only(patient, "watches") == {"watch_capacity"}
    limit.unlink()
    (check,) = patient.examine(only=["watches"]).checks
    assert check.state == "skipped"


def test_a_clock_of_another_day(patient: Patient) -> None:
    """A few hours are a zone; a day is a wrong clock."""
    newest = patient_newest(patient)
    for hours, expected in ((-23, set()), (-25, {"clock_behind"})):
        report = examine(patient.settings, FixedClock(newest + hours * 3_600_000), only=["clock"])
        assert codes(report) - {"times_ahead"} == expected


def patient_newest(patient: Patient) -> int:
    with patient.opened(patient.store) as store:
        return int(str(store.execute("SELECT max(recorded_at) FROM turns").get))


# --- services --------------------------------------------------------------------------------------------------------


class Provider:
    """Answers, or does not."""

    cost: Any = "free"
    fails = False
    asked = 0
    identity = EmbeddingIdentity("tests", "m", 2, "1")
    limits = InputLimits(text_chars=100, batch_texts=4, batch_chars=400)
    weight = Weight()

    def load(self, timeout_s: float) -> None:
        if Provider.fails:
            raise ConnectionError("the text of a memory: granite")

    def embed_query(self, text: str, timeout_s: float) -> list[float]:
        Provider.asked += 1
        return [1.0, 0.0]

    def embed_documents(self, texts: Any, timeout_s: float) -> Any:
        raise AssertionError("the doctor embeds no document")

    def close(self) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Callable[[bool], None]]:
    REGISTRY.plugin("doctor-tests", ["doctor-tests"]).register("doctor-tests", lambda settings: Provider())
    Provider.fails, Provider.asked = False, 0

    def fail(fails: bool) -> None:
        Provider.fails = fails

    yield fail
    REGISTRY.retire("doctor-tests", 10.0)


def with_provider(patient: Patient, name: str, **more: Any) -> None:
    from dataclasses import replace

    patient.settings = replace(patient.settings, embedding_provider=name, **more)


def test_a_provider_is_asked_only_deep(patient: Patient, provider: Callable[[bool], None]) -> None:
    """One that answers is no finding; one that does not is a warning without the words of its error."""
    with_provider(patient, "doctor-tests")
    report = patient.examine(only=["embedding"])
    assert (report.status, [one.state for one in report.checks], Provider.asked) == ("clean", ["skipped"], 0)
    assert only(patient, "embedding", deep=True) == set()
    assert Provider.asked == 1
    provider(True)
    (finding,) = patient.examine(only=["embedding"], deep=True).findings
    assert (finding.code, finding.evidence) == ("embedding_failed", {"provider": "plugin", "reason": "ConnectionError"})


def test_a_provider_that_is_not_there(patient: Patient) -> None:
    """Said without --deep: nothing need be asked for it."""
    with_provider(patient, "no-such-plugin")
    assert only(patient, "embedding") == {"embedding_unusable"}


def test_a_provider_that_charges_is_never_asked(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Only whether somebody listens there; nothing is sent, and without a key not even that."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    from memory_sqlite.embeddings import openai_wire

    monkeypatch.setattr(openai_wire, "cost", lambda url: "paid")
    with_provider(patient, "openai", embedding_base_url=f"http://127.0.0.1:{port}/v1")
    assert only(patient, "embedding", deep=True) == set()
    connection, _ = listener.accept()
    assert connection.recv(1) == b""
    connection.close()
    listener.close()
    assert only(patient, "embedding", deep=True) == {"embedding_failed"}
    with_provider(patient, "openai", embedding_api_key_env="DOCTOR_TESTS_KEY")
    report = patient.examine(only=["embedding"], deep=True)
    assert [one.evidence["reason"] for one in report.findings] == ["no_key"]


def test_no_engine_for_vectors(patient: Patient, monkeypatch: MonkeyPatch, provider: Callable[[bool], None]) -> None:
    """Neither sqlite-vec nor NumPy; either is enough."""
    with_provider(patient, "doctor-tests")
    import importlib.util

    monkeypatch.setattr(extension, "load", lambda connection: False)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "numpy" else real(name, *more))
    assert only(patient, "vector engine") == {"vector_engine_missing"}
    monkeypatch.setattr(extension, "load", lambda connection: True)
    assert only(patient, "vector engine") == set()


def test_a_worker_answers(patient: Patient) -> None:
    """A real one is started, asked and ended."""
    report = patient.examine(only=["worker"])
    assert [one.state for one in report.checks] == ["ok"]


def test_a_worker_that_is_lost(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Its code is told."""

    def lost(self: Retrieval, *given: object, **more: object) -> None:
        raise errors.WorkerLost("it died")

    monkeypatch.setattr(Retrieval, "state", lost)
    (finding,) = patient.examine(only=["worker"]).findings
    assert (finding.code, finding.evidence) == ("worker_failed", {"reason": "worker_lost"})


def test_refused_lines_of_transcripts(patient: Patient) -> None:
    """Counted with --deep alone; the transcript's name is among the names, its lines are nowhere."""
    assert only(patient, "transcripts") == set()
    (finding,) = patient.examine(only=["transcripts"], deep=True).findings
    assert finding.code == "transcript_lines_refused"
    assert finding.evidence == {"files": 1, "lines": 1}
    assert finding.names[0].endswith("talk.jsonl: 1")


# --- the doctor itself -----------------------------------------------------------------------------------------------


def test_a_check_that_fails_keeps_no_other_from_being_made(patient: Patient, monkeypatch: MonkeyPatch) -> None:
    """Its name and the kind of exception are told, not its words; the others are as they were."""

    def broken(place: object) -> list[Any]:
        raise LookupError("granite")

    monkeypatch.setitem(CHECKS, "store rows", broken)
    report = patient.examine(only=QUICK)
    (finding,) = report.findings
    assert (finding.code, finding.evidence) == ("check_failed", {"check": "store rows", "reason": "LookupError"})
    assert len(report.checks) == len(QUICK)
    assert "granite" not in str(report)


def test_an_empty_place_has_no_finding(tmp_path: Path) -> None:
    """No directory, an empty one, and a memory that was opened and told nothing."""
    from memory_sqlite import Memory

    settings = Settings(data_dir=tmp_path / "data")
    assert codes(examine(settings, Clock())) == {"agent_absent"}
    assert not settings.data_dir.exists()
    settings.data_dir.mkdir(mode=0o700)
    assert codes(examine(settings, Clock())) == {"agent_absent"}
    Memory.open(settings=settings).close()
    report = examine(settings, Clock())
    assert codes(report) == set()
    assert {one.state for one in report.checks} <= {"ok", "skipped", "off"}


def test_an_open_memory_is_examined_from_within(patient: Patient) -> None:
    """The door's own method, while it has everything open; also what it mends."""
    from memory_sqlite import Memory

    with Memory.open(settings=patient.settings) as memory:
        assert memory.doctor().findings == ()
        patient.data.chmod(0o755)
        report = memory.doctor(fix=True)
        assert [(one.code, one.outcome) for one in report.mendings] == [("permissions_open", "mended")]
        assert memory.search("cat").hits


def test_settings_that_cannot_be_read() -> None:
    """One finding that names the setting; no check is made, and each says why."""
    report = unconfigured(errors.InvalidConfiguration("max_read_lines: wrong"))
    assert [one.code for one in report.findings] == ["configuration_invalid"]
    assert {one.reason for one in report.checks} == {"invalid_configuration"}
    assert dict(report.versions)["memory-sqlite"]


def test_disabled_is_nothing_to_examine(tmp_path: Path) -> None:
    """And nothing is made."""
    assert examine(Settings(enabled=False, data_dir=tmp_path / "data"), Clock()).status == "disabled"
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="told by Linux alone")
def test_this_process_is_not_among_the_others(patient: Patient) -> None:
    """What the doctor's own process has open is no news to it."""
    with patient.opened(patient.store) as store:
        store.execute("SELECT 1 FROM turns").fetchall()
        assert holders.of([patient.store]).processes == ()
