"""Searching files for bytes: a script of its own, started by its path, so that the searching process opens no database.

Closing a database file that was opened with plain ``open()`` would drop SQLite's locks on it, hence the process. The
pieces come on standard input and the answer names them by number: nothing that was forgotten is in arguments,
environment or output. Only the standard library, and nothing of this package. Started by ``proof``.

An encrypted file shows nothing to whoever reads its bytes, forgotten or not: there the pages are searched as SQLite
decrypts them, free ones too, in memory and never in a file. Only then apsw is loaded, from where the parent has it.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

_BLOCK = 8 * 1024 * 1024
_BUSY_MS = 10_000


def search(path: Path, pieces: list[bytes]) -> set[int]:
    """The numbers of the pieces that are in a file; none for a file that is not there (any more)."""
    found: set[int] = set()
    overlap = max((len(piece) for piece in pieces), default=1) - 1
    try:
        with path.open("rb") as file:
            tail = b""
            while block := file.read(_BLOCK):
                window = tail + block
                found |= {number for number, piece in enumerate(pieces) if number not in found and piece in window}
                tail = window[len(window) - overlap :] if overlap else b""
    except FileNotFoundError:
        return set()
    return found


def search_decrypted(path: Path, pieces: list[bytes], key: dict[str, str]) -> set[int]:
    """The same for an encrypted database with its write-ahead log, which is a part of it here."""
    sys.path.append(key["library"])
    import apsw

    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.CantOpenError:
        if path.exists():
            raise
        return set()
    connection.set_busy_timeout(_BUSY_MS)
    connection.pragma("cipher", key["cipher"])
    if key["cipher"] == "sqlcipher":
        connection.pragma("legacy", 4)  # as ``storage.connection`` writes them
    connection.pragma("key", f"raw:{key['raw']}")
    pages = connection.serialize("main")
    connection.close()
    return {number for number, piece in enumerate(pieces) if piece in pages}


def main() -> None:
    """Read ``{"files": [...], "pieces": [base64...], "key": {...}?}``, write ``{"file": [numbers]}``."""
    asked = json.load(sys.stdin)
    pieces = [base64.b64decode(piece) for piece in asked["pieces"]]
    key = asked.get("key")
    answer = {
        name: sorted(search(Path(name), pieces) if key is None else search_decrypted(Path(name), pieces, key))
        for name in asked["files"]
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
