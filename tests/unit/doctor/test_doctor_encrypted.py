"""Encrypted directories: each state of the keys has its own finding, none is called damage, and damage is found."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_kit import QUICK, codes

from memory_sqlite import Memory, library
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import examine
from memory_sqlite.doctor.fixing import fix
from memory_sqlite.doctor.place import Place
from memory_sqlite.paths import agent_directory
from memory_sqlite.storage import connection as connections

pytestmark = pytest.mark.skipif(library.cipher() is None, reason="this SQLite cannot encrypt")
FLIPS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "12"))
KEYS = {"DOCTOR_KEY": "k" * 40, "DOCTOR_OTHER_KEY": "o" * 40}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encrypted directory, made once."""
    data = tmp_path_factory.mktemp("sealed") / "data"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        with Memory.open(settings=Settings(data_dir=data, encryption_key_env="DOCTOR_KEY")) as memory:
            for number in range(12):
                said = [{"role": "user", "content": f"I love granite tea number {number}. " + "slate basalt " * 30}]
                memory.remember(session="s", chat_type="direct", sender_is_owner=True, messages=said)
    return data


@pytest.fixture
def settings(sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A copy of it, with the right key."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    shutil.copytree(sealed, tmp_path / "data")
    return Settings(data_dir=tmp_path / "data", encryption_key_env="DOCTOR_KEY")


def found(settings: Settings) -> set[str]:
    report = examine(settings, Clock(), only=QUICK)
    assert "check_failed" not in codes(report)
    assert not [key for key in KEYS.values() if key in str(report)]
    return codes(report)


def test_a_healthy_encrypted_directory_has_no_finding(settings: Settings) -> None:
    """Also for a worker, which gets the key in its first frame."""
    assert codes(examine(settings, Clock())) == set()


def in_clear(settings: Settings) -> Settings:
    other = settings.data_dir.with_name("clear")
    with Memory.open(settings=Settings(data_dir=other)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    return replace(settings, data_dir=other)


def mixed(settings: Settings) -> Settings:
    clear = in_clear(settings)
    target = agent_directory(settings.data_dir, "ann")
    shutil.copytree(agent_directory(clear.data_dir, "main"), target)
    return settings


def change(settings: Settings, harm: Callable[[Path], object]) -> Settings:
    harm(settings.data_dir / "keyring.json")
    return settings


STATES: dict[str, tuple[str, Callable[[Settings], Settings]]] = {
    "no key": ("encryption_key_required", lambda s: replace(s, encryption_key_env=None)),
    "another key": ("encryption_key_wrong", lambda s: replace(s, encryption_key_env="DOCTOR_OTHER_KEY")),
    "no keyring": ("keyring_missing", lambda s: change(s, lambda path: path.unlink())),
    "half a keyring": ("keyring_damaged", lambda s: change(s, lambda path: path.write_bytes(path.read_bytes()[:60]))),
    "a key for what is in clear": ("store_not_encrypted", in_clear),
    "one agent in clear": ("encryption_mixed", mixed),
}


@pytest.mark.parametrize("state", STATES)
def test_each_state_of_the_keys_has_its_own_finding(settings: Settings, state: str) -> None:
    """And no other: what cannot be read for want of a key is not damaged."""
    code, prepare = STATES[state]
    settings = prepare(settings)
    assert found(settings) == {code}
    report = fix(settings, Clock(), only=QUICK)
    assert (codes(report), report.mendings, report.quarantine) == ({code}, (), None)


def test_an_sqlite_that_cannot_encrypt(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said where the settings are read, and by the doctor as their finding."""
    from memory_sqlite import errors
    from memory_sqlite.doctor import unconfigured

    monkeypatch.setattr(library, "cipher", lambda: None)
    with pytest.raises(errors.EncryptionUnavailable) as refused:
        replace(settings, agent="main")
    assert codes(unconfigured(refused.value)) == {"encryption_unavailable"}


def test_a_change_of_keys_that_did_not_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there can be read; that the change must be ended is a warning."""
    from memory_sqlite.doctor.place import Place

    real = Place.file_key

    def changing(self: Place) -> object:
        key = real(self)
        self.keys_change = True
        return key

    monkeypatch.setattr(Place, "file_key", changing)
    assert found(settings) == {"key_change_unfinished"}


def test_what_was_set_aside_in_clear(settings: Settings) -> None:
    """A change of keys does not reach into quarantine folders."""
    folder = agent_directory(settings.data_dir, "main") / "quarantine-29990101T000000000Z"
    folder.mkdir(mode=0o700)
    clear = agent_directory(in_clear(settings).data_dir, "main") / "index-000001.sqlite"
    shutil.copyfile(clear, folder / "index-000001.sqlite")
    (folder / "index-000001.sqlite").chmod(0o600)
    assert found(settings) == {"quarantine_kept", "quarantine_in_clear"}


@pytest.mark.parametrize("name", ["memory.sqlite", "index-000001.sqlite"])
def test_every_flipped_bit_of_an_encrypted_file_is_found(settings: Settings, name: str) -> None:
    """Pages are authenticated: wherever a bit is flipped, it is a finding, and never an answer taken for right."""
    path = agent_directory(settings.data_dir, "main") / name
    sound = path.read_bytes()
    for seed in range(FLIPS):
        chosen = random.Random(seed)
        data = bytearray(sound)
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        path.write_bytes(bytes(data))
        assert found(settings) & {"store_damaged", "index_damaged", "keyring_damaged"}, seed
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)


def with_a_flipped_free_page(settings: Settings, name: str) -> None:
    """Free pages at the end of a file, and a bit of the last one."""
    path = agent_directory(settings.data_dir, "main") / name
    with Place(settings, Clock()) as place:
        connection = connections.open_store(path, place.file_key())
    with contextlib.closing(connection):
        for statement in ("CREATE TABLE more (x)", "INSERT INTO more VALUES (zeroblob(40000))", "DROP TABLE more"):
            connection.execute(statement).fetchall()
    data = bytearray(path.read_bytes())
    data[-2_000] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "code"), [("memory.sqlite", "store_damaged"), ("index-000001.sqlite", "index_damaged")]
)
def test_a_flipped_bit_in_a_page_of_no_table_is_found_deep(settings: Settings, name: str, code: str) -> None:
    """Those pages are read with --deep alone; an index is built anew, a store is not touched."""
    with_a_flipped_free_page(settings, name)
    report = examine(settings, Clock(), only=QUICK)
    assert codes(report) == set()
    assert {one.name: one.state for one in report.checks}["unused pages"] == "skipped"
    report = examine(settings, Clock(), deep=True, only=QUICK)
    assert codes(report) == {code}
    assert report.findings[0].evidence["reason"] == "a page that no table uses"
    report = fix(settings, Clock(), deep=True, only=QUICK)
    mended = name.startswith("index")
    assert codes(report) == ({"quarantine_kept"} if mended else {code})
    assert [(one.code, one.outcome) for one in report.mendings] == ([(code, "mended")] if mended else [])


def test_pages_that_are_too_many_for_memory_are_said_to_be_unread(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the state of the check, with its reason; files in clear have no pages of that kind."""
    monkeypatch.setattr("memory_sqlite.limits.SALVAGE_DECRYPTED_MAX_BYTES", 4_096)
    (check,) = examine(settings, Clock(), deep=True, only=["unused pages"]).checks
    assert (check.state, check.reason) == ("skipped", "too large to be decrypted in memory")
    clear = replace(in_clear(settings), encryption_key_env=None)
    (check,) = examine(clear, Clock(), deep=True, only=["unused pages"]).checks
    assert check.state == "off"


def test_what_an_export_left_is_in_clear_among_encrypted_files(settings: Settings) -> None:
    """Set aside it is as readable as it was."""
    (settings.data_dir / ".out.jsonl.999999999.0123456789ab.partial").touch(mode=0o600)
    assert codes(fix(settings, Clock(), only=QUICK)) == {"quarantine_kept", "quarantine_in_clear"}


def test_an_encrypted_index_is_mended(settings: Settings) -> None:
    """The damaged one is set aside as it is, encrypted; the new one opens with the same key."""
    path = agent_directory(settings.data_dir, "main") / "index-000001.sqlite"
    data = bytearray(path.read_bytes())
    data[9_000:9_100] = b"\xa5" * 100
    path.write_bytes(bytes(data))
    report = fix(settings, Clock(), only=QUICK)
    assert [(one.code, one.outcome) for one in report.mendings] == [("index_damaged", "mended")]
    assert codes(report) == {"quarantine_kept"}
    with Memory.open(settings=settings) as memory:
        assert memory.search("granite").hits
    assert json.loads(json.dumps(report.as_json(names=False)))["quarantine"].startswith("quarantine-")
