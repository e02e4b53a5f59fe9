"""Lines of the layered-memory product as it encrypts them: AES-256-GCM, one envelope a line.

Facts: the key is one SHA-256 of the secret's bytes; a line is ``{"v":1,"iv","tag","data"}``, padded base64 of a fresh
12-byte nonce, the 16-byte tag and the ciphertext; nothing is bound to it as associated data. A new store of ours is
encrypted by pages instead. Not here: whose secret it is (``crypto.secret``), what the lines say.
Called by the reader and the writer of that format.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.sources.jsonl import decode_value

CHECK_VALUE: Final = "openclaw-memory-v1"
"""What ``.encryption-check`` says under ``value``."""
SECRET_MIN_BYTES: Final = 32
"""That product takes no shorter secret."""
CHECK_MAX_BYTES: Final = 4 * limits.KIB
"""``.encryption-check`` is some 150 bytes; a larger one is damaged."""
NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_PARTS: Final = ("iv", "tag", "data")


class CannotOpen(Exception):
    """An envelope that this key does not open, or that is damaged; never leaves ``interop``."""


class LineCipher:
    """One secret of that product, opening and sealing lines."""

    def __init__(self, secret: bytes) -> None:
        """Raises ``InvalidArgument`` for a secret that that product would not take, ``EncryptionUnavailable`` where
        the library ``cryptography`` cannot be loaded."""
        if len(secret) < SECRET_MIN_BYTES:
            raise errors.InvalidArgument(f"the directory's key must contain at least {SECRET_MIN_BYTES} bytes")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise errors.EncryptionUnavailable(
                "the library cryptography cannot be loaded", hint="pip install --force-reinstall cryptography"
            ) from error
        self._cipher = AESGCM(hashlib.sha256(secret).digest())

    def open(self, envelope: Mapping[str, Any]) -> object:
        """The JSON value in an envelope. Raises ``CannotOpen``."""
        try:
            nonce, tag, data = (base64.b64decode(envelope[part], validate=True) for part in _PARTS)
        except (ValueError, binascii.Error):
            raise CannotOpen("its envelope is not base64") from None
        if len(nonce) != NONCE_BYTES or len(tag) != _TAG_BYTES:  # a shorter tag would be easier to forge
            raise CannotOpen("its envelope has a nonce or a tag of another length")
        from cryptography.exceptions import InvalidTag

        try:
            text = self._cipher.decrypt(nonce, data + tag, None)
        except InvalidTag:
            raise CannotOpen("cannot be decrypted: it was altered, or written under another key") from None
        value, problem = decode_value(text)
        if problem is not None:
            raise CannotOpen(problem)
        return value

    def seal(self, text: str, nonce: bytes) -> str:
        """The line for a text, without its end; the nonce must never have been used under this key."""
        data = self._cipher.encrypt(nonce, text.encode("utf-8"), None)
        parts = (nonce, data[:-_TAG_BYTES], data[-_TAG_BYTES:])
        nonce_, body, tag = (base64.b64encode(part).decode("ascii") for part in parts)
        return json.dumps({"v": 1, "iv": nonce_, "tag": tag, "data": body}, separators=(",", ":"))


def is_envelope(value: object) -> bool:
    """Whether a line's JSON value is an encrypted one."""
    if not isinstance(value, dict):
        return False
    version = value.get("v")
    is_one = isinstance(version, int | float) and not isinstance(version, bool) and version == 1
    return is_one and all(isinstance(value.get(part), str) for part in _PARTS)


def check_line(*, encrypted: bool) -> str:
    """The text that ``.encryption-check`` holds, in clear or in its envelope."""
    return json.dumps({"value": CHECK_VALUE, "encrypted": encrypted}, separators=(",", ":"))


def says_check(value: object, *, encrypted: bool) -> bool:
    """Whether a decoded ``.encryption-check`` is what it should be for this kind of directory."""
    return isinstance(value, dict) and value.get("value") == CHECK_VALUE and value.get("encrypted") is encrypted
