"""The bearer token of a server on a port: from the environment, a file, or made when the server starts.

Visible ASCII of 16 to 512 characters. It is compared in constant time and shown nowhere, but for one that was made:
that is told once, to who started the server. Not here: which request must carry it (``http``).
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from memory_sqlite import errors, limits

VARIABLE: Final = "MEMORY_SQLITE_SERVE_TOKEN"
_MADE_BYTES: Final = 32


class Token:
    """One bearer token. ``made`` says that it was made now and nobody else knows it."""

    def __init__(self, value: str, *, made: bool = False) -> None:
        """Raises ``InvalidConfiguration`` for a value that is none."""
        least, most = limits.SERVE_TOKEN_CHARS
        if not least <= len(value) <= most or not all("!" <= character <= "~" for character in value):
            raise errors.InvalidConfiguration(
                f"a server's token must be {least} to {most} visible ASCII characters without spaces"
            )
        self._value = value
        self.made: Final = made

    def __repr__(self) -> str:
        return "Token()"

    def reveal(self) -> str:
        """The token itself, to be told once when it was made."""
        return self._value

    def admits(self, header: bytes) -> bool:
        """Whether an ``Authorization`` header carries it; takes as long for a wrong one as for a nearly right one."""
        scheme, _, given = header.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._value.encode())


def find(file: str | None, environment: Mapping[str, str] | None = None) -> Token:
    """The token of a file, else of the environment, else a new one. Raises ``InvalidConfiguration``."""
    if file is not None:
        return Token(_from_file(Path(file)))
    given = (os.environ if environment is None else environment).get(VARIABLE)
    if given:
        return Token(given)
    return Token(secrets.token_urlsafe(_MADE_BYTES), made=True)


def _from_file(path: Path) -> str:
    try:
        # without waiting: a pipe that nobody writes to would never open
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise errors.InvalidConfiguration(f"the token file cannot be read: {reason}") from None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise errors.InvalidConfiguration("the token file is not a regular file")
        if state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise errors.InvalidConfiguration(
                "the token file may be read by others", hint="Make it yours alone: chmod 600 FILE."
            )
        content = os.read(descriptor, limits.SERVE_TOKEN_CHARS[1] + 3)
    finally:
        os.close(descriptor)
    return content.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
