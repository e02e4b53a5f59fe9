"""Salvage from settings: the keyring's keys are tried on all pages, for the first page may be what is damaged."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from damaged_store import PAGE

from memory_sqlite import Memory, errors, library, rekeying
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import directory_lock
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.keyring import Unlocked
from memory_sqlite.doctor import salvaging
from memory_sqlite.doctor.salvaging import salvage_agent

pytestmark = pytest.mark.skipif(library.cipher() is None, reason="needs apsw-sqlite3mc")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An encrypted memory with a few turns."""
    monkeypatch.setenv("SALVAGE_TEST_KEY", "0123456789abcdef" * 3)
    found = Settings(data_dir=tmp_path / "data", encryption_key_env="SALVAGE_TEST_KEY")
    with Memory.open(settings=found) as memory:
        for number in range(20):
            memory.remember(session="s", messages=[{"role": "user", "content": f"granite number {number}"}])
    return found


def damage(settings: Settings, page: int) -> Path:
    store = next((settings.data_dir / "agents").iterdir()) / "memory.sqlite"
    content = bytearray(store.read_bytes())
    begin = (page - 1) * PAGE + (16 if page == 1 else 0)
    content[begin : page * PAGE] = random.Random(page).randbytes(page * PAGE - begin)
    store.write_bytes(bytes(content))
    return store


def opened(settings: Settings, data_dir: Path) -> Settings:
    return Settings(data_dir=data_dir, encryption_key_env=settings.encryption_key_env)


@pytest.mark.parametrize("page", [1, 2])
def test_what_comes_over_opens_with_the_same_key(settings: Settings, tmp_path: Path, page: int) -> None:
    """Session key, keyring and file key fit each other in the new place; and nothing in it is in clear."""
    store = damage(settings, page)
    before = store.read_bytes()
    with pytest.raises(errors.MemorySqliteError):
        Memory.open(settings=settings)
    report = salvage_agent(settings, Clock(), tmp_path / "out")
    assert report.unreadable_pages == 1 and report.session_key == "kept" and store.read_bytes() == before
    with Memory.open(settings=opened(settings, tmp_path / "out")) as memory:
        assert memory.status()["encrypted"] is True and memory.status()["turns"] == 20
        assert memory.search("granite number 7").hits
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"granite" not in path.read_bytes()


def test_the_wal_is_taken_in_although_the_first_page_is_lost(settings: Settings, tmp_path: Path) -> None:
    """As a killed process leaves it: the page that is put in place of the first one does not keep the WAL out."""
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite is old"}])
        copied = "import shutil, sys; shutil.copytree(*sys.argv[1:])"
        names = [str(settings.data_dir), str(tmp_path / "killed")]
        subprocess.run([sys.executable, "-c", copied, *names], check=True)
    killed = opened(settings, tmp_path / "killed")
    store = damage(killed, 1)
    wal = store.with_name("memory.sqlite-wal").read_bytes()
    frames = {int.from_bytes(wal[at : at + 4], "big") for at in range(32, len(wal), 24 + PAGE)}
    assert frames and 1 not in frames
    content = bytearray(store.read_bytes())
    newer = max(number for number in frames if number * PAGE <= len(content))
    content[(newer - 1) * PAGE : newer * PAGE] = bytes(PAGE)  # a bad sector, of which the WAL has a newer page
    store.write_bytes(bytes(content))
    report = salvage_agent(killed, Clock(), tmp_path / "out")
    assert report.unreadable_pages == 1 and report.tables["turns"]["rows"] == 21


def test_keys_that_do_not_open_it(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None configured, another one, the session key lost or another: each by its name, and nothing is made."""
    with pytest.raises(errors.EncryptionKeyRequired):
        salvage_agent(Settings(data_dir=settings.data_dir), Clock(), tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setenv("SALVAGE_TEST_KEY", "fedcba9876543210" * 3)
        with pytest.raises(errors.EncryptionKeyWrong):
            salvage_agent(settings, Clock(), tmp_path / "out")
    key = settings.data_dir / "session.key"
    own = key.read_bytes()
    key.write_bytes(bytes(32))
    with pytest.raises(errors.KeyringDamaged):
        salvage_agent(settings, Clock(), tmp_path / "out")
    key.unlink()
    with pytest.raises(errors.SessionKeyMissing):
        salvage_agent(settings, Clock(), tmp_path / "out")
    key.write_bytes(own)
    (settings.data_dir / "keyring.json").unlink()
    with pytest.raises(errors.StoreDamaged):
        salvage_agent(settings, Clock(), tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))


def test_a_plain_store_whose_header_is_damaged(tmp_path: Path) -> None:
    """It looks like an encrypted one without a keyring, and is read as what it is."""
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    store = next((tmp_path / "data" / "agents").iterdir()) / "memory.sqlite"
    store.write_bytes(b"rubbish rubbish " + store.read_bytes()[16:])
    with pytest.raises(errors.KeyringMissing):
        Memory.open(settings=settings)
    assert salvage_agent(settings, Clock(), tmp_path / "out").tables["messages"]["rows"] == 1


def test_each_key_of_the_keyring_is_tried(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-way through a change of keys a store has the old one or the new one, or is in clear."""
    candidates = salvaging.unlocking.candidates

    def others_first(unlocked: Unlocked, directory: Path) -> list[FileKey | None]:
        return [FileKey("aegis", bytes(32), "other"), *candidates(unlocked, directory), None]

    monkeypatch.setattr(salvaging.unlocking, "candidates", others_first)
    assert salvage_agent(settings, Clock(), tmp_path / "out").tables["turns"]["rows"] == 20


def test_keys_do_not_change_while_it_reads(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the copy would have the pages of one key and the keyring of another."""
    real, refused = salvaging.salvage, []

    def during(*arguments: Any) -> Any:
        try:
            rekeying.rotate(settings)
        except errors.DirectoryInUse:
            refused.append(1)
        return real(*arguments)

    monkeypatch.setattr(salvaging, "salvage", during)
    assert salvage_agent(settings, Clock(), tmp_path / "out").status == "whole" and refused == [1]


def test_what_a_killed_salvage_left_goes_with_the_next(settings: Settings, tmp_path: Path) -> None:
    """It holds a copy of the store; one whose maker lives stays."""
    left, living = tmp_path / ".out.7.0123456789ab.partial", tmp_path / ".out.8.0123456789ab.partial"
    for place in (left, living):
        (place / "scratch").mkdir(parents=True)
    hold = directory_lock.hold(living)
    try:
        salvage_agent(settings, Clock(), tmp_path / "out")
    finally:
        hold.close()
    assert not left.exists() and living.exists()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["agents", "keyring.json", "session.key"]
