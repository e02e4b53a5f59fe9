"""The keyring as a value: what opens it, what does not, and what is bound to what."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.crypto import derivation, keyring
from memory_sqlite.crypto.derivation import Kdf
from memory_sqlite.crypto.keyring import Change, Unlocked
from memory_sqlite.storage import session_key

KEY, OTHER = b"a key of thirty-two bytes or more", b"another key of thirty-two bytes!!"
SESSION = derivation.fingerprint(b"s" * 32)


def made(key: bytes = KEY, *, session: str = SESSION) -> tuple[Unlocked, str]:
    unlocked, key_id = keyring.create(session, key, passphrase=False, random=os.urandom).with_new_key(
        "aegis", os.urandom
    )
    return unlocked.changed(key_id, None), key_id


def redone(body: dict[str, Any]) -> bytes:
    """The file with a digest that fits: what somebody writes who knows the format and not the key."""
    body = {name: value for name, value in body.items() if name != "digest"}
    text = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return json.dumps({**body, "digest": hashlib.sha256(text.encode()).hexdigest()}).encode()


def test_there_and_back() -> None:
    """What was written is what is read, and gives the same keys of files."""
    unlocked, key_id = made()
    again = keyring.unlock(keyring.decode(keyring.encode(unlocked.ring)), KEY)
    assert again.ring == unlocked.ring
    assert again.file_key(key_id, "main-1") == unlocked.file_key(key_id, "main-1")
    assert again.file_key(key_id, "main-1").raw != again.file_key(key_id, "main-2").raw
    assert again.file_key(key_id, "main-1").raw.hex() not in repr([again, again.file_key(key_id, "a"), again.ring])


def test_wrong_key_is_told_from_damage() -> None:
    """Another key is wrong; the right one with altered content is damage."""
    unlocked, _ = made()
    with pytest.raises(errors.EncryptionKeyWrong):
        keyring.unlock(unlocked.ring, OTHER)


@pytest.mark.parametrize(
    "alter",
    [
        lambda body: body["keys"][0].update(cipher="sqlcipher"),
        lambda body: body["keys"][0].update(wrapped="00" * 48),
        lambda body: body.update(change={"from": None, "to": body["current"]}),
        lambda body: body.update(current=None, change={"from": None, "to": None}),
        lambda body: body.update(session_key="0" * 32),
        lambda body: body.update(user_key="0" * 16),
        lambda body: body.update(seal="0" * 64),
        lambda body: body["keys"].append({**body["keys"][0], "id": "0" * 16}),
    ],
)
def test_altered_by_somebody_who_knows_the_format(alter: Any) -> None:
    """The digest can be made anew; seal and associated data cannot."""
    unlocked, _ = made()
    body = json.loads(keyring.encode(unlocked.ring))
    alter(body)
    ring = keyring.decode(redone(body))
    with pytest.raises(errors.KeyringDamaged, match="altered"):
        keyring.unlock(ring, KEY)


def test_wrapped_keys_are_bound_to_their_keyring() -> None:
    """Under the same user's key and salt, with a seal that fits, one opens as what it is and nowhere else."""
    unlocked, _ = made()
    ring, (own,) = unlocked.ring, unlocked.ring.keys
    assert keyring.unlock(keyring._sealed(ring, unlocked._derived), KEY)
    for moved in (
        replace(ring, session_key=derivation.fingerprint(b"t" * 32)),
        replace(ring, keys=(replace(own, cipher="sqlcipher"),)),
        replace(ring, keys=(replace(own, id="0" * 16),), current="0" * 16),
    ):
        with pytest.raises(errors.KeyringDamaged, match="altered"):
            keyring.unlock(keyring._sealed(moved, unlocked._derived), KEY)


@pytest.mark.parametrize(
    "alter",
    [
        lambda body: body.update(version=2),
        lambda body: body.update(format="other"),
        lambda body: body.update(keys=[]),
        lambda body: body.update(keys=body["keys"] * 2),
        lambda body: body.update(current="unknown"),
        lambda body: body.update(current=None),
        lambda body: body.update(more=1),
        lambda body: body["kdf"].update(name="none"),
        lambda body: body["kdf"].update(salt=""),
        lambda body: body["kdf"].update(name="scrypt", n=2**30, r=8, p=1),
        lambda body: body["kdf"].update(name="scrypt", n=2**15 + 1, r=8, p=1),
        lambda body: body["kdf"].update(name="scrypt", n=2**15, r=2**20, p=1),
        lambda body: body["kdf"].update(name="scrypt", n=2**15, r=8, p=2**20),
        lambda body: body["keys"][0].update(cipher="aes256cbc"),
        lambda body: body["keys"][0].update(nonce=""),
        lambda body: body["keys"][0].update(wrapped="zz"),
        lambda body: body.pop("seal"),
        lambda body: body.update(current=True),
        lambda body: body.update(keys=7),
    ],
)
def test_what_no_keyring_says(alter: Any) -> None:
    """Refused before any key is derived: a hostile one must cost neither gigabytes nor hours."""
    body = json.loads(keyring.encode(made()[0].ring))
    alter(body)
    with pytest.raises(errors.KeyringDamaged):
        keyring.decode(redone(body))


def test_changes_and_another_user_key() -> None:
    """A change is written with both keys; the old one is gone afterwards; another user's key opens the same."""
    unlocked, first = made()
    two, second = unlocked.with_new_key("sqlcipher", os.urandom)
    during = two.changed(first, Change(first, second))
    assert {one.id for one in during.ring.keys} == {first, second}
    assert during.file_key(second, "a").cipher == "sqlcipher"
    after = during.changed(second, None, keep=(second,))
    assert [one.id for one in after.ring.keys] == [second]
    again = keyring.unlock(keyring.decode(keyring.encode(after.ring)), KEY)
    moved = again.rewrapped(OTHER, passphrase=False, random=os.urandom)
    assert moved.ring.user_key != again.ring.user_key
    assert keyring.unlock(moved.ring, OTHER).file_key(second, "a") == after.file_key(second, "a")
    with pytest.raises(errors.EncryptionKeyWrong):
        keyring.unlock(moved.ring, KEY)


def test_derivations_are_the_standard_ones() -> None:
    """HKDF as the library computes it; scrypt with its stored cost; the fingerprint is the store's."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    salt = bytes(range(32))
    theirs = HKDF(SHA256(), 80, salt, b"memory-sqlite keyring 1").derive(KEY)
    ours = derivation.derive(Kdf("hkdf-sha256", salt), KEY)
    assert ours.wrapping + ours.sealing + ours.verifier == theirs
    stretched = derivation.derive(Kdf("scrypt", salt, 2**14, 8, 1), b"eight888")
    assert stretched.wrapping + stretched.sealing + stretched.verifier == Scrypt(salt, 80, 2**14, 8, 1).derive(
        b"eight888"
    )
    assert derivation.choose(True, salt).is_sound()
    assert derivation.choose(True, salt).n == 2**17
    assert derivation.fingerprint(b"s" * 32) == session_key.fingerprint(b"s" * 32)
