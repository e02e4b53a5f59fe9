"""Each fault that can be planted in files is found by its code, shows no word of the memory, and is mended if the
catalogue says so, with nothing lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from doctor_kit import MARKERS, Patient, codes

from memory_sqlite import Memory, limits
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import Finding, fixing
from memory_sqlite.doctor.catalogue import FINDINGS
from memory_sqlite.doctor.examine import CHECKS
from memory_sqlite.doctor.place import Place
from memory_sqlite.doctor.quarantine import Quarantine
from memory_sqlite.doctor.report import DoctorReport
from memory_sqlite.storage import migrate

Plant = Callable[[Patient], object]


def replace(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8_192 : len(data) // 2] = b"\xa5" * (len(data) // 2 - 8_192)
    path.write_bytes(bytes(data))


def in_store(*statements: str) -> Plant:
    return lambda patient: patient.run(patient.store, *statements)


def in_index(*statements: str) -> Plant:
    return lambda patient: patient.run(patient.index, *statements)


def write(name: str, content: bytes = b"x", *, mode: int = 0o600) -> Plant:
    """A file in the data directory; ``AGENT`` stands for the agent's directory."""

    def plant(patient: Patient) -> None:
        path = patient.directory / name.removeprefix("AGENT/") if name.startswith("AGENT/") else patient.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    return plant


def emptied(patient: Patient) -> None:
    patient.store.write_bytes(b"")


def linked(patient: Patient) -> None:
    patient.store.rename(patient.root / "elsewhere.sqlite")
    patient.store.symlink_to(patient.root / "elsewhere.sqlite")


def foreign(patient: Patient) -> None:
    patient.store.unlink()
    patient.run(patient.store, "CREATE TABLE somebody (id)", "INSERT INTO somebody VALUES (zeroblob(4096))")


def leftover(patient: Patient) -> None:
    (patient.directory / "index-000007.sqlite").write_bytes(patient.index.read_bytes())


def lone_log(patient: Patient) -> None:
    (patient.directory / "index-000008.sqlite-wal").write_bytes(b"x")


def interrupted(patient: Patient) -> None:
    def stop(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with Memory.open(settings=patient.settings) as memory, pytest.raises(KeyboardInterrupt):
        memory.index(full=True, progress=stop)


def old_quarantine(patient: Patient) -> None:
    folder = patient.directory / "quarantine-20200101T000000000Z"
    folder.mkdir(mode=0o700)
    (folder / "index-000001.sqlite").touch(mode=0o600)


def new_quarantine(patient: Patient) -> None:
    (patient.directory / "quarantine-29990101T000000000Z").mkdir(mode=0o700)


def unreadable_note(patient: Patient) -> None:
    path = patient.own_notes() / "tea.md"
    path.touch()
    os.truncate(path, limits.NOTE_MAX_BYTES + 1)


def link_of_a_note(patient: Patient) -> None:
    notes = patient.own_notes()
    (notes / "tea.md").symlink_to(notes / "pottery.md")


def new_note(patient: Patient) -> None:
    (patient.own_notes() / "tea.md").write_text("More granite.\n")


def without_workspace(patient: Patient) -> None:
    patient.own_notes().parent.rename(patient.root / "gone")


def one_vector(patient: Patient) -> None:
    patient.run(
        patient.index,
        "INSERT INTO vector_spaces VALUES (1, '{\"model\": \"m\"}', 2, '{}', 'complete', 'paid')",
        "INSERT INTO vectors (space_id, chunk_id, input_hash, vector) VALUES (1, 9999, x'00', x'0000803f00000000')",
    )


OUTBOX = (
    "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state,"
    " admission, attempts, at)"
)
DELETE = "PRAGMA foreign_keys = 0"

LONG_AGO = 1_577_836_800_000

FAULTS: dict[str, tuple[str, Plant]] = {
    "the data directory is open to all": ("permissions_open", lambda p: p.data.chmod(0o755)),
    "the store is open to the group": ("permissions_open", lambda p: p.store.chmod(0o640)),
    "the session key is open to all": ("permissions_open", lambda p: (p.data / "session.key").chmod(0o644)),
    "a database of somebody else": ("stray_database", write("AGENT/copy-of-memory.sqlite")),
    "a database beside the key": ("stray_database", write("tea.sqlite3")),
    "a file of somebody else": ("foreign_file", write("AGENT/pottery.txt")),
    "a directory named as the index": ("foreign_file", lambda p: (p.directory / "index-000009.sqlite").mkdir()),
    "a key that was never put in its place": ("temporary_leftover", write(".session.key.999999999.ab12")),
    "an export that was killed": ("temporary_leftover", write("AGENT/.out.jsonl.999999999.0123456789ab.partial")),
    "a backup that was killed": (
        "temporary_leftover",
        write(".copy.1.999999999.0123456789ab.partial/agents/tea/memory.sqlite"),
    ),
    "what was set aside before a forgetting": ("quarantine_outlived", old_quarantine),
    "what was set aside after it": ("quarantine_kept", new_quarantine),
    "another product's directory": ("legacy_found", write("conversations/2026-01-01.jsonl", b"{}\n", mode=0o600)),
    "no session key": ("session_key_missing", lambda p: (p.data / "session.key").unlink()),
    "a short session key": ("session_key_invalid", write("session.key", b"short")),
    "another session key": ("session_key_changed", write("session.key", b"k" * 32)),
    "no store": ("store_missing", lambda p: p.store.unlink()),
    "an empty store": ("store_emptied", emptied),
    "a store of a few bytes": ("store_damaged", lambda p: p.store.write_bytes(b"SQLite")),
    "a link instead of a store": ("store_not_a_file", linked),
    "somebody else's database as the store": ("store_foreign", foreign),
    "another agent's store": (
        "store_of_another_agent",
        in_store("UPDATE store_info SET value = 'ann' WHERE key = 'agent'"),
    ),
    "damaged pages of the store": ("store_damaged", lambda p: scribble(p.store)),
    "half a store": ("store_damaged", lambda p: p.store.write_bytes(p.store.read_bytes()[:40_960])),
    "a store of the future": ("schema_too_new", in_store("PRAGMA user_version = 999")),
    "a store of the past": ("schema_older", in_store("PRAGMA user_version = 1")),
    "an index of the store is gone": ("schema_differs", in_store("DROP INDEX messages_turn")),
    "a word that its column cannot have": (
        "store_damaged",
        in_store("PRAGMA ignore_check_constraints = 1", "UPDATE messages SET origin = 'oxner'"),
    ),
    "a table too many": ("schema_differs", in_store("CREATE TABLE mine (id INTEGER)")),
    "a column too many": ("schema_differs", in_store("ALTER TABLE sessions ADD COLUMN mine TEXT")),
    "a row that refers to nothing": (
        "store_foreign_keys",
        in_store(DELETE, "INSERT INTO message_entries VALUES (1, 'x', 999, 'import')"),
    ),
    "messages deleted behind the program's back": (
        "sources_dangling",
        in_store(DELETE, "DELETE FROM messages WHERE turn_id = 1"),
    ),
    "a text that was changed": ("texts_changed", in_store("UPDATE messages SET text = 'I hate tea.' WHERE id = 1")),
    "a text that is none": (
        "texts_changed",
        in_store("UPDATE messages SET text = CAST(x'49ff' AS TEXT) WHERE id = 1"),
    ),
    "a forgetting that was killed": (
        "forgetting_unfinished",
        in_store("INSERT INTO forgettings (stage, notes, at) VALUES ('index', '[]', 1)"),
    ),
    "a forgotten record that came back": (
        "forgotten_in_store",
        in_store(
            "INSERT INTO tombstones (kind, subject, since_at, until_at, reason, at)"
            " SELECT 'record', record_id, 0, 1, 'forget', 1 FROM records LIMIT 1"
        ),
    ),
    "a turn nobody can read": (
        "outbox_blocked",
        in_store(OUTBOX + " VALUES ('k', 'e', 'o', 's', 'i', 'blocked', '{}', 0, 1)"),
    ),
    "a turn its engine refuses": (
        "outbox_refused",
        in_store(OUTBOX + " VALUES ('k', 'e', 'o', 's', 'i', 'ready', '{}', 9, 1)"),
    ),
    "turns of the next century": ("times_ahead", in_store("UPDATE turns SET at = 9000000000000 WHERE id = 1")),
    "a clock that went back": ("clock_behind", in_store("UPDATE turns SET recorded_at = 9000000000000 WHERE id = 1")),
    "sessions of another decade": (
        "retention_due",
        in_store(
            f"UPDATE sessions SET started_at = {LONG_AGO}, active_at = {LONG_AGO}, recorded_at = {LONG_AGO}",
            f"UPDATE turns SET at = {LONG_AGO}, recorded_at = {LONG_AGO}",
            f"UPDATE messages SET at = {LONG_AGO}",
            f"UPDATE records SET event_at = {LONG_AGO}, created_at = {LONG_AGO}",
            f"UPDATE session_imports SET at = {LONG_AGO}",
        ),
    ),
    "no current index": ("index_missing", in_store("UPDATE generations SET state = 'retired'")),
    "no file of the index": ("index_file_missing", lambda p: p.index.unlink()),
    "damaged pages of the index": ("index_damaged", lambda p: scribble(p.index)),
    "an index that is no database": ("index_damaged", lambda p: p.index.write_bytes(b"granite" * 9_999)),
    "an index of another version": ("index_outdated", in_index("UPDATE meta SET value = '{}' WHERE key = 'identity'")),
    "a change that was not applied": (
        "index_behind",
        in_store("INSERT INTO change_log (kind, target, op) VALUES ('message', 1, 'put')"),
    ),
    "an index of another store": (
        "index_of_another_store",
        in_index("UPDATE meta SET value = '99999' WHERE key = 'applied_seq'"),
    ),
    "words that lack": (
        "index_inconsistent",
        in_index("DELETE FROM lexical WHERE rowid = (SELECT min(id) FROM chunks)"),
    ),
    "words that are damaged": (
        "index_damaged",
        in_index("DELETE FROM lexical_data WHERE id > 100"),
    ),
    "an index that answers nothing": (
        "index_does_not_answer",
        in_index(
            "DELETE FROM lexical WHERE rowid IN (SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id"
            " WHERE d.kind = 'note')"
        ),
    ),
    "a message that the index lacks": (
        "index_incomplete",
        in_index("UPDATE documents SET key = '999' WHERE kind = 'message' AND key = '1'"),
    ),
    "a message that the store lacks": (
        "forgotten_in_index",
        in_index("UPDATE documents SET key = '999' WHERE kind = 'message' AND key = '1'"),
    ),
    "two current indexes": (
        "index_several_current",
        in_store(
            "DROP INDEX generations_current",
            "INSERT INTO generations (identity, state, created_at) VALUES ('{}', 'current', 1)",
        ),
    ),
    "an index nobody took away": ("index_leftover", leftover),
    "a log without its index": ("index_leftover", lone_log),
    "a vector of no chunk": ("vectors_inconsistent", one_vector),
    "passages without vectors": (
        "vectors_missing",
        in_index("INSERT INTO vector_spaces VALUES (1, '{\"model\": \"m\"}', 2, '{}', 'filling', 'paid')"),
    ),
    "a build that was interrupted": ("index_unfinished", interrupted),
    "a workspace that is gone": ("workspace_missing", without_workspace),
    "a note that cannot be read": ("notes_unreadable", unreadable_note),
    "a link among the notes": ("notes_skipped", link_of_a_note),
    "a note that came": ("notes_waiting", new_note),
}


def test_a_healthy_directory_has_no_finding(patient: Patient) -> None:
    """Also none worth knowing; and looking changes no byte of it."""
    before = {path: path.read_bytes() for path in patient.data.rglob("*.sqlite")}
    for _ in range(2):
        report = patient.examine()
        assert codes(report) == set()
        assert report.status == "clean"
        assert {one.state for one in report.checks} <= {"ok", "skipped", "off"}
    assert {path: path.read_bytes() for path in patient.data.rglob("*.sqlite")} == before


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_store_of_an_older_version_is_sound(tmp_path: Path, version: int) -> None:
    """Frozen stores: that they are upgraded later is worth knowing; what looks into newer tables is not made."""
    patient = Patient(tmp_path, Settings(data_dir=tmp_path / "data"))
    patient.directory.mkdir(parents=True, mode=0o700)
    for path in (patient.data, patient.directory.parent):
        path.chmod(0o700)
    write("session.key", bytes(range(32)))(patient)
    script = Path(__file__).parents[2] / "fixtures" / "stores" / f"version_{version}.sql"
    with patient.opened(patient.store) as store:
        for _ in store.execute(script.read_text("utf-8")):
            pass
        store.pragma("journal_mode", "wal")
    patient.store.chmod(0o600)
    report = patient.examine()
    expected = {"index_missing", "index_file_missing"} | ({"schema_older"} if version < migrate.latest() else set())
    assert codes(report) <= expected | {"retention_due"}
    assert ("schema_older" in codes(report)) == (version < migrate.latest())
    assert "failed" not in {one.state for one in report.checks}


def said(report: DoctorReport) -> str:
    """Everything of a report that may be sent to somebody."""
    return str(report.as_json(names=False))


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(patient: Patient, name: str) -> None:
    """By its code; no check is left out for it but with a reason; nothing that was said is shown."""
    code, plant = FAULTS[name]
    plant(patient)
    report = patient.examine()
    assert code in codes(report)
    assert "check_failed" not in codes(report)
    assert (report.status == "findings") == bool(report.findings)
    assert not [word for word in MARKERS if word in said(report)]


MENDED = {name: code for name, (code, _) in FAULTS.items() if FINDINGS[code].mends}
BEYOND = {"a table too many", "a column too many"}
"""Faults of a code that is mended in some cases only: here nothing says what else to do with what is strange."""


@pytest.mark.parametrize("name", MENDED)
def test_what_fix_claims_to_mend_is_mended(patient: Patient, name: str) -> None:
    """Looked at again it is gone, what was said is all there, and every file is somewhere still."""
    code, plant = FAULTS[name]
    plant(patient)
    rows = counted(patient.store)
    files = names(patient)
    report = patient.fix()
    outcomes = {one.code: one.outcome for one in report.mendings}
    if name in BEYOND:
        assert outcomes == {code: "still"}
        return
    assert outcomes[code] == "mended"
    assert set(outcomes.values()) == {"mended"}
    again = patient.examine()
    assert codes(again) <= {"quarantine_kept", "vectors_missing"}
    assert counted(patient.store) == rows
    assert not files - names(patient) - ({patient.index.name} if "forgotten_in_index" in outcomes else set())


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in MENDED])
def test_what_fix_does_not_claim_it_does_not_touch(patient: Patient, name: str) -> None:
    """Neither the file that is at fault nor anything else of what was said."""
    _, plant = FAULTS[name]
    plant(patient)
    before = {path: path.read_bytes() for path in patient.data.rglob("*") if path.is_file() and "-shm" not in path.name}
    report = patient.fix()
    after = {path: path.read_bytes() for path in patient.data.rglob("*") if path.is_file() and "-shm" not in path.name}
    if not report.mendings:  # what follows from it in the index may be mended
        assert {path: content for path, content in after.items() if path in before} == before


def counted(store: Path) -> list[int]:
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [
            int(str(connection.execute(f"SELECT count(*) FROM {table}").get))
            for table in ("sessions", "turns", "messages", "records", "tombstones", "message_entries")
        ]
    finally:
        connection.close()


def names(patient: Patient) -> set[str]:
    """Of every file but the logs that SQLite makes and takes away."""
    found = {path.name for path in patient.data.rglob("*") if path.is_file()}
    return {name for name in found if not name.endswith(("-wal", "-shm"))}


def test_changed_texts_are_counted(patient: Patient) -> None:
    """Another word, and bytes that are no text at all; spacing is none of it, since the digest is made without."""
    in_store(
        "UPDATE messages SET text = 'I hate tea.' WHERE id = 1",
        "UPDATE messages SET text = CAST(x'49ff' AS TEXT) WHERE id = 2",
        "UPDATE messages SET text = text || ' ' WHERE id = 3",
    )(patient)
    (finding,) = patient.examine(only=["store rows"]).findings
    assert (finding.code, finding.evidence) == ("texts_changed", {"messages": 2})


def test_what_a_new_identity_costs_is_told(patient: Patient) -> None:
    """Chunks to prepare anew, and vectors that were paid for, apart from those that cost nothing."""
    with patient.opened(patient.index) as index:
        chunks = index.execute("SELECT count(*) FROM chunks").get
        for number, cost in enumerate(("paid", "free"), 1):
            index.execute(
                "INSERT INTO vector_spaces VALUES (?, ?, 2, '{}', 'complete', ?)",
                (number, f'{{"model": "{cost}"}}', cost),
            ).fetchall()
            index.execute(
                "INSERT INTO vectors (space_id, chunk_id, input_hash, vector)"
                " SELECT ?1, id, x'00', x'0000803f00000000' FROM chunks ORDER BY id LIMIT ?1",
                (number,),
            ).fetchall()
        index.execute("UPDATE meta SET value = '{}' WHERE key = 'identity'").fetchall()
    (finding,) = [one for one in patient.examine().findings if one.code == "index_outdated"]
    assert {name: finding.evidence[name] for name in ("chunks", "vectors", "paid_vectors")} == {
        "chunks": chunks,
        "vectors": 3,
        "paid_vectors": 1,
    }


def test_a_lone_log_is_set_aside(patient: Patient) -> None:
    """Quarantine is a private folder in the agent's directory; its name is told."""
    lone_log(patient)
    report = patient.fix()
    assert report.quarantine is not None
    folder = patient.directory / report.quarantine
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["index-000008.sqlite-wal"]
    assert not (patient.directory / "index-000008.sqlite-wal").exists()


def test_what_was_forgotten_is_not_kept_in_the_quarantine(patient: Patient) -> None:
    """An index that is replaced keeps a second name there, but not one that holds what was forgotten."""
    in_index("UPDATE documents SET key = '999' WHERE kind = 'message' AND key = '1'")(patient)
    assert patient.fix().quarantine is None


@pytest.mark.parametrize(("has_file", "stays"), [(False, 1), (True, 2)])
def test_of_two_current_indexes_the_newest_that_is_there_stays(patient: Patient, has_file: bool, stays: int) -> None:
    """One without its file would have to be built anew for nothing."""
    FAULTS["two current indexes"][1](patient)
    patient.run(patient.store, "UPDATE generations SET identity = (SELECT identity FROM generations WHERE number = 1)")
    if has_file:
        (patient.directory / "index-000002.sqlite").write_bytes(patient.index.read_bytes())
        (patient.directory / "index-000002.sqlite").chmod(0o600)
    assert {one.outcome for one in patient.fix().mendings} == {"mended"}
    with patient.opened(patient.store) as store:
        assert store.execute("SELECT number FROM generations WHERE state = 'current'").fetchall() == [(stays,)]


def test_a_leftover_that_somebody_opens_meanwhile_stays(patient: Patient) -> None:
    """Between finding it and moving it: the file is looked at once more, alone."""
    leftover(patient)
    report = patient.examine()
    path = patient.directory / "index-000007.sqlite"
    quarantine = Quarantine(patient.directory, Clock())
    with patient.opened(path) as reader, Place(patient.settings, Clock()) as place:
        reader.execute("SELECT count(*) FROM chunks").fetchall()
        fixing._Work(place, report.findings, quarantine, None).each()
    assert path.exists() and quarantine.folder is None


def others_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Place, "busy", lambda self: True)


def test_a_change_that_others_are_applying_is_no_finding(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left to who is at work; looked at again until store and index are at one change."""
    monkeypatch.setattr("memory_sqlite.doctor.place._PAUSE_S", 0.0)
    others_at_work(monkeypatch)
    looks = []
    real = Place._index

    def lagging(self: Place, path: Path) -> tuple[apsw.Connection, int]:
        looks.append(path)
        index, applied = real(self, path)
        return index, applied - (len(looks) < 3)

    monkeypatch.setattr(Place, "_index", lagging)
    (check,) = patient.examine(only=["index"]).checks
    assert (check.state, len(looks)) == ("ok", 3)
    monkeypatch.undo()
    monkeypatch.setattr("memory_sqlite.doctor.place._PAUSE_S", 0.0)
    in_store("INSERT INTO change_log (kind, target, op) VALUES ('message', 1, 'put')")(patient)
    with monkeypatch.context() as patch:
        others_at_work(patch)
        report = patient.examine(only=["index"])
        assert (report.findings, report.checks[0].state) == ((), "skipped")
    assert codes(patient.examine(only=["index"])) == {"index_behind"}


def test_what_others_leave_for_a_moment_is_no_finding(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retired index and a forgetting of this moment may be theirs; those of an hour ago are nobody's."""
    others_at_work(monkeypatch)
    leftover(patient)
    path = patient.directory / "index-000007.sqlite"
    path.chmod(0o600)
    now = Clock().now_ms()
    in_store(f"INSERT INTO forgettings (stage, notes, at) VALUES ('index', '[]', {now})")(patient)
    assert codes(patient.examine(only=["generations", "store rows"])) == set()
    os.utime(path, ((now - 3_600_000) / 1000,) * 2)
    in_store(f"UPDATE forgettings SET at = {now - 3_600_000}")(patient)
    assert codes(patient.examine(only=["generations", "store rows"])) == {"index_leftover", "forgetting_unfinished"}


def test_what_is_gone_at_the_next_look_is_no_finding(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that came and went between two reads: only what two looks say alike is told."""
    told = iter([[Finding("index_missing")], []])
    monkeypatch.setitem(CHECKS, "generations", lambda place: next(told))
    assert codes(patient.examine(only=["generations"])) == set()


def test_a_file_that_goes_while_it_is_looked_at_is_looked_for_again(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of generations come and go; one that never stays is told by the check's failure."""
    told: list[str] = []

    def gone(place: Place) -> list[Finding]:
        told.append("again")
        if len(told) < 3:
            raise FileNotFoundError
        return []

    monkeypatch.setitem(CHECKS, "logs", gone)
    assert [one.state for one in patient.examine(only=["logs"]).checks] == ["ok"]


def test_a_leftover_that_somebody_has_open_stays(patient: Patient) -> None:
    """It is somebody's: named as held, and not moved away from under them."""
    leftover(patient)
    with patient.opened(patient.directory / "index-000007.sqlite") as reader:
        reader.execute("SELECT count(*) FROM chunks").fetchall()
        report = patient.fix()
        assert codes(report) == {"index_held"}
        assert report.quarantine is None
    assert (patient.directory / "index-000007.sqlite").exists()


def test_temporary_files_of_the_living_stay(patient: Patient) -> None:
    """One that a process which lives may be writing now, and one of this hour, are nobody's leftovers."""
    write(f".session.key.{os.getpid()}.ab12")(patient)
    write(".keyring.json.fresh")(patient)
    assert codes(patient.examine()) == set()
    os.utime(patient.data / ".keyring.json.fresh", (1, 1))
    assert codes(patient.examine()) == {"temporary_leftover"}


def test_what_an_export_that_lives_writes_stays(patient: Patient) -> None:
    """Its process is told by the last number of the name; a folder of another form is somebody's, and counted so."""
    write(f".copy.999999999.{os.getpid()}.0123456789ab.partial")(patient)
    assert codes(patient.fix()) == set()
    write(".mine.partial/tea.txt")(patient)
    report = patient.fix()
    assert (codes(report), report.quarantine) == ({"foreign_file"}, None)


def test_an_export_of_before_a_forgetting_is_told_when_it_is_set_aside(patient: Patient) -> None:
    """The folder is younger than the forgetting, what was killed is not; one that was written since is no fault."""
    name = ".out.jsonl.999999999.0123456789ab.partial"
    write(name)(patient)
    assert codes(patient.fix()) == {"quarantine_kept"}
    (kept,) = patient.directory.rglob(name)
    os.utime(kept, (1, 1))
    assert codes(patient.examine()) == {"quarantine_kept", "quarantine_outlived"}
    kept.unlink()
    write(f"{name}/agents/x/memory.sqlite")(patient)
    patient.fix()
    for kept in patient.directory.rglob("quarantine-*/**/memory.sqlite"):
        os.utime(kept, (1, 1))
    assert codes(patient.examine()) == {"quarantine_kept", "quarantine_outlived"}


def test_old_data_is_looked_for_in_its_usual_place(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how many files there are, and whether they need a key; in the data directory all that opening refuses."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "home" / ".openclaw" / "state" / "memory"
    (place / "records").mkdir(parents=True)
    assert codes(patient.examine(only=["other products"])) == set()
    (place / "records" / "2026-01-01.jsonl").write_text("{}\n")
    (note,) = patient.examine(only=["other products"]).notes
    assert (note.code, note.evidence) == ("legacy_found", {"directories": 1, "files": 1})
    (place / ".encryption-check").write_text('{"v": 1, "iv": "AA==", "tag": "AA==", "data": "AA=="}\n')
    (note,) = patient.examine(only=["other products"]).notes
    assert note.evidence["encrypted"] == 1
    write("agents/ann/memories/notes.jsonl")(patient)
    (note,) = patient.examine(only=["other products"]).notes
    assert note.evidence["directories"] == 2
    assert note.names[0] == str(patient.data)


def test_damage_names_tables_and_what_is_readable(patient: Patient) -> None:
    """A page of the facts' table: that table is named, with the rows a scan gives; the others are counted as sound."""
    with patient.opened(patient.store) as store:
        page = int(str(store.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'records'").get))
        size = int(str(store.pragma("page_size")))
    data = bytearray(patient.store.read_bytes())
    data[(page - 1) * size : page * size] = b"\xa5" * size
    patient.store.write_bytes(bytes(data))
    (finding,) = [one for one in patient.examine().findings if one.code == "store_damaged"]
    assert finding.evidence["tables"] == "records"
    assert finding.evidence["readable_rows_records"] == 0
    assert int(finding.evidence["readable_tables"]) > 10


def test_tables_of_a_replicator_are_no_fault(patient: Patient) -> None:
    """Those that docs/backup.md speaks of; a third one would be told."""
    in_store("CREATE TABLE _litestream_seq (id INTEGER)", "CREATE TABLE _litestream_lock (id INTEGER)")(patient)
    assert "schema_differs" not in codes(patient.examine())
    in_store("CREATE TABLE _litestream_other (id INTEGER)")(patient)
    assert "schema_differs" in codes(patient.examine())
