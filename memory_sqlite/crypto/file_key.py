"""The key of one agent's files. A value and nothing else: workers get one in their first frame.

Not here: where it comes from (``keyring``), setting it on a connection (``storage.connection``).
"""

from __future__ import annotations

from typing import Final, Literal

from memory_sqlite.values import dataclass

Cipher = Literal["aegis", "sqlcipher"]
CIPHERS: Final[tuple[Cipher, ...]] = ("aegis", "sqlcipher")
"""Those that notice a flipped bit in any page. ``aes256cbc`` answers with damaged data (measured)."""


@dataclass(frozen=True, slots=True)
class FileKey:
    """``raw`` is 32 bytes, used as they are. ``key_id`` names the data key it comes from."""

    cipher: Cipher
    raw: bytes
    key_id: str

    def __repr__(self) -> str:  # in no log and no traceback
        return f"FileKey({self.cipher!r}, key_id={self.key_id!r})"
