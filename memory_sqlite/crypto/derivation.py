"""From the user's key to the keys that are used: HKDF-SHA256 (RFC 5869) for keys, scrypt (RFC 7914) for passphrases.

Not here: where the key comes from (``secret``), what is wrapped under the result (``keyring``). No import that takes
time: an encrypted search pays for it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.values import dataclass

_KEYRING_INFO: Final = b"memory-sqlite keyring 1"
_FILE_INFO: Final = b"memory-sqlite file key\0"
SALT_BYTES: Final = 32
VERIFIER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Kdf:
    """How the user's key becomes the wrapping key: ``hkdf-sha256``, or ``scrypt`` with its cost ``n``, ``r``, ``p``."""

    name: str
    salt: bytes
    n: int = 0
    r: int = 0
    p: int = 0

    def is_sound(self) -> bool:
        """Whether it is one that is written here; a hostile file must not make anybody spend gigabytes or hours."""
        if len(self.salt) != SALT_BYTES:
            return False
        if self.name == "hkdf-sha256":
            return (self.n, self.r, self.p) == (0, 0, 0)
        low, high = limits.SCRYPT_COST
        power = self.n > 0 and self.n & (self.n - 1) == 0
        return (
            self.name == "scrypt"
            and power
            and low <= self.n <= high
            and 1 <= self.r <= limits.SCRYPT_BLOCK_MAX
            and 1 <= self.p <= limits.SCRYPT_PARALLEL_MAX
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """``wrapping`` encrypts data keys, ``sealing`` authenticates the keyring, ``verifier`` tells another key."""

    wrapping: bytes
    sealing: bytes
    verifier: bytes

    def __repr__(self) -> str:
        return "Derived()"


def choose(passphrase: bool, salt: bytes) -> Kdf:
    """The derivation of a new keyring: what people can remember is stretched, what is random needs no stretching."""
    if passphrase:
        n, r, p = limits.SCRYPT_CHOSEN
        return Kdf("scrypt", salt, n, r, p)
    return Kdf("hkdf-sha256", salt)


def derive(kdf: Kdf, key: bytes) -> Derived:
    """The three keys of a keyring. Raises ``EncryptionUnavailable`` where there is no memory for scrypt."""
    length = 64 + VERIFIER_BYTES
    if kdf.name == "scrypt":
        room = 128 * kdf.r * (kdf.n + kdf.p + 2)
        try:
            bits = hashlib.scrypt(key, salt=kdf.salt, n=kdf.n, r=kdf.r, p=kdf.p, maxmem=room, dklen=length)
        except (MemoryError, ValueError, AttributeError) as error:
            raise errors.EncryptionUnavailable(
                f"scrypt cannot be computed here ({type(error).__name__})",
                hint=f"It needs {room // limits.MIB} MiB of memory and a Python with OpenSSL.",
            ) from None
    else:
        bits = _hkdf(key, kdf.salt, _KEYRING_INFO, length)
    return Derived(bits[:32], bits[32:64], bits[64:])


def _hkdf(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    secret = hmac.digest(salt, key, "sha256")
    block, result = b"", b""
    for number in range(1, -(-length // 32) + 1):
        block = hmac.digest(secret, block + info + bytes([number]), "sha256")
        result += block
    return result[:length]


def file_key(data_key: bytes, directory_name: str) -> bytes:
    """The key of one agent's files: of another agent's it says nothing."""
    return hmac.digest(data_key, _FILE_INFO + directory_name.encode("utf-8", "surrogatepass"), "sha256")


def fingerprint(session_key: bytes) -> str:
    """What a keyring keeps of ``session.key``; the same as ``storage.session_key.fingerprint`` (tested)."""
    return hashlib.sha256(b"memory-sqlite session key\0" + session_key).hexdigest()[:32]
