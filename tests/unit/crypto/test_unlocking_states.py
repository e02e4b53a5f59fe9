"""The states of a data directory and every mismatch: each has its own error, before the first byte is written.

Block 28 to 30 of the layered-memory reference, and the case C090 of a plain store beside encrypted ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors, rekeying
from memory_sqlite.config import Settings
from memory_sqlite.crypto import keyring_file
from memory_sqlite.paths import agent_directory
from memory_sqlite.storage import headers

KEY, OTHER = "a-demo-secret-with-at-least-32-bytes!", "another-demo-secret-of-32-bytes-or-more"
MARKER = "zirconquartz"
SCAN = """
import sys
from pathlib import Path
needle = sys.argv[2].encode()
print(*sorted(p.name for p in Path(sys.argv[1]).rglob("*") if p.is_file() and needle in p.read_bytes().lower()))
"""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", KEY)
    monkeypatch.setenv("OTHER", OTHER)


def settings(data: Path, variable: str | None = "KEY", agent: str = "main", **more: object) -> Settings:
    return Settings(data_dir=data, encryption_key_env=variable, agent=agent, **more)  # type: ignore[arg-type]


def remembered(data: Path, variable: str | None = "KEY", agent: str = "main", **more: object) -> None:
    with Memory.open(settings=settings(data, variable, agent, **more)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": f"The {MARKER} lies in hall 4."}])


def found(data: Path, variable: str | None = "KEY", agent: str = "main") -> int:
    with Memory.open(settings=settings(data, variable, agent), read_only=True) as memory:
        return len(memory.search(MARKER).hits)


def readable(data: Path, needle: str = MARKER) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SCAN, str(data), needle], capture_output=True, text=True, check=True)
    return done.stdout.split()


def everything(data: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(data)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(data.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def refused(data: Path, expected: type[errors.MemorySqliteError], variable: str | None, agent: str = "main") -> str:
    """Opening is refused with that error for reading and for writing, and no file is another one afterwards."""
    before = everything(data)
    messages = []
    for read_only in (True, False):
        with pytest.raises(expected) as caught:
            Memory.open(settings=settings(data, variable, agent), read_only=read_only).close()
        assert type(caught.value) is expected
        assert KEY not in str(caught.value)
        assert caught.value.hint
        messages.append(caught.value.message)
    assert everything(data) == before
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize("cipher", ["aegis", "sqlcipher"])
def test_empty_directory_with_a_key_is_encrypted_from_the_first_byte(tmp_path: Path, cipher: str) -> None:
    """Encrypted-empty, then encrypted: what is said is found with the key and in no file's bytes, busy or closed."""
    with Memory.open(settings=settings(tmp_path, encryption_cipher=cipher)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": f"The {MARKER} lies in hall 4."}])
        assert memory.search(MARKER).hits
        assert readable(tmp_path) == []
        assert (agent_directory(tmp_path, "main") / "memory.sqlite-wal").stat().st_size
    assert found(tmp_path) == 1
    assert readable(tmp_path) == []
    ring = keyring_file.load(tmp_path)
    assert ring is not None
    assert [one.cipher for one in ring.keys] == [cipher]
    assert (tmp_path / "keyring.json").stat().st_mode & 0o777 == 0o600
    assert headers.kind(agent_directory(tmp_path, "main") / "memory.sqlite") == "encrypted"


def test_block_28_empty_clear_store_reopened_with_a_key(tmp_path: Path, workspace: Path) -> None:
    """An empty store in clear becomes encrypted, whole directory and all; what it knew of its workspace stays."""
    for agent in ("main", "beta"):
        with Memory.open(settings=settings(tmp_path, None, agent, workspace=workspace)):
            pass
    remembered(tmp_path)
    assert readable(tmp_path) == []
    assert found(tmp_path) == 1
    for agent in ("main", "beta"):
        assert headers.kind(agent_directory(tmp_path, agent) / "memory.sqlite") == "encrypted"
    with Memory.open(settings=settings(tmp_path, agent="beta")) as memory:
        assert memory.status()["workspace"] == str(workspace)
    ring = keyring_file.load(tmp_path)
    assert ring is not None
    assert ring.change is None


def test_empty_clear_store_that_is_open_elsewhere_is_not_encrypted_under_it(tmp_path: Path) -> None:
    """Somebody who has the directory open in clear would go on writing in clear."""
    with Memory.open(settings=settings(tmp_path, None)) as memory:
        with pytest.raises(errors.DirectoryInUse):
            Memory.open(settings=settings(tmp_path, agent="beta"))
        assert not (tmp_path / "keyring.json").exists()
        memory.remember(session="s", messages=[{"role": "user", "content": "in clear"}])


def test_block_29_another_key(tmp_path: Path) -> None:
    """A wrong key is that and never damage; so it is with no records at all."""
    remembered(tmp_path)
    assert "encryption key validation failed" in refused(tmp_path, errors.EncryptionKeyWrong, "OTHER")
    assert found(tmp_path) == 1


def test_block_30_clear_data_then_a_key(tmp_path: Path) -> None:
    """Also when it is another agent that has something to lose."""
    remembered(tmp_path, None)
    message = refused(tmp_path, errors.StoreNotEncrypted, "KEY")
    assert "encryption key validation failed" in message
    with pytest.raises(errors.StoreNotEncrypted):
        Memory.open(settings=settings(tmp_path, agent="beta"))
    assert not agent_directory(tmp_path, "beta").exists()
    assert found(tmp_path, None) == 1


def test_no_key_for_an_encrypted_directory(tmp_path: Path) -> None:
    """Encrypted with records, and encrypted with none."""
    remembered(tmp_path)
    refused(tmp_path, errors.EncryptionKeyRequired, None)
    with pytest.raises(errors.EncryptionKeyRequired):
        Memory.open(settings=settings(tmp_path, None, agent="beta"))
    assert not agent_directory(tmp_path, "beta").exists()


@pytest.mark.parametrize("cipher", ["aegis", "sqlcipher"])
@pytest.mark.parametrize("variable", [None, "KEY"])
def test_lost_keyring(tmp_path: Path, variable: str | None, cipher: str) -> None:
    """Nothing is made anew beside encrypted files, with a key or without."""
    remembered(tmp_path, encryption_cipher=cipher)
    (tmp_path / "keyring.json").unlink()
    refused(tmp_path, errors.KeyringMissing, variable)
    with pytest.raises(errors.KeyringMissing):
        Memory.open(settings=settings(tmp_path, variable, agent="beta"))
    assert not (tmp_path / "keyring.json").exists()


def test_clear_store_opens_beside_one_whose_keyring_is_lost(tmp_path: Path) -> None:
    """Another agent's trouble is its own, and a new agent's; it is nothing of a store in clear that is there."""
    remembered(tmp_path, None)
    remembered(tmp_path / "else", agent="gamma")
    shutil.copytree(agent_directory(tmp_path / "else", "gamma"), agent_directory(tmp_path, "gamma"))
    assert found(tmp_path, None) == 1
    refused(tmp_path, errors.KeyringMissing, None, agent="gamma")
    with pytest.raises(errors.KeyringMissing):
        Memory.open(settings=settings(tmp_path, None, agent="new"))


def test_every_flipped_byte_of_the_keyring_is_noticed(tmp_path: Path) -> None:
    """Damage is told without the key, wherever it is; cut short, empty, a link and a directory too."""
    remembered(tmp_path)
    path = tmp_path / "keyring.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(errors.KeyringDamaged):
            keyring_file.load(tmp_path)
    for content in (b"", whole[: len(whole) // 2], b"[]", b"{}", b"\xff" * 100, b"[" * 100_000, b" " * 2_000_000):
        path.write_bytes(content)
        with pytest.raises(errors.KeyringDamaged):
            keyring_file.load(tmp_path)
    refused(tmp_path, errors.KeyringDamaged, "KEY")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    refused(tmp_path, errors.KeyringDamaged, "KEY")
    path.unlink()
    path.mkdir()
    refused(tmp_path, errors.KeyringDamaged, "KEY")


def test_keyring_of_another_directory(tmp_path: Path) -> None:
    """The same key of the user does not make it fit: it is bound to its session.key, and its data key is another."""
    remembered(tmp_path / "a")
    remembered(tmp_path / "b")
    shutil.copy(tmp_path / "b" / "keyring.json", tmp_path / "a" / "keyring.json")
    assert "another data directory" in refused(tmp_path / "a", errors.KeyringDamaged, "KEY")
    remembered(tmp_path / "c", "OTHER")
    shutil.copy(tmp_path / "c" / "keyring.json", tmp_path / "a" / "keyring.json")  # which key it has is no matter then
    assert "another data directory" in refused(tmp_path / "a", errors.KeyringDamaged, "KEY")
    shutil.copy(tmp_path / "b" / "keyring.json", tmp_path / "a" / "keyring.json")
    shutil.copy(tmp_path / "b" / "session.key", tmp_path / "a" / "session.key")
    assert "does not hold the key" in refused(tmp_path / "a", errors.KeyringDamaged, "KEY")


def test_keyring_from_before_a_rotation_begins_no_new_agent(tmp_path: Path) -> None:
    """Whoever was to lose the data by the rotation would have the new agent's, too. A damaged store of another agent is
    no reason: an index that opens says that the key is the right one."""
    remembered(tmp_path)
    before = (tmp_path / "keyring.json").read_bytes()
    rekeying.rotate(settings(tmp_path))
    now = (tmp_path / "keyring.json").read_bytes()
    (tmp_path / "keyring.json").write_bytes(before)
    with pytest.raises(errors.KeyringDamaged, match="none of the stores"):
        Memory.open(settings=settings(tmp_path, agent="beta"))
    assert not agent_directory(tmp_path, "beta").exists()
    assert rekeying.status(settings(tmp_path)).problem == "keyring_damaged"
    (tmp_path / "keyring.json").write_bytes(now)
    assert rekeying.status(settings(tmp_path)).problem is None
    path = agent_directory(tmp_path, "main") / "memory.sqlite"
    whole = bytearray(path.read_bytes())
    whole[300] ^= 1
    path.write_bytes(whole)
    remembered(tmp_path, agent="beta")
    assert found(tmp_path, agent="beta") == 1


def test_damaged_first_page_is_no_matter_of_keys(tmp_path: Path) -> None:
    """Where the index opens with the key, the store is what is damaged."""
    remembered(tmp_path)
    path = agent_directory(tmp_path, "main") / "memory.sqlite"
    whole = bytearray(path.read_bytes())
    whole[300] ^= 1
    path.write_bytes(whole)
    refused(tmp_path, errors.StoreDamaged, "KEY")


def test_case_C090_a_plain_store_beside_encrypted_ones(tmp_path: Path) -> None:
    """It is reported by name, not used as if it were protected, and not deleted."""
    remembered(tmp_path)
    remembered(tmp_path / "else", None, agent="gamma")
    theirs = agent_directory(tmp_path / "else", "gamma")
    shutil.copytree(theirs, agent_directory(tmp_path, "gamma"))
    for agent in ("gamma", "main"):
        assert theirs.name in refused(tmp_path, errors.EncryptionMixed, "KEY", agent)
    assert headers.kind(agent_directory(tmp_path, "gamma") / "memory.sqlite") == "plain"


def test_keys_of_agents_are_their_own(tmp_path: Path) -> None:
    """One agent's encrypted file is no database under another agent's name."""
    remembered(tmp_path)
    remembered(tmp_path, agent="beta")
    shutil.copy(
        agent_directory(tmp_path, "main") / "memory.sqlite", agent_directory(tmp_path, "beta") / "memory.sqlite"
    )
    with pytest.raises(errors.StoreDamaged):
        Memory.open(settings=settings(tmp_path, agent="beta"), read_only=True)
    assert found(tmp_path) == 1


def test_refused_first_open_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key file that is not there: neither directory nor session.key is made."""
    with pytest.raises(errors.InvalidConfiguration, match="encryption_key_file"):
        Memory.open(settings=Settings(data_dir=tmp_path / "data", encryption_key_file=tmp_path / "absent"))
    assert not (tmp_path / "data").exists()


def test_two_processes_make_one_keyring(tmp_path: Path) -> None:
    """A keyring that comes while another is made is the one that both use."""
    remembered(tmp_path)
    first = keyring_file.load(tmp_path)
    assert first is not None
    second = tmp_path / "second"
    remembered(second)
    ring = keyring_file.load(second)
    assert ring is not None
    keyring_file.place(tmp_path, ring, lambda count: b"x" * count, new=True)
    assert keyring_file.load(tmp_path) == first
    assert [path.name for path in tmp_path.glob(".keyring*")] == []
