"""What must hold before the first row of a layered-memory directory is stored: it can be read, and with the right key.

Facts: that product's ``.encryption-check`` and when it looks at every line instead (``decide``). Where it would refuse
to start over one damaged line, we take any line that opens as the proof of the key, since its tag cannot be guessed,
and report the damaged one. Not here: reading records (``layered_directory``). Called by ``layered``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from memory_sqlite import errors
from memory_sqlite.interop.layered_cipher import CHECK_MAX_BYTES, CannotOpen, LineCipher, is_envelope, says_check
from memory_sqlite.interop.layered_files import CHECK_FILE, day_files
from memory_sqlite.sources.jsonl import decode_value, read_lines

CheckState = Literal["absent", "clear", "sealed", "odd", "unreadable"]

_NAME_THE_KEY: Final = "Name the key: --key-env NAME, --key-file PATH or --key-command COMMAND."
_WRONG: Final = (
    "Give the value that encryptionKeyEnv named there. If only .encryption-check is damaged, import a copy"
    " of the directory without it: then the lines themselves are tried."
)


def decide(path: Path, secret: bytes | None) -> LineCipher | None:
    """How lines are to be read: decrypted with the cipher that comes back, or in clear.

    As there: a check file that fits is believed; one that is missing, in clear although there is a key, or of unknown
    content makes the lines be tried, backups included; anything else is the wrong key. Raises
    ``EncryptionKeyRequired``, ``EncryptionKeyWrong``, ``StoreNotEncrypted``, ``InvalidArgument``, ``UnknownFormat``.
    """
    check, value = read_check(path)
    if secret is None:
        if check == "sealed" or (check in ("absent", "odd") and _kinds(path, None)["sealed"]):
            raise errors.EncryptionKeyRequired("the directory to import is encrypted", hint=_NAME_THE_KEY)
        if check == "unreadable":
            raise errors.UnknownFormat(f"{CHECK_FILE} of the directory to import is damaged", hint=_WRONG)
        return None
    cipher = LineCipher(secret)
    if check == "unreadable":
        raise _wrong()
    if check == "sealed" and isinstance(value, dict):
        try:
            if says_check(cipher.open(value), encrypted=True):
                return cipher
        except CannotOpen:
            raise _wrong() from None
    found = _kinds(path, cipher)
    if found["opened"]:
        return cipher
    if found["sealed"]:
        raise _wrong()
    if found["clear"]:
        raise errors.StoreNotEncrypted(
            "the directory to import is in clear, and a key was given for it", hint="Import it without naming a key."
        )
    return cipher


def read_check(path: Path) -> tuple[CheckState, object]:
    """What ``.encryption-check`` is, with its JSON value: ``clear`` and right, ``sealed`` in an envelope, ``odd``
    (it says something else), ``unreadable``, or ``absent``. Opens nothing but a plain file, and follows no link."""
    try:
        descriptor = os.open(path / CHECK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return "absent", None
    except OSError:
        return "unreadable", None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "unreadable", None
        content = os.read(descriptor, CHECK_MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    value, problem = decode_value(content.strip())
    if problem is not None or len(content) > CHECK_MAX_BYTES:
        return "unreadable", None
    if is_envelope(value):
        return "sealed", value
    return ("clear" if says_check(value, encrypted=False) else "odd"), value


def _wrong() -> errors.EncryptionKeyWrong:
    return errors.EncryptionKeyWrong("the key does not open the directory to import", hint=_WRONG)


def _kinds(path: Path, cipher: LineCipher | None) -> dict[str, bool]:
    """Whether any line of any agent is ``clear``, ``sealed``, or ``opened`` by the cipher; ends at the first that is
    told. The oldest layout is left out: it knew no encryption, and no later version took its files over."""
    found = {"clear": False, "sealed": False, "opened": False}
    for value in _values(path):
        if not is_envelope(value):
            found["clear"] = True
            continue
        found["sealed"] = True
        if cipher is None:
            return found
        assert isinstance(value, dict)
        try:
            cipher.open(value)
        except CannotOpen:
            continue
        found["opened"] = True
        return found
    return found


def _values(path: Path) -> Iterator[object]:
    for file in day_files(path, backups=True):
        if file.layout == "G0" or file.is_link or not file.path.is_file():
            continue
        try:
            for line in read_lines(file.path):
                yield from line.values
        except OSError:
            continue  # told by who reads the records
