"""Proving: every file of a backup and every store of a data directory; nothing that is wrong is called sound."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, limits, paths
from memory_sqlite.backup import making, manifest
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import fixing

CLOCK = Clock()
MAIN = f"agents/{paths.agent_directory_name('main')}/memory.sqlite"
ANN = f"agents/{paths.agent_directory_name('ann')}/memory.sqlite"


@pytest.fixture
def backup(prepared: Path, tmp_path: Path) -> Path:
    """A copy of a backup, for one test."""
    return Path(shutil.copytree(prepared / "b", tmp_path / "b"))


def tree(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def rewrite(backup: Path, change: Callable[[dict[str, Any]], object], *, digest: bool = True) -> None:
    """The manifest as somebody would forge it: with a digest that fits, or without."""
    file = backup / "manifest.json"
    document = json.loads(file.read_text())
    change(document)
    body = {name: value for name, value in document.items() if name != "digest"}
    if digest:
        text = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        document["digest"] = hashlib.sha256(text.encode()).hexdigest()
    file.write_text(json.dumps(document))


def refused(backup: Path, settings: Settings, tmp_path: Path) -> errors.MemorySqliteError:
    """Restoring what is wrong raises and leaves nothing."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises((errors.BackupInvalid, errors.StoreDamaged)) as caught:
        restore(backup, Settings(data_dir=tmp_path / "new"), CLOCK)
    assert sorted(tmp_path.iterdir()) == before
    return caught.value


def test_proving_changes_nothing(backup: Path, settings: Settings) -> None:
    """Not a byte, and no file beside a store; also where nothing may be written."""
    before = tree(backup)
    for place in (backup, *backup.rglob("*")):
        place.chmod(0o500 if place.is_dir() else 0o400)
    report = verify(backup, settings, CLOCK)
    assert (report.status, report.kind, report.files, len(report.agents)) == ("ok", "backup", 4, 2)
    assert report.problems == ()
    assert tree(backup) == before
    for place in (backup, *backup.rglob("*")):
        place.chmod(0o700 if place.is_dir() else 0o600)


def test_a_flipped_bit_anywhere_is_found(backup: Path, settings: Settings, tmp_path: Path) -> None:
    """In each file: forty places of the stores, every one of the key, all over the manifest."""
    rng = random.Random(3)
    for name in (MAIN, ANN, "session.key", "manifest.json"):
        whole = (backup / name).read_bytes()
        for at in rng.sample(range(len(whole)), 20):
            content = bytearray(whole)
            content[at] ^= 1 << rng.randrange(8)
            if name == "manifest.json" and json_equal(content, whole):
                continue
            (backup / name).write_bytes(content)
            try:
                assert verify(backup, settings, CLOCK).problems[0].startswith(name)
            except (errors.BackupInvalid, errors.InvalidArgument):
                assert name == "manifest.json"
        refused(backup, settings, tmp_path) if name != "manifest.json" else None
        (backup / name).write_bytes(whole)
    assert verify(backup, settings, CLOCK).status == "ok"


def json_equal(content: bytearray, whole: bytes) -> bool:
    """A bit that makes another white space changes nothing that is said."""
    try:
        return bool(json.loads(content) == json.loads(whole))
    except ValueError:
        return False


@pytest.mark.parametrize("name", [MAIN, "session.key"])
@pytest.mark.parametrize("how", ["missing", "cut", "longer", "link", "directory", "pipe"])
def test_a_file_that_is_not_what_it_was(backup: Path, settings: Settings, tmp_path: Path, name: str, how: str) -> None:
    """Named in the report; links are not followed, pipes not waited for; the other store is still proved."""
    file = backup / name
    content = file.read_bytes()
    file.unlink()
    if how == "cut":
        file.write_bytes(content[:-1])
    elif how == "longer":
        file.write_bytes(content + b"\0")
    elif how == "link":
        (tmp_path / "kept").write_bytes(content)
        file.symlink_to(tmp_path / "kept")
    elif how == "directory":
        file.mkdir()
    elif how == "pipe":
        os.mkfifo(file)
    report = verify(backup, settings, CLOCK)
    assert report.status == "damaged"
    assert any(problem.startswith(name) for problem in report.problems)
    said = {"missing": "missing", "link": "link", "directory": "regular file", "pipe": "regular file"}
    assert any(said.get(how, "not what it was") in problem for problem in report.problems)
    assert len(report.agents) == (1 if name == MAIN else 0)
    assert refused(backup, settings, tmp_path).message.startswith(name)


def test_a_folder_that_is_a_link(backup: Path, settings: Settings, tmp_path: Path) -> None:
    (backup / "agents").rename(tmp_path / "elsewhere")
    (backup / "agents").symlink_to(tmp_path / "elsewhere")
    assert "link" in verify(backup, settings, CLOCK).problems[0]
    assert "link" in refused(backup, settings, tmp_path).message


def test_what_does_not_belong_there_is_told_and_not_restored(
    backup: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log beside a store means that somebody opened it; SQLite would take it for the truth."""
    (backup / (MAIN + "-wal")).write_bytes(b"x" * 100)
    (backup / "agents" / "more").mkdir()
    (backup / "more.txt").write_text("x")
    report = verify(backup, settings, CLOCK)
    assert [problem.split()[0] for problem in report.problems] == ["more.txt", "agents/more", MAIN + "-wal"]
    monkeypatch.setattr(limits, "REPORTED_PROBLEMS_MAX", 2)
    assert len(verify(backup, settings, CLOCK).problems) == 2
    restored = restore(backup, Settings(data_dir=tmp_path / "new"), CLOCK)
    assert restored.status == "ok"
    assert set(tree(tmp_path / "new")) == {"session.key", MAIN, ANN}


def named(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["files"][2].update(name=name)


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "out of it": named("agents/../../../../etc/passwd"),
    "absolute": named("/etc/passwd"),
    "backwards": named(MAIN.replace("/", "\\")),
    "with a NUL": named("agents/a\0b/memory.sqlite"),
    "hidden": named(".ssh/authorized_keys"),
    "a folder of no agent": lambda document: document["agents"][0].update(directory="../x"),
    "an upper case folder": lambda document: document["agents"][0].update(directory="Ann-49915e0d7d4b"),
    "another agent's folder": lambda document: document["agents"][0].update(agent="bob"),
    "twice the same": lambda document: document["files"].append(document["files"][-1]),
    "an agent twice": lambda document: document["agents"].append(document["agents"][0]),
    "a file too many": lambda document: document["files"].append({**document["files"][0], "name": "more"}),
    "a file too few": lambda document: document["files"].pop(),
    "a negative size": lambda document: document["files"][2].update(bytes=-1),
    "a size that is none": lambda document: document["files"][2].update(bytes=True),
    "a size beyond all": lambda document: document["files"][2].update(bytes=2**60),
    "a digest that is none": lambda document: document["files"][2].update(sha256="x" * 64),
    "another version": lambda document: document.update(version=2),
    "another format": lambda document: document.update(format="x"),
    "encrypted without a key": lambda document: document.update(encrypted=True),
    "a key and no keyring": lambda document: document.update(encrypted=True, key_ids=["k"]),
    "agents that are none": lambda document: document.update(agents=7),
    "counts that are none": lambda document: document["agents"][0].update(counts=["x"]),
    "no time": lambda document: document.pop("created_at"),
    "a time that is none": lambda document: document.update(created_at=1.5),
    "another key": lambda document: document.update(session_key=5),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_manifest(backup: Path, settings: Settings, tmp_path: Path, how: str) -> None:
    """Whatever no backup can have is refused before any other file is looked at."""
    rewrite(backup, FORGED[how])
    for file in ("session.key", MAIN, ANN):
        (backup / file).unlink()
    with pytest.raises(errors.BackupInvalid, match=r"manifest|version"):
        verify(backup, settings, CLOCK)
    refused(backup, settings, tmp_path)


def test_a_manifest_that_nobody_can_read(backup: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut, changed, deep, not a number, too large: typed, and bounded before it is parsed."""
    file = backup / "manifest.json"
    whole = file.read_bytes()
    for content in (
        b"", whole[:-20], b"[]", b"\xff\xfe", whole.replace(b'"version": 1', b'"version": 1, "version": 1'),
        whole.replace(b'"created_at": ', b'"created_at": NaN, "x": '), b"[" * 100_000,
        b'{"format": "memory-sqlite backup", "version": 1, "agents": ' + b"[" * 70 + b"]" * 70 + b"}",
    ):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(errors.BackupInvalid):
            manifest.read(backup)
    file.write_bytes(whole)
    rewrite(backup, lambda document: document["agents"][0]["counts"].update(messages=1), digest=False)
    with pytest.raises(errors.BackupInvalid, match="digest"):
        manifest.read(backup)
    file.write_bytes(whole)
    monkeypatch.setattr(limits, "BACKUP_MANIFEST_MAX_BYTES", len(whole) - 1)
    with pytest.raises(errors.BackupInvalid, match="larger"):
        manifest.read(backup)
    monkeypatch.setattr(limits, "BACKUP_AGENTS_MAX", 0)
    monkeypatch.setattr(limits, "BACKUP_MANIFEST_MAX_BYTES", len(whole))
    with pytest.raises(errors.BackupInvalid):
        manifest.read(backup)


def test_counts_that_are_not_those_of_the_store(backup: Path, settings: Settings, tmp_path: Path) -> None:
    """A manifest with a fitting digest is still held against the rows."""
    rewrite(backup, lambda document: document["agents"][0]["counts"].update(messages=1))
    assert "other rows" in verify(backup, settings, CLOCK).problems[0]
    assert "other rows" in refused(backup, settings, tmp_path).message


def forge_store(backup: Path, name: str, sql: str) -> None:
    """A store that was changed, with a manifest that fits its bytes."""
    connection = apsw.Connection(str(backup / name))
    connection.execute(sql).fetchall()
    connection.close()
    fit(backup, name)


def fit(backup: Path, name: str) -> None:
    """Make the manifest say what the bytes of a store are."""
    content = (backup / name).read_bytes()

    def change(document: dict[str, Any]) -> None:
        entry = next(one for one in document["files"] if one["name"] == name)
        entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    rewrite(backup, change)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON turns BEGIN DELETE FROM turns; END", "triggers"),
        ("CREATE VIEW v AS SELECT 1", "views"),
        ("UPDATE store_info SET value = 'bob' WHERE key = 'agent'", "another agent than its folder"),
        ("UPDATE store_info SET value = 'x' WHERE key = 'session_key_fingerprint'", "session.key"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM sessions", "refer"),
        ("PRAGMA user_version = 999", "schema"),
        ("PRAGMA application_id = 1", "not a store"),
        ("ALTER TABLE turns RENAME TO turnings", "lacks 8 columns"),
        ("ALTER TABLE messages RENAME COLUMN text TO words", "lacks 1 column"),
        (None, "empty"),
    ],
)
def test_a_store_that_is_none_of_ours(
    backup: Path, settings: Settings, tmp_path: Path, sql: str | None, said: str
) -> None:
    """Bytes that fit prove only who wrote the manifest: what is in the store is looked at too."""
    if sql is None:
        (backup / MAIN).unlink()
    forge_store(backup, MAIN, sql or "CREATE TABLE x (y); DROP TABLE x")
    report = verify(backup, settings, CLOCK)
    assert report.status == "damaged"
    assert said in report.problems[0]
    with pytest.raises((errors.StoreDamaged, errors.SchemaTooNew), match=said):
        restore(backup, Settings(data_dir=tmp_path / "new"), CLOCK)
    assert not (tmp_path / "new").exists()


def test_an_index_that_does_not_fit_its_table(backup: Path, settings: Settings, tmp_path: Path) -> None:
    """Every row is there and is counted, and SQLite would not find one of them."""
    connection = apsw.Connection(str(backup / MAIN))
    page = connection.execute("SELECT max(pageno) FROM dbstat WHERE name = 'messages_digest' AND pagetype = 'leaf'").get
    connection.close()
    assert isinstance(page, int)
    content = bytearray((backup / MAIN).read_bytes())
    content[page * 4096 - 1] ^= 1  # the last byte of an entry: the row it stands for
    (backup / MAIN).write_bytes(content)
    fit(backup, MAIN)
    assert "faults" in verify(backup, settings, CLOCK).problems[0]
    assert "faults" in refused(backup, settings, tmp_path).message


def test_the_stores_of_a_data_directory(data: Path, settings: Settings) -> None:
    """Also while a host has it open; nothing is written."""
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s9", messages=[{"role": "user", "content": "The last word."}])
        report = verify(data, settings, CLOCK)
    assert (report.status, report.kind, report.created_at) == ("ok", "data_directory", None)
    main = next(one for one in report.agents if one.agent == "main")
    assert main.counts["messages"] == 25


def test_a_damaged_store_of_a_data_directory(data: Path, settings: Settings) -> None:
    """It is named, and the others are proved all the same."""
    content = bytearray((data / ANN).read_bytes())
    content[4096 * 3 : 4096 * 6] = bytes(4096 * 3)
    (data / ANN).write_bytes(content)
    report = verify(data, settings, CLOCK)
    assert report.status == "damaged"
    assert [problem.partition(":")[0] for problem in report.problems] == [paths.agent_directory_name("ann")]
    assert [one.agent for one in report.agents] == ["main"]


def test_what_is_neither_backup_nor_memory(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(errors.InvalidArgument):
            verify(place, settings, CLOCK)
        with pytest.raises(errors.InvalidArgument):
            restore(place, Settings(data_dir=tmp_path / "new"), CLOCK)


def test_a_row_that_breaks_the_rules_of_its_table(data: Path, settings: Settings, tmp_path: Path) -> None:
    """A connection that may not write does not hear of it from SQLite; neither backup nor verify calls it sound."""
    connection = apsw.Connection(str(data / MAIN))
    connection.execute("PRAGMA ignore_check_constraints = 1").fetchall()
    connection.execute("UPDATE messages SET origin = 'oxner' WHERE id = 1").fetchall()
    connection.close()
    report = verify(data, settings, CLOCK)
    assert report.status == "damaged" and "1 rows hold what none of ours can" in report.problems[0]
    with pytest.raises(errors.StoreDamaged):
        making.make(settings, tmp_path / "b", CLOCK)


def test_a_backup_is_not_written_to(backup: Path, settings: Settings) -> None:
    """As a data directory it can be read and not opened for writing: it stays a backup that is sound."""
    before = tree(backup)
    with pytest.raises(errors.InvalidArgument, match="is a backup"):
        Memory.open(settings=Settings(data_dir=backup))
    with pytest.raises(errors.InvalidArgument, match="is a backup"):
        Memory.open(settings=Settings(data_dir=backup, agent="new"))
    with Memory.open(settings=Settings(data_dir=backup), read_only=True) as memory:
        assert memory.status()["turns"] == 12
    assert tree(backup) == before and verify(backup, settings, CLOCK).status == "ok"


def test_doctor_mends_nothing_in_a_backup(backup: Path) -> None:
    """A store that lacks an index is a backup that is damaged; mending it would be one more change to it."""
    connection = apsw.Connection(str(backup / MAIN))
    connection.execute("DROP INDEX messages_turn").fetchall()
    connection.close()
    before = tree(backup)
    report = fixing.fix(Settings(data_dir=backup), CLOCK, only=("store",))
    assert [(one.code, one.reason) for one in report.mendings] == [("schema_differs", "invalid_argument")]
    assert tree(backup) == before


def test_somebody_elses_manifest_makes_no_backup(tmp_path: Path) -> None:
    """A file of that name beside a live memory says nothing unless it is a backup's."""
    data = tmp_path / "live"
    Memory.open(data).close()
    (data / "manifest.json").write_text('{"name": "something else"}')
    with Memory.open(data) as memory:
        assert memory.remember(session="s", messages=[{"role": "user", "content": "granite"}]).status == "stored"
