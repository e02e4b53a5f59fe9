"""Backups of an encrypted memory: encrypted as it is, of no use without its key, proved and restored with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.backup import making, manifest
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.rekeying import passphrase
from memory_sqlite.rekeying import run as rekeying

CLOCK = Clock()
KEY = "a key of more than thirty-two bytes, for tests"
MARKERS = (b"MARKER-ALPHA", b"marker-alpha", b"agent-kilo", b"session-lima")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_TEST_KEY", KEY)
    monkeypatch.setenv("BACKUP_TEST_OTHER", KEY[::-1])


def settings(data_dir: Path, variable: str | None = "BACKUP_TEST_KEY", **more: str) -> Settings:
    return Settings(data_dir=data_dir, agent="agent-kilo", encryption_key_env=variable, **more)  # type: ignore[arg-type]


def say(memory: Memory, text: str) -> None:
    memory.remember(session="session-lima", messages=[{"role": "user", "content": text}], sender_is_owner=True)


@pytest.fixture(params=["aegis", "sqlcipher"])
def memory(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Memory]:
    with Memory.open(settings=settings(tmp_path / "data", encryption_cipher=request.param)) as opened:
        for number in range(5):
            say(opened, f"I like MARKER-ALPHA {number} very much.")
        yield opened


def marked(place: Path) -> list[str]:
    """Files in which a word of the memory can be read. The agent's folder is named after it, in clear."""
    slug = paths.agent_directory_name("agent-kilo").encode()
    return [
        str(path)
        for path in place.rglob("*")
        if path.is_file() and any(marker in path.read_bytes().replace(slug, b"") for marker in MARKERS)
    ]


def test_nothing_can_be_read_in_it(memory: Memory, tmp_path: Path) -> None:
    """Not in a store, not in the manifest, not in what is staged; and it is proved and put back with the key."""

    def look(stage: str, done: int, total: int | None) -> None:
        # by a child: reading a store's bytes in its process would drop SQLite's locks
        subprocess.run(["cp", "-r", *tmp_path.glob(".b.*"), tmp_path / "staged"], check=True)

    report = memory.backup(tmp_path / "b", progress=look)
    assert list((tmp_path / "staged").rglob("memory.sqlite"))
    assert marked(tmp_path / "staged") == marked(tmp_path / "b") == []
    assert report.encrypted
    assert len(report.key_ids) == 1
    assert manifest.key_ids(tmp_path / "b") == report.key_ids
    assert {path.name for path in (tmp_path / "b").iterdir()} == {
        "agents", "keyring.json", "manifest.json", "session.key",
    }  # fmt: skip
    assert json.loads((tmp_path / "b" / "manifest.json").read_text())["agents"][0]["agent"] is None
    verified = verify(tmp_path / "b", memory.settings, CLOCK)
    assert (verified.status, verified.encrypted, verified.key_ids) == ("ok", True, report.key_ids)
    restored = restore(tmp_path / "b", settings(tmp_path / "new"), CLOCK)
    assert restored.encrypted
    assert restored.agents[0].agent == "agent-kilo"
    with Memory.open(settings=settings(tmp_path / "new")) as again:
        assert any("MARKER-ALPHA 3" in hit.excerpt for hit in again.search("MARKER-ALPHA 3").hits)
    memory.close()
    assert marked(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("variable", "raised"), [(None, errors.EncryptionKeyRequired), ("BACKUP_TEST_OTHER", errors.EncryptionKeyWrong)]
)
def test_without_its_key_it_is_never_called_sound(
    memory: Memory, tmp_path: Path, variable: str | None, raised: type[Exception]
) -> None:
    """Neither proved nor restored, and nothing is left; also where it is damaged, the key is what is asked for."""
    memory.backup(tmp_path / "b")
    for _ in range(2):
        with pytest.raises(raised):
            verify(tmp_path / "b", settings(tmp_path, variable), CLOCK)
        with pytest.raises(raised):
            restore(tmp_path / "b", settings(tmp_path / "new", variable), CLOCK)
        with pytest.raises(raised):
            verify(memory.settings.data_dir, settings(tmp_path, variable), CLOCK)
        with pytest.raises(raised):
            making.make(settings(memory.settings.data_dir, variable), tmp_path / "c", CLOCK)
        assert not (tmp_path / "new").exists()
        assert not (tmp_path / "c").exists()
        next((tmp_path / "b").rglob("memory.sqlite")).write_bytes(b"x" * 4096)


def test_a_flipped_bit_and_a_lost_keyring(memory: Memory, tmp_path: Path) -> None:
    """Damage is damage, and not a wrong key."""
    memory.backup(tmp_path / "b")
    store = next((tmp_path / "b").rglob("memory.sqlite"))
    whole = store.read_bytes()
    store.write_bytes(whole[:9_000] + bytes([whole[9_000] ^ 1]) + whole[9_001:])
    assert "is not what it was" in verify(tmp_path / "b", memory.settings, CLOCK).problems[0]
    store.write_bytes(whole)
    ring = tmp_path / "b" / "keyring.json"
    kept = ring.read_bytes()
    ring.unlink()
    report = verify(tmp_path / "b", memory.settings, CLOCK)
    assert (report.status, report.problems, report.agents) == ("damaged", ("keyring.json is missing",), ())
    with pytest.raises(errors.BackupInvalid):
        restore(tmp_path / "b", settings(tmp_path / "new"), CLOCK)
    ring.write_bytes(kept)
    assert verify(tmp_path / "b", memory.settings, CLOCK).status == "ok"


def test_what_was_forgotten_is_forgotten_again(memory: Memory, tmp_path: Path) -> None:
    """Through the keys of the directory that was there and of the one that is made, which are the same."""
    say(memory, "Something else, of granite.")
    memory.backup(tmp_path / "b")
    memory.forget(references=[memory.search("granite").hits[0].reference])
    memory.close()
    report = restore(tmp_path / "b", settings(tmp_path / "new"), CLOCK, tombstones_from=[tmp_path / "data"])
    assert (report.problems, report.unknown) == ((), ())
    assert report.forgotten_again[0].turns == 1
    assert marked(tmp_path / "new") == []
    with Memory.open(settings=settings(tmp_path / "new")) as again:
        assert not any("granite" in hit.excerpt for hit in again.search("granite").hits)


def test_a_key_says_nothing_against_a_backup_in_clear(tmp_path: Path) -> None:
    """Made before the memory was encrypted: proved with the key configured; restored, it is in clear and says so."""
    with Memory.open(settings=settings(tmp_path / "data", None)) as clear:
        say(clear, "I like granite.")
        clear.backup(tmp_path / "b")
    keyed = settings(tmp_path / "new")
    assert verify(tmp_path / "b", keyed, CLOCK).encrypted is False
    assert restore(tmp_path / "b", keyed, CLOCK).encrypted is False
    with pytest.raises(errors.StoreNotEncrypted):
        Memory.open(settings=keyed)
    with Memory.open(settings=settings(tmp_path / "new", None)) as again:
        assert again.status()["turns"] == 1


def test_the_keys_of_a_backup_are_not_changed(memory: Memory, tmp_path: Path) -> None:
    """Its keyring would not be the one that the manifest names, and nothing could be restored any more."""
    making.make(memory.settings, tmp_path / "b", CLOCK)
    there = settings(tmp_path / "b")
    changes: list[Callable[[], object]] = [
        lambda: passphrase.change_passphrase(there, Secret("env", "BACKUP_TEST_OTHER")),
        lambda: rekeying.rotate(there),
        lambda: rekeying.decrypt(there),
    ]
    for change in changes:
        with pytest.raises(errors.InvalidArgument, match="is a backup"):
            change()
    assert verify(tmp_path / "b", there, CLOCK).status == "ok"
