"""``keyring.json``: the wrapped data keys of a data directory. Its format is in docs/file-format.md.

A value: read, checked, opened with the user's key, written anew. A change that is under way (encrypting, decrypting,
rotating) is part of it, so that a process that is killed leaves a directory that opens. Not here: which key an
agent's files have now (``storage.unlocking``), changing them (``rekeying``).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn, cast

from memory_sqlite import errors
from memory_sqlite.crypto import derivation
from memory_sqlite.crypto.derivation import Derived, Kdf
from memory_sqlite.crypto.file_key import CIPHERS, Cipher, FileKey
from memory_sqlite.values import dataclass

FORMAT: Final = "memory-sqlite keyring"
VERSION: Final = 1
_NONCE_BYTES: Final = 12
_WRAPPED_BYTES: Final = 32 + 16
"""The data key and the tag of AES-256-GCM."""
_KEYS_MAX: Final = 16
_ID_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """One data key as it lies on disk. ``id`` and ``cipher`` are bound to it."""

    id: str
    cipher: Cipher
    nonce: bytes
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is under way, from one key's id to another's; ``None`` stands for files in clear."""

    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class Keyring:
    """What the file says. ``current`` is the key of new files, ``None`` while a directory in clear is being encrypted.

    ``user_key`` names the user's key that it is wrapped under: another one after ``change-passphrase``.
    """

    session_key: str
    kdf: Kdf
    user_key: str
    verifier: bytes
    keys: tuple[WrappedKey, ...]
    current: str | None
    change: Change | None = None
    seal: str = ""

    def key(self, key_id: str) -> WrappedKey:
        """The key of that id, which is there."""
        return next(one for one in self.keys if one.id == key_id)


class Unlocked:
    """A keyring with its data keys in clear, in memory."""

    def __init__(self, ring: Keyring, derived: Derived, data_keys: Mapping[str, bytes]) -> None:
        self.ring: Final = ring
        self._derived = derived
        self._data_keys = dict(data_keys)

    def __repr__(self) -> str:
        return f"Unlocked({self.ring.current!r})"

    def file_key(self, key_id: str, directory_name: str) -> FileKey:
        """The key of one agent's files."""
        raw = derivation.file_key(self._data_keys[key_id], directory_name)
        return FileKey(self.ring.key(key_id).cipher, raw, key_id)

    def changed(self, current: str | None, change: Change | None, *, keep: tuple[str, ...] | None = None) -> Unlocked:
        """The same keys, or only those to keep, in another state."""
        keys = tuple(one for one in self.ring.keys if keep is None or one.id in keep)
        ring = _sealed(replace(self.ring, keys=keys, current=current, change=change), self._derived)
        return Unlocked(ring, self._derived, {one.id: self._data_keys[one.id] for one in keys})

    def with_new_key(self, cipher: Cipher, random: Callable[[int], bytes]) -> tuple[Unlocked, str]:
        """One random data key more, and its id."""
        data_key, key_id = random(32), random(_ID_DIGITS // 2).hex()
        wrapped = _wrap(self.ring, self._derived, key_id, cipher, data_key, random)
        ring = _sealed(replace(self.ring, keys=(*self.ring.keys, wrapped)), self._derived)
        return Unlocked(ring, self._derived, {**self._data_keys, key_id: data_key}), key_id

    def rewrapped(self, key: bytes, *, passphrase: bool, random: Callable[[int], bytes]) -> Unlocked:
        """The same data keys under another key of the user."""
        ring, derived = _empty(self.ring.session_key, key, passphrase, random)
        keys = tuple(
            _wrap(ring, derived, one.id, one.cipher, self._data_keys[one.id], random) for one in self.ring.keys
        )
        ring = replace(ring, keys=keys, current=self.ring.current, change=self.ring.change)
        return Unlocked(_sealed(ring, derived), derived, self._data_keys)


def create(session_key: str, key: bytes, *, passphrase: bool, random: Callable[[int], bytes]) -> Unlocked:
    """A keyring without a data key, for the directory whose session key has that fingerprint."""
    ring, derived = _empty(session_key, key, passphrase, random)
    return Unlocked(_sealed(ring, derived), derived, {})


def _empty(session_key: str, key: bytes, passphrase: bool, random: Callable[[int], bytes]) -> tuple[Keyring, Derived]:
    kdf = derivation.choose(passphrase, random(derivation.SALT_BYTES))
    derived = derivation.derive(kdf, key)
    return Keyring(session_key, kdf, random(_ID_DIGITS // 2).hex(), derived.verifier, (), None), derived


def unlock(ring: Keyring, key: bytes) -> Unlocked:
    """The data keys, with the user's key. Raises ``EncryptionKeyWrong``, and ``KeyringDamaged`` for a file that was
    altered by somebody who knew how to."""
    derived = derivation.derive(ring.kdf, key)
    if not hmac.compare_digest(derived.verifier, ring.verifier):
        raise errors.EncryptionKeyWrong(
            "encryption key validation failed: the configured key does not open this data directory"
        )
    if not hmac.compare_digest(_seal_of(ring, derived).encode(), ring.seal.encode()):
        _altered()
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher, found = AESGCM(derived.wrapping), {}
    try:
        for one in ring.keys:
            found[one.id] = cipher.decrypt(one.nonce, one.wrapped, _bound(ring, one.id, one.cipher))
    except InvalidTag:
        _altered()
    return Unlocked(ring, derived, found)


def _altered() -> NoReturn:
    raise errors.KeyringDamaged("keyring.json was altered: what it says does not belong to the keys in it")


def _wrap(
    ring: Keyring, derived: Derived, key_id: str, cipher: Cipher, data_key: bytes, random: Callable[[int], bytes]
) -> WrappedKey:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = random(_NONCE_BYTES)
    wrapped = AESGCM(derived.wrapping).encrypt(nonce, data_key, _bound(ring, key_id, cipher))
    return WrappedKey(key_id, cipher, nonce, wrapped)


def _bound(ring: Keyring, key_id: str, cipher: Cipher) -> bytes:
    """The associated data of one wrapped key: it opens in its own keyring and as what it is, and nowhere else."""
    return _canonical(
        {
            "version": VERSION,
            "kdf": _kdf_json(ring.kdf),
            "session_key": ring.session_key,
            "id": key_id,
            "cipher": cipher,
        }
    )


def _sealed(ring: Keyring, derived: Derived) -> Keyring:
    return replace(ring, seal=_seal_of(ring, derived))


def _seal_of(ring: Keyring, derived: Derived) -> str:
    body = _body(ring)
    del body["seal"]
    return hmac.digest(derived.sealing, _canonical(body), "sha256").hex()


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")


def _kdf_json(kdf: Kdf) -> dict[str, Any]:
    cost = {"n": kdf.n, "r": kdf.r, "p": kdf.p} if kdf.name == "scrypt" else {}
    return {"name": kdf.name, "salt": kdf.salt.hex(), **cost}


def _body(ring: Keyring) -> dict[str, Any]:
    change = None if ring.change is None else {"from": ring.change.source, "to": ring.change.target}
    return {
        "format": FORMAT,
        "version": VERSION,
        "session_key": ring.session_key,
        "kdf": _kdf_json(ring.kdf),
        "user_key": ring.user_key,
        "verifier": ring.verifier.hex(),
        "keys": [
            {"id": one.id, "cipher": one.cipher, "nonce": one.nonce.hex(), "wrapped": one.wrapped.hex()}
            for one in ring.keys
        ],
        "current": ring.current,
        "change": change,
        "seal": ring.seal,
    }


def encode(ring: Keyring) -> bytes:
    """The bytes of the file."""
    body = _body(ring)
    digest = hashlib.sha256(_canonical(body)).hexdigest()
    return json.dumps({**body, "digest": digest}, ensure_ascii=True, indent=1).encode("ascii") + b"\n"


def decode(data: bytes) -> Keyring:
    """The keyring of these bytes, checked in itself. Raises ``KeyringDamaged``; no key is needed for that."""
    try:
        found = json.loads(data)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise errors.KeyringDamaged("keyring.json is not a keyring of memory-sqlite")
        if found.get("version") != VERSION:
            raise errors.KeyringDamaged(
                f"keyring.json is of another version of its format; this one knows version {VERSION}",
                hint="Upgrade memory-sqlite.",
            )
        digest = found.pop("digest")
        ring = _read(found)
        # what was read is written again and compared: so nothing is in the file that the digest does not speak of
        sound = digest == hashlib.sha256(_canonical(_body(ring))).hexdigest() and _canonical(found) == _canonical(
            _body(ring)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise errors.KeyringDamaged("keyring.json is cut off or damaged") from None
    if not sound or not _is_whole(ring):
        raise errors.KeyringDamaged("keyring.json is damaged: its digest is another")
    return ring


def _read(found: Mapping[str, Any]) -> Keyring:
    kdf, change = found["kdf"], found["change"]
    keys = tuple(
        WrappedKey(
            str(one["id"]), cast(Cipher, one["cipher"]), bytes.fromhex(one["nonce"]), bytes.fromhex(one["wrapped"])
        )
        for one in found["keys"]
    )
    return Keyring(
        str(found["session_key"]),
        Kdf(str(kdf["name"]), bytes.fromhex(kdf["salt"]), *(int(kdf.get(name, 0)) for name in "nrp")),
        str(found["user_key"]),
        bytes.fromhex(found["verifier"]),
        keys,
        found["current"],
        None if change is None else Change(change["from"], change["to"]),
        str(found["seal"]),
    )


def _is_whole(ring: Keyring) -> bool:
    ids = [one.id for one in ring.keys]
    named = [ring.current] + ([ring.change.source, ring.change.target] if ring.change is not None else [])
    return (
        ring.kdf.is_sound()
        and 1 <= len(ids) == len(set(ids)) <= _KEYS_MAX
        and all(one.cipher in CIPHERS for one in ring.keys)
        and all(len(one.nonce) == _NONCE_BYTES and len(one.wrapped) == _WRAPPED_BYTES for one in ring.keys)
        and all(name is None or name in ids for name in named)
        and (ring.current is not None or ring.change is not None)
    )
