"""Encrypt, decrypt, rotate, change the passphrase: everything is kept, nothing is left readable, and nothing is done
twice. Cases C084 and C086."""

from __future__ import annotations

import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, rekeying
from memory_sqlite.config import Settings
from memory_sqlite.crypto import keyring_file
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.paths import agent_directory
from memory_sqlite.rekeying import agent_files
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import headers, reencryption, unlocking

KEY, OTHER = "a-demo-secret-with-at-least-32-bytes!", "another-demo-secret-of-32-bytes-or-more"
MARKER = "MARKER-XRAY-66"
AGENTS = ("main", "beta")
SCAN = """
import sys
from pathlib import Path
needle = sys.argv[2].lower().encode()
print(*sorted(p.name for p in Path(sys.argv[1]).rglob("*") if p.is_file() and needle in p.read_bytes().lower()))
"""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", KEY)
    monkeypatch.setenv("OTHER", OTHER)


def settings(data: Path, variable: str | None = "KEY", agent: str = "main", **more: Any) -> Settings:
    return Settings(data_dir=data, encryption_key_env=variable, agent=agent, **more)


def readable(data: Path, needle: str = MARKER) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SCAN, str(data), needle], capture_output=True, text=True, check=True)
    return done.stdout.split()


def fill(data: Path, variable: str | None) -> None:
    for agent in AGENTS:
        with Memory.open(settings=settings(data, variable, agent)) as memory:
            for turn in range(3):
                text = f"The fact {MARKER} of {agent} is number {turn}."
                memory.remember(session="s", run_id=f"r{turn}", messages=[{"role": "user", "content": text}])


def said(data: Path, variable: str | None) -> dict[str, Any]:
    """What searches answer for each agent: texts, references, session tokens; and which generation answered."""
    answers = {}
    for agent in AGENTS:
        with Memory.open(settings=settings(data, variable, agent), read_only=True) as memory:
            hits = memory.search(MARKER).hits
            answers[agent] = [(hit.reference, hit.citation, hit.excerpt, hit.score) for hit in hits]
            assert answers[agent]
            assert memory.status()["index"]["generation"] if "index" in memory.status() else True
    return answers


def versions(data: Path, variable: str | None) -> list[Any]:
    found = []
    for agent in AGENTS:
        with Memory.open(settings=settings(data, variable, agent), read_only=True) as memory:
            assert memory._opened is not None
            reader = memory._opened.store.connection
            found += [reader.pragma("user_version"), reader.pragma("application_id")]
    return found


def kinds(data: Path) -> set[str]:
    return {headers.kind(path) for _, path in unlocking.files(data)}


def strangers(data: Path) -> list[str]:
    """Files that a change leaves and should not: copies, journals, shared memory, logs."""
    return [
        path.name for path in data.rglob("*") if path.name.endswith((".rekey", "-journal")) or ".keyring" in path.name
    ]


def test_case_C084_encrypt_a_plain_store(tmp_path: Path) -> None:
    """Refused with the command that helps, then encrypted: found by search, in no byte, schema version kept."""
    fill(tmp_path, None)
    before, schema = said(tmp_path, None), versions(tmp_path, None)
    assert len(readable(tmp_path)) == 4
    with pytest.raises(errors.StoreNotEncrypted) as caught:
        Memory.open(settings=settings(tmp_path))
    assert caught.value.hint == "memory-sqlite key encrypt"
    report = rekeying.encrypt(settings(tmp_path))
    assert (report.status, report.source, report.resumed) == ("done", None, False)
    assert [agent.was for agent in report.agents] == [None, None]
    assert all(agent.rows and agent.index for agent in report.agents)
    assert readable(tmp_path) == []
    assert kinds(tmp_path) == {"encrypted"}
    assert strangers(tmp_path) == []
    assert said(tmp_path, "KEY") == before
    assert versions(tmp_path, "KEY") == schema
    with Memory.open(settings=settings(tmp_path)) as memory:
        again = memory.remember(session="s", run_id="r1", messages=[{"role": "user", "content": "again"}])
        assert again.status == "duplicate"
        memory.index(full=True)
    assert said(tmp_path, "KEY") == before
    assert rekeying.encrypt(settings(tmp_path)).status == "nothing"


@pytest.mark.parametrize("cipher", ["aegis", "sqlcipher"])
def test_there_and_back_again(tmp_path: Path, cipher: str) -> None:
    """Encrypt, rotate, rotate to the other cipher, decrypt: the same answers after each, the same rows at the end."""
    fill(tmp_path, None)
    before = said(tmp_path, None)
    with Memory.open(settings=settings(tmp_path, None)) as memory:
        assert memory._opened is not None
        digests = reencryption.digests(memory._opened.store.connection)
    chosen = settings(tmp_path, encryption_cipher=cipher)
    first = rekeying.encrypt(chosen)
    assert first.cipher == cipher
    second = rekeying.rotate(chosen)
    assert (second.source, second.cipher) == (first.target, cipher)
    assert second.target != first.target
    assert said(tmp_path, "KEY") == before
    other = "sqlcipher" if cipher == "aegis" else "aegis"
    third = rekeying.rotate(chosen, cipher=other)  # type: ignore[arg-type]
    assert third.cipher == other
    assert said(tmp_path, "KEY") == before
    assert readable(tmp_path) == []
    ring = keyring_file.load(tmp_path)
    assert ring is not None
    assert [one.id for one in ring.keys] == [third.target]
    last = rekeying.decrypt(chosen)
    assert (last.status, last.target) == ("done", None)
    assert not (tmp_path / "keyring.json").exists()
    assert kinds(tmp_path) == {"plain"}
    assert said(tmp_path, None) == before
    with Memory.open(settings=settings(tmp_path, None)) as memory:
        assert memory._opened is not None
        after = reencryption.digests(memory._opened.store.connection)
    changed = {name for name in digests if digests[name] != after.get(name)}
    assert changed <= {"generations", "sqlite_sequence"}
    assert strangers(tmp_path) == []
    assert rekeying.decrypt(chosen).status == "nothing"


def test_files_of_sqlcipher_are_those_of_sqlcipher_4(tmp_path: Path) -> None:
    """A page as SQLCipher 4 documents it: AES-256-CBC, HMAC-SHA512 over page, IV and number, under a raw key."""
    import hashlib
    import hmac as hmacs

    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    fill(tmp_path, None)
    rekeying.encrypt(settings(tmp_path, encryption_cipher="sqlcipher"))
    directory = agent_directory(tmp_path, "main")
    unlocked = unlocking.look(tmp_path, directory, Secret("env", "KEY")).unlocked
    assert unlocked is not None
    assert unlocked.ring.current is not None
    raw = unlocked.file_key(unlocked.ring.current, directory.name).raw
    page = (directory / "memory.sqlite").read_bytes()[:4096]
    salt, body, iv, tag = page[:16], page[16:4016], page[4016:4032], page[4032:4096]
    mac_key = hashlib.pbkdf2_hmac("sha512", raw, bytes(byte ^ 0x3A for byte in salt), 2, 32)
    assert hmacs.digest(mac_key, body + iv + (1).to_bytes(4, "little"), "sha512") == tag
    decryptor = Cipher(algorithms.AES(raw), modes.CBC(iv)).decryptor()
    clear = decryptor.update(body) + decryptor.finalize()
    assert clear[:8] == b"\x10\x00\x02\x02\x50\x40\x20\x20"


def test_dry_run_says_what_the_run_does(tmp_path: Path) -> None:
    """The same agents, keys and sizes; and nothing is changed by saying so."""
    fill(tmp_path, None)
    before = {path: path.read_bytes() for path in (tmp_path / "session.key",)}
    planned = rekeying.encrypt(settings(tmp_path), dry_run=True)
    assert (planned.status, planned.target, planned.user_key) == ("planned", "new", "new")
    assert not (tmp_path / "keyring.json").exists()
    done = rekeying.encrypt(settings(tmp_path))
    same = [(agent.directory, agent.was, agent.bytes) for agent in planned.agents]
    assert same == [(agent.directory, agent.was, agent.bytes) for agent in done.agents]
    assert planned.free_needed == done.free_needed
    keyring = (tmp_path / "keyring.json").read_bytes()
    for action in (rekeying.rotate, rekeying.decrypt):
        planned = action(settings(tmp_path), dry_run=True)
        assert (planned.status, len(planned.agents)) == ("planned", 2)
        assert planned.source == done.target
        assert (planned.target, planned.user_key) in (("new", done.user_key), (None, None))
        assert (tmp_path / "keyring.json").read_bytes() == keyring
    assert {path: path.read_bytes() for path in before} == before


def test_change_passphrase_touches_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new key opens, the old one does not; a short one only where it is meant; the bytes of stores stay."""
    monkeypatch.setenv("SHORT", "correct horse")
    monkeypatch.setattr("memory_sqlite.limits.SCRYPT_CHOSEN", (2**14, 8, 1))
    fill(tmp_path, "KEY")
    before = said(tmp_path, "KEY")
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.sqlite")}
    assert rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"), dry_run=True).status == "planned"
    assert said(tmp_path, "KEY") == before
    report = rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"))
    assert report.source == report.target
    with pytest.raises(errors.EncryptionKeyWrong):
        Memory.open(settings=settings(tmp_path))
    assert said(tmp_path, "OTHER") == before
    with pytest.raises(errors.InvalidConfiguration, match="at least 32 bytes"):
        rekeying.change_passphrase(settings(tmp_path, "OTHER"), Secret("env", "SHORT"))
    rekeying.change_passphrase(settings(tmp_path, "OTHER"), Secret("env", "SHORT", passphrase=True))
    ring = keyring_file.load(tmp_path)
    assert ring is not None
    assert (ring.kdf.name, ring.kdf.n) == ("scrypt", 2**14)
    with pytest.raises(errors.InvalidConfiguration):
        settings(tmp_path, "SHORT")
    with Memory.open(settings=settings(tmp_path, "SHORT", encryption_passphrase=True), read_only=True) as memory:
        assert memory.search(MARKER).hits
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.sqlite")} == stamps
    with pytest.raises(errors.EncryptionKeyWrong):
        rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"))


def test_case_C086_a_process_that_has_it_open(tmp_path: Path) -> None:
    """While somebody has it open every change is refused and changes nothing; afterwards it goes."""
    fill(tmp_path, "KEY")
    with Memory.open(settings=settings(tmp_path)) as memory:
        for action in (rekeying.rotate, rekeying.decrypt, rekeying.encrypt):
            with pytest.raises(errors.DirectoryInUse):
                action(settings(tmp_path))
        with pytest.raises(errors.DirectoryInUse):
            rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"))
        memory.remember(session="s", messages=[{"role": "user", "content": "still here"}])
        assert memory.search("still here").hits
    rekeying.rotate(settings(tmp_path))
    with Memory.open(settings=settings(tmp_path)) as memory:
        assert memory.search("still here").hits


def test_case_C086_who_opened_it_before_without_a_lock_writes_nothing_under_the_old_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a lock could not keep the change away, a reader that is opened anew says ``KeyChanged``."""
    fill(tmp_path, "KEY")
    memory = Memory.open(settings=settings(tmp_path), read_only=True)
    assert memory._opened is not None
    store = memory._opened.store
    assert store.hold is not None
    store.hold.close()
    store.connection.close()
    store.readers.close()
    rekeying.rotate(settings(tmp_path))
    with pytest.raises(errors.KeyChanged), store.readers.borrow():
        pass
    memory.close()


def test_old_file_holds_nothing_for_who_opened_it_by_name_before(tmp_path: Path) -> None:
    """A descriptor of the old file reads zeros: neither text nor a database to write into."""
    fill(tmp_path, None)
    path = agent_directory(tmp_path, "main") / "memory.sqlite"
    with path.open("rb") as old:
        rekeying.encrypt(settings(tmp_path))
        content = old.read()
    assert content
    assert not content.strip(b"\0")


def test_hard_linked_copy_of_a_file_is_left_alone(tmp_path: Path) -> None:
    """A backup by hard links has the same bytes under another name: overwriting them would destroy it."""
    fill(tmp_path / "data", None)
    path = agent_directory(tmp_path / "data", "main") / "memory.sqlite"
    (tmp_path / "copy.sqlite").hardlink_to(path)
    rekeying.encrypt(settings(tmp_path / "data"))
    assert headers.kind(tmp_path / "copy.sqlite") == "plain"
    assert readable(tmp_path) == ["copy.sqlite"]


@pytest.mark.parametrize("action", ["encrypt", "decrypt", "rotate"])
def test_index_that_cannot_be_read_holds_nothing_up(tmp_path: Path, action: str) -> None:
    """It is derived: said, left out, and built anew by the next open."""
    variable = None if action == "encrypt" else "KEY"
    fill(tmp_path, variable)
    before = said(tmp_path, variable)
    (index,) = agent_directory(tmp_path, "main").glob("index-*.sqlite")
    size = index.stat().st_size
    with index.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\x07" * 8192)
    report = getattr(rekeying, action)(settings(tmp_path))
    dropped = {agent.directory[:4]: agent.index_dropped for agent in report.agents}
    assert dropped["main"]
    assert not dropped["beta"]
    after = None if action == "decrypt" else "KEY"
    with Memory.open(settings=settings(tmp_path, after)) as memory:
        assert memory.search(MARKER).hits
    assert {agent: len(hits) for agent, hits in said(tmp_path, after).items()} == {
        agent: len(hits) for agent, hits in before.items()
    }


def test_damaged_store_stops_everything_before_it_begins(tmp_path: Path) -> None:
    """One store that no key reads: nothing is changed, not of the others either."""
    fill(tmp_path, "KEY")
    path = agent_directory(tmp_path, "main") / "memory.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    keyring = (tmp_path / "keyring.json").read_bytes()
    for action in (rekeying.rotate, rekeying.decrypt):
        with pytest.raises(errors.StoreDamaged):
            action(settings(tmp_path))
    assert (tmp_path / "keyring.json").read_bytes() == keyring
    path.write_bytes(whole)
    assert said(tmp_path, "KEY")


def test_copy_that_differs_is_never_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row lost on the way is noticed by the digest of its table."""
    fill(tmp_path, None)
    before = said(tmp_path, None)
    real = reencryption.copy

    def lossy(source: apsw.Connection, target: Path, key: Any, *rest: Any) -> None:
        real(source, target, key, *rest)
        if "memory.sqlite" in target.name:
            connection = connections.open_copied(target, key)
            connection.execute("UPDATE messages SET text = text || ' ' WHERE rowid = 2")
            connection.close()

    monkeypatch.setattr(reencryption, "copy", lossy)
    with pytest.raises(errors.StoreDamaged, match="not equal"):
        rekeying.encrypt(settings(tmp_path))
    monkeypatch.undo()
    monkeypatch.setenv("KEY", KEY)
    assert strangers(tmp_path) == []
    assert said(tmp_path, "KEY") == before  # the change is under way: whichever key a store has, it opens


@pytest.mark.parametrize(
    ("action", "ending"),
    [("encrypt", "encrypt"), ("encrypt", "decrypt"), ("decrypt", "decrypt"), ("decrypt", "encrypt"),
     ("rotate", "rotate"), ("rotate", "decrypt")],
)  # fmt: skip
def test_change_that_was_interrupted_is_gone_on_with_or_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, ending: str
) -> None:
    """After the first of two agents: both open, search, remember; then the same command, or the opposite one, ends."""
    fill(tmp_path, None if action == "encrypt" else "KEY")
    interrupted(tmp_path, action, monkeypatch)
    assert rekeying.status(settings(tmp_path)).state == "changing"
    with pytest.raises(errors.EncryptionKeyRequired):
        Memory.open(settings=settings(tmp_path, None))
    everybody = (*AGENTS, "new")
    for agent in everybody:
        with Memory.open(settings=settings(tmp_path, "KEY", agent)) as memory:
            assert agent == "new" or memory.search(MARKER).hits
            memory.remember(session="t", messages=[{"role": "user", "content": "said in between"}])
    report = getattr(rekeying, ending)(settings(tmp_path))
    assert report.resumed is (ending == action)
    assert report.source != report.target
    before = {("rotate", "decrypt"): 0, ("encrypt", "decrypt"): 1, ("decrypt", "encrypt"): 1}
    assert report.done_before == before.get((action, ending), 2)
    assert len(report.agents) == 3 - report.done_before
    assert kinds(tmp_path) == ({"plain"} if ending == "decrypt" else {"encrypted"})
    assert (tmp_path / "keyring.json").exists() is (ending != "decrypt")
    assert ending == "decrypt" or readable(tmp_path) == []
    assert strangers(tmp_path) == []
    for agent in everybody:
        with Memory.open(settings=settings(tmp_path, None if ending == "decrypt" else "KEY", agent)) as memory:
            assert memory.search("said in between").hits
            assert agent == "new" or memory.search(MARKER).hits


def interrupted(data: Path, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = agent_files.change, []

    def once(*arguments: Any) -> Any:
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(agent_files, "change", once)
        with pytest.raises(KeyboardInterrupt):
            getattr(rekeying, action)(settings(data))


def test_leftover_index_in_clear_is_no_secret_kept(tmp_path: Path) -> None:
    """A generation in clear that lies in an encrypted directory is refused, and ``encrypt`` takes it away."""
    fill(tmp_path / "clear", None)
    fill(tmp_path / "data", "KEY")
    shutil.copy(
        agent_directory(tmp_path / "clear", "main") / "index-000001.sqlite",
        agent_directory(tmp_path / "data", "main") / "index-000077.sqlite",
    )
    with pytest.raises(errors.EncryptionMixed):
        Memory.open(settings=settings(tmp_path / "data"))
    assert rekeying.status(settings(tmp_path / "data")).state == "mixed"
    rekeying.encrypt(settings(tmp_path / "data"))
    assert readable(tmp_path / "data") == []
    assert said(tmp_path / "data", "KEY")


def test_mixed_directory_becomes_one_of_its_kinds(tmp_path: Path) -> None:
    """A plain store of another agent, put there by hand with the same session.key."""
    fill(tmp_path, None)
    gamma = tmp_path / "gamma"
    shutil.copytree(agent_directory(tmp_path, "beta"), gamma)
    rekeying.encrypt(settings(tmp_path))
    shutil.rmtree(agent_directory(tmp_path, "beta"))
    shutil.move(gamma, agent_directory(tmp_path, "beta"))
    assert rekeying.status(settings(tmp_path)).problem == "encryption_mixed"
    report = rekeying.encrypt(settings(tmp_path))
    assert (len(report.agents), report.done_before) == (1, 1)
    assert readable(tmp_path) == []
    assert said(tmp_path, "KEY")


@pytest.mark.parametrize("action", ["encrypt", "decrypt", "rotate"])
def test_keys_of_a_directory_with_another_session_key_stay(tmp_path: Path, action: str) -> None:
    """The keyring names its session.key: where that is another one, nothing is changed."""
    fill(tmp_path, "KEY")
    (tmp_path / "session.key").write_bytes(bytes(range(32)))
    before = (tmp_path / "keyring.json").read_bytes()
    with pytest.raises(errors.KeyringDamaged, match="another data directory"):
        getattr(rekeying, action)(settings(tmp_path))
    assert (tmp_path / "keyring.json").read_bytes() == before


def test_rotation_has_nothing_in_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in clear from before the encryption, put back in the middle: neither read nor written, before and while
    a rotation is under way; ``encrypt`` makes one of its kind of it."""
    fill(tmp_path, None)
    beta, old = agent_directory(tmp_path, "beta"), tmp_path / "old"
    shutil.copytree(beta, old)
    rekeying.encrypt(settings(tmp_path))
    interrupted(tmp_path, "rotate", monkeypatch)
    main = said(tmp_path, "KEY")["main"]
    shutil.rmtree(agent_directory(tmp_path, "main"))
    shutil.copytree(beta, tmp_path / "encrypted")
    shutil.rmtree(beta)
    shutil.copytree(old, beta)
    with pytest.raises(errors.EncryptionMixed):
        Memory.open(settings=settings(tmp_path, agent="beta"))
    with pytest.raises(errors.EncryptionMixed, match="nothing was changed"):
        rekeying.rotate(settings(tmp_path))
    assert main and kinds(tmp_path) == {"plain"}
    report = rekeying.encrypt(settings(tmp_path))
    assert (report.status, len(report.agents)) == ("done", 1)
    assert kinds(tmp_path) == {"encrypted"} and rekeying.status(settings(tmp_path)).state == "encrypted"
    with Memory.open(settings=settings(tmp_path, agent="beta")) as memory:
        assert memory.search(MARKER).hits


def test_forgetting_takes_what_a_killed_change_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the store beside it holds what is forgotten, under a key that is there."""
    fill(tmp_path, "KEY")
    path = agent_directory(tmp_path, "main") / "memory.sqlite"
    copied = reencryption.beside(path)
    shutil.copy(path, copied)
    with Memory.open(settings=settings(tmp_path)) as memory:
        assert memory.forget(sessions=["s"]).status == "forgotten"
        assert not copied.exists()


@pytest.mark.parametrize("cipher", ["aegis", "sqlcipher"])
def test_forgetting_is_proven_with_either_cipher(tmp_path: Path, cipher: str) -> None:
    """The searching process opens the files as everybody does."""
    with Memory.open(settings=settings(tmp_path, encryption_cipher=cipher)) as memory:
        for session in ("s", "t"):
            text = f"{MARKER} was said in {session}"
            memory.remember(session=session, messages=[{"role": "user", "content": text}])
        report = memory.forget(sessions=["s"])
    assert (report.status, report.verified, report.reasons) == ("forgotten", True, ())


def test_what_cannot_be_changed_is_refused(tmp_path: Path) -> None:
    """No directory, no key, nothing encrypted, a wrong key; the directory stays what it was."""
    with pytest.raises(errors.UnknownAgent):
        rekeying.encrypt(settings(tmp_path / "absent"))
    fill(tmp_path, None)
    with pytest.raises(errors.InvalidConfiguration, match="no key"):
        rekeying.encrypt(settings(tmp_path, None))
    with pytest.raises(errors.StoreNotEncrypted):
        rekeying.rotate(settings(tmp_path))
    with pytest.raises(errors.StoreNotEncrypted):
        rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"))
    with pytest.raises(errors.InvalidArgument, match="cipher"):
        rekeying.rotate(settings(tmp_path), cipher="aes256cbc")  # type: ignore[arg-type]
    rekeying.encrypt(settings(tmp_path))
    for action in (rekeying.rotate, rekeying.decrypt, rekeying.encrypt):
        with pytest.raises(errors.EncryptionKeyWrong):
            action(settings(tmp_path, "OTHER"))
    (tmp_path / "keyring.json").unlink()
    for action in (rekeying.rotate, rekeying.decrypt, rekeying.encrypt):
        with pytest.raises(errors.KeyringMissing):
            action(settings(tmp_path))
    assert rekeying.status(settings(tmp_path)).state == "lost"


def test_full_disk_is_told_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the largest agent must fit."""
    fill(tmp_path, None)
    monkeypatch.setattr("memory_sqlite.rekeying.run._ROOM", 2**62)
    with pytest.raises(errors.DiskFull, match="nothing was changed"):
        rekeying.encrypt(settings(tmp_path))
    assert not (tmp_path / "keyring.json").exists()


def test_vectors_come_along(tmp_path: Path) -> None:
    """What may have cost money is not dropped: the rows of ``vectors`` are the same under the new key."""
    fill(tmp_path, "KEY")
    directory = agent_directory(tmp_path, "main")

    def index() -> apsw.Connection:
        found = unlocking.look(tmp_path, directory, Secret("env", "KEY")).unlocked
        assert found is not None
        assert found.ring.current is not None
        (path,) = unlocking.generation_files(directory)
        return connections.open_index(path, found.file_key(found.ring.current, directory.name))

    connection = index()
    connection.execute("INSERT INTO vector_spaces VALUES (1, '{}', 2, '1', 'complete', 'paid')")
    connection.execute(
        "INSERT INTO vectors (space_id, chunk_id, input_hash, vector)"
        " SELECT 1, id, zeroblob(16), zeroblob(8) FROM chunks"
    )
    before = reencryption.digests(connection)
    assert before["vectors"][0] >= 3
    connection.close()
    report = rekeying.rotate(settings(tmp_path))
    assert all(agent.index_dropped is None for agent in report.agents)
    connection = index()
    assert reencryption.digests(connection) == before
    connection.close()


def test_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on read-only media: every change is refused before it begins, also as a dry run; reading goes on."""
    fill(tmp_path, "KEY")
    keyring = (tmp_path / "keyring.json").read_bytes()
    monkeypatch.setattr("memory_sqlite.rekeying.run.os.access", lambda path, mode: False)
    for action in (rekeying.encrypt, rekeying.rotate, rekeying.decrypt):
        with pytest.raises(errors.StoreReadOnly):
            action(settings(tmp_path))
    with pytest.raises(errors.StoreReadOnly):
        rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"))
    assert (tmp_path / "keyring.json").read_bytes() == keyring
    monkeypatch.undo()
    monkeypatch.setenv("KEY", KEY)
    assert said(tmp_path, "KEY")
    assert rekeying.status(settings(tmp_path)).state == "encrypted"


def test_status_of_every_state(tmp_path: Path) -> None:
    """Named without a key too, and never an exception."""
    assert rekeying.status(settings(tmp_path / "absent")).state == "empty"
    fill(tmp_path, None)
    plain = rekeying.status(settings(tmp_path, None))
    assert (plain.state, plain.opens, plain.problem, plain.key_id) == ("plain", None, None, None)
    assert rekeying.status(settings(tmp_path)).problem == "store_not_encrypted"
    report = rekeying.encrypt(settings(tmp_path))
    right, wrong, none = (rekeying.status(settings(tmp_path, name)) for name in ("KEY", "OTHER", None))
    assert {one.state for one in (right, wrong, none)} == {"encrypted"}
    assert {one.key_id for one in (right, wrong, none)} == {report.target}
    assert [one.opens for one in (right, wrong, none)] == [True, False, None]
    assert [one.problem for one in (right, wrong, none)] == [None, "encryption_key_wrong", "encryption_key_required"]
    assert {file.state for file in right.files} == {"encrypted"}
    (tmp_path / "keyring.json").write_bytes(b"{")
    assert rekeying.status(settings(tmp_path)).problem == "keyring_damaged"


def test_report_says_which_key_a_backup_needs(tmp_path: Path) -> None:
    """Of the user's keys and of the data keys; one that is none is said to be none."""
    data, places = tmp_path / "data", [tmp_path / name for name in ("clear", "first", "second", "nothing")]

    def backed_up(variable: str | None, place: Path) -> None:
        with Memory.open(settings=settings(data, variable)) as memory:
            memory.backup(place)

    fill(data, None)
    backed_up(None, places[0])
    first = rekeying.encrypt(settings(data))
    backed_up("KEY", places[1])
    second = rekeying.rotate(settings(data), backup_paths=places)
    clear, old, absent = (second.backups[number] for number in (0, 1, 2))
    assert (clear.needs, clear.old) == ("no key: it is in clear", False)
    assert first.target is not None and first.target in old.needs and "the data key before" in old.needs
    assert (absent.old, "cannot be said" in absent.needs) == (True, True)
    backed_up("KEY", places[2])
    assert [one.old for one in rekeying.status(settings(data), backup_paths=places[:3]).backups] == [False] * 3
    third = rekeying.change_passphrase(settings(data), Secret("env", "OTHER"), backup_paths=places[:3])
    assert [one.old for one in third.backups] == [False, True, True]
    assert second.user_key is not None and second.user_key in third.backups[2].needs
    assert [one.old for one in rekeying.status(settings(data, "OTHER"), backup_paths=places[:3]).backups] == [
        False,
        True,
        True,
    ]


def test_nothing_is_left_in_a_log_of_its_own(tmp_path: Path) -> None:
    """What a crash left in the WAL is in the file that is copied, and what was changed in a copy is in its one file;
    where that cannot be, the copy is not used."""
    fill(tmp_path / "data", None)
    store = agent_directory(tmp_path / "data", "main") / "memory.sqlite"
    writer = connections.open_store(store)
    writer.execute("UPDATE messages SET text = 'in the log'").fetchall()
    crashed = tmp_path / "memory.sqlite"
    for end in ("", "-wal"):
        shutil.copy(f"{store}{end}", f"{crashed}{end}")
    writer.close()
    with reencryption.alone(crashed, None) as connection:
        assert (tmp_path / "memory.sqlite-wal").stat().st_size == 0
        assert connection.execute("SELECT DISTINCT text FROM messages").get == "in the log"
        with pytest.raises(errors.StoreBusy):
            connections.open_alone(crashed)
    with reencryption.copied(crashed, None) as connection:
        connection.execute("DELETE FROM messages").fetchall()
    assert [path.name for path in tmp_path.glob("memory.sqlite*")] == ["memory.sqlite"]
    reader = connections.open_store_reader(crashed)
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT count(*) FROM messages").fetchall()
    with (
        pytest.raises(errors.StoreBusy, match="log"),
        reencryption.copied(crashed, None) as connection,
    ):
        connection.set_busy_timeout(0)
        connection.execute("DELETE FROM sessions").fetchall()
    reader.close()


def test_key_is_in_no_error_of_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite names the address that it could not open, and the key is in it: of its words nothing is passed on."""
    fill(tmp_path, None)
    key = FileKey("aegis", b"\xab" * 32, "id")
    monkeypatch.setattr(reencryption, "_make", lambda path: None)
    with reencryption.alone(agent_directory(tmp_path, "main") / "memory.sqlite", None) as source:
        with pytest.raises(apsw.Error) as raw:
            source.execute("VACUUM INTO ?", (reencryption._address(tmp_path / "no" / "where", key),)).fetchall()
        assert "abab" in str(raw.value)
        with pytest.raises(errors.MemorySqliteError) as caught:
            reencryption.copy(source, tmp_path / "no" / "where", key)
    assert "abab" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize("action", ["rotate", "change_passphrase"])
def test_keyrings_that_a_killed_process_left_half_placed_go(tmp_path: Path, action: str) -> None:
    """Each holds the data key under a key that its user never came to use; a dry run leaves them."""
    fill(tmp_path, "KEY")
    left = tmp_path / ".keyring.json.4711.abcdef"
    left.write_bytes((tmp_path / "keyring.json").read_bytes())

    def change(*, dry_run: bool) -> None:
        if action == "rotate":
            rekeying.rotate(settings(tmp_path), dry_run=dry_run)
        else:
            rekeying.change_passphrase(settings(tmp_path), Secret("env", "OTHER"), dry_run=dry_run)

    change(dry_run=True)
    assert left.exists()
    change(dry_run=False)
    assert not left.exists()
