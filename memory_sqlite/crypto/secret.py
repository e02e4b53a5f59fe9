"""Where the user's key comes from: an environment variable, a file or a command; read when needed, shown nowhere.

The key is UTF-8 text of at least 32 bytes, or of at least 8 where the user says that it is a passphrase. What a
variable holds is taken as it is, as the layered-memory product takes it; of a file and of a command's output one line
end at the end is not part of the key, nor is a byte order mark. Not here: what the key opens (``keyring``). Called by
whoever opens a store, and by the key commands.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Final, Literal

from memory_sqlite import errors, limits
from memory_sqlite.config import Settings
from memory_sqlite.crypto.file_key import Cipher

Kind = Literal["env", "file", "command"]
_BOM: Final = b"\xef\xbb\xbf"


class Secret:
    """A place that a key can be read from, and how the user wants it used. Reads once, on the first ``read``."""

    def __init__(
        self,
        kind: Kind,
        name: str,
        *,
        passphrase: bool = False,
        cipher: Cipher = "aegis",
        field: str | None = None,
    ) -> None:
        """``name`` is the variable, the path or the command line; ``field`` what it is called in messages.

        ``passphrase`` allows short keys, which are then stretched; ``cipher`` is that of a directory yet to be made.
        """
        self.kind: Final = kind
        self.passphrase: Final = passphrase
        self.cipher: Final = cipher
        self.field: Final = field or f"encryption_key_{kind}"
        self._name = name
        self._read: bytes | None = None

    def __repr__(self) -> str:  # people put the key itself where its name belongs
        return f"Secret({self.kind!r})"

    def read(self) -> bytes:
        """The key. Raises ``InvalidConfiguration``, which names the setting and never what it holds."""
        if self._read is None:
            self._read = self._checked(
                {"env": self._from_env, "file": self._from_file, "command": self._run}[self.kind]()
            )
        return self._read

    def _wrong(self, what: str) -> errors.InvalidConfiguration:
        return errors.InvalidConfiguration(f"{self.field}: {what}")

    def _checked(self, key: bytes) -> bytes:
        least = limits.ENCRYPTION_PASSPHRASE_MIN_BYTES if self.passphrase else limits.ENCRYPTION_KEY_MIN_BYTES
        if len(key) > limits.ENCRYPTION_KEY_MAX_BYTES:
            raise self._wrong(f"the key is longer than {limits.ENCRYPTION_KEY_MAX_BYTES} bytes")
        try:
            key.decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong("the key is not UTF-8 text; write random bytes as base64 or hex") from None
        if len(key) < least:
            meant = "--new-passphrase" if self.field.startswith("-") else "encryption_passphrase = true"
            more = "" if self.passphrase else f"; a shorter passphrase needs {meant}"
            raise self._wrong(f"the key must contain at least {least} bytes{more}")
        return key

    def _from_env(self) -> bytes:
        value = os.environ.get(self._name)
        if not value:
            raise self._wrong("the environment variable it names is not set")
        return value.encode("utf-8", "surrogateescape")

    def _from_file(self) -> bytes:
        try:
            # without waiting: a pipe that nobody writes to would never open
            descriptor = os.open(Path(self._name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise self._wrong(f"the file it names cannot be read: {reason}") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise self._wrong("what it names is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                content = stream.read(limits.ENCRYPTION_KEY_MAX_BYTES + 3)
        except OSError as error:
            raise self._wrong(f"the file it names cannot be read: {error.strerror}") from None
        finally:
            os.close(descriptor)
        return _without_line_end(content.removeprefix(_BOM))

    def _run(self) -> bytes:
        import selectors  # loaded here alone: a search whose key is elsewhere does not pay for them
        import shlex
        import subprocess

        try:
            words = shlex.split(self._name)
        except ValueError:
            words = []
        if not words:
            raise self._wrong("what it names is no command line, or has a quote that is not closed")
        try:
            # the terminal stays its own: a password manager asks there. What it complains of may quote the key
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise self._wrong(f"the command cannot be run: {reason}") from None
        assert child.stdout is not None
        content, until = b"", time.monotonic() + limits.ENCRYPTION_KEY_COMMAND_S
        try:
            with child.stdout as pipe, selectors.DefaultSelector() as ready:
                ready.register(pipe, selectors.EVENT_READ)
                while True:
                    if not ready.select(max(0.0, until - time.monotonic())):
                        raise self._slow()
                    more = pipe.read(limits.ENCRYPTION_KEY_MAX_BYTES)
                    content += more
                    if not more:
                        break
                    if len(content) > limits.ENCRYPTION_KEY_MAX_BYTES + 2:
                        raise self._wrong(f"the command printed more than {limits.ENCRYPTION_KEY_MAX_BYTES} bytes")
            try:
                code = child.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self._slow() from None
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if code:
            raise self._wrong(f"the command failed with exit code {code}; run it by hand to see why")
        return _without_line_end(content)

    def _slow(self) -> errors.InvalidConfiguration:
        return self._wrong(f"the command did not end within {limits.ENCRYPTION_KEY_COMMAND_S:.0f} seconds")


def _without_line_end(content: bytes) -> bytes:
    """Editors and commands end their text with a line end; more than one was meant."""
    return content.removesuffix(b"\n").removesuffix(b"\r") if content.endswith(b"\n") else content


def from_settings(settings: Settings) -> Secret | None:
    """The place that the settings name, or ``None`` for a memory in clear. Reads nothing."""
    return named(
        settings.encryption_key_env,
        settings.encryption_key_file,
        settings.encryption_key_command,
        passphrase=settings.encryption_passphrase,
        cipher=settings.encryption_cipher,
    )


def named(
    env: str | None,
    file: str | os.PathLike[str] | None,
    command: str | None,
    *,
    passphrase: bool = False,
    cipher: Cipher = "aegis",
    prefix: str = "encryption_key_",
) -> Secret | None:
    """The one place that is given, or ``None``. Raises ``InvalidConfiguration`` for two of them."""
    given: list[tuple[Kind, str]] = []
    if env is not None:
        given.append(("env", env))
    if file is not None:
        given.append(("file", os.fspath(file)))
    if command is not None:
        given.append(("command", command))
    if len(given) > 1:
        raise errors.InvalidConfiguration(" and ".join(f"{prefix}{kind}" for kind, _ in given) + ": give one of them")
    if not given:
        return None
    kind, name = given[0]
    return Secret(kind, name, passphrase=passphrase, cipher=cipher, field=f"{prefix}{kind}")
