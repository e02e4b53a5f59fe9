"""Settings and where they come from: default < file < environment < argument.

The file is ``memory-sqlite.toml`` in the user's configuration directory, or the one named by ``--config`` or
``MEMORY_SQLITE_CONFIG``; the environment is ``MEMORY_SQLITE_<FIELD>``. Not here: the table of fields and the check of
one value (``config_fields.py``), the layered-memory product's camelCase form (``config_layered.py``), the JSON schema
(``config_schema.py``). Called by the door and by the surfaces. No pydantic: this is on the path of every search.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast

from memory_sqlite import errors, limits
from memory_sqlite.config_fields import BY_NAME, FIELDS, ExtraPath, Origin, check, expand, from_environment
from memory_sqlite.values import dataclass, field

__all__ = ["APP_NAME", "ExtraPath", "Origin", "Settings", "config_path", "default_data_dir", "load"]

APP_NAME: Final = "memory-sqlite"
FILE_NAME: Final = "memory-sqlite.toml"
PREFIX: Final = "MEMORY_SQLITE_"
_DIRECT: Final = Origin("argument")


def _user_directory(variable: str, below_home: str) -> Path | None:
    """The XDG base directory's place for this program on Linux; ``None`` elsewhere.

    The same as platformdirs says (tested), without the 6 ms that loading it takes from every command.
    """
    if sys.platform != "linux":
        return None
    given = os.environ.get(variable, "")
    base = Path(given) if given.startswith("/") else Path("~", below_home).expanduser()
    return (base / APP_NAME).absolute()


def default_data_dir() -> Path:
    """The platform's place for a user's data, e.g. ``~/.local/share/memory-sqlite`` on Linux; not created here."""
    place = _user_directory("XDG_DATA_HOME", ".local/share")
    if place is None:
        import platformdirs

        place = Path(platformdirs.user_data_dir(APP_NAME, appauthor=False)).absolute()
    return place


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, checked: an object that exists is valid.

    Names, bounds and defaults, but for those of embedding, are those of section 12 of the layered-memory reference in
    snake case. Raises
    ``InvalidConfiguration`` naming the field and its rule, and ``EncryptionUnavailable`` when a key is configured and
    this SQLite cannot encrypt, because nothing must be stored in clear that was meant to be encrypted. Of a key in a
    file or from a command only the place is checked here: it is read when something is opened.
    """

    enabled: bool = True
    data_dir: Path = field(default_factory=default_data_dir)
    agent: str = "main"
    workspace: Path | None = None
    extra_paths: tuple[ExtraPath, ...] = ()
    compatibility: Literal["standard", "layered-memory"] = "standard"
    # None until __post_init__: the default depends on ``compatibility``, which is one switch over redaction too
    redact_secrets: bool = cast(bool, None)
    encryption_key_env: str | None = None
    encryption_key_file: Path | None = None
    encryption_key_command: str | None = None
    encryption_passphrase: bool = False
    encryption_cipher: Literal["aegis", "sqlcipher"] = "aegis"
    profile_scope: Literal["session", "agent"] = "session"
    auto_recall: bool = True
    context_max_tokens: int | None = limits.CONTEXT_MAX_TOKENS[2]
    max_search_results: int = limits.MAX_SEARCH_RESULTS[2]
    max_search_bytes: int = limits.MAX_SEARCH_BYTES[2]
    max_read_lines: int = limits.MAX_READ_LINES[2]
    retention_days: int | None = limits.RETENTION_DAYS[2]
    # "same": as ``retention_days``; None: for ever
    retention_days_l0: int | Literal["same"] | None = "same"
    retention_days_l1: int | Literal["same"] | None = "same"
    retention_days_l2: int | Literal["same"] | None = "same"
    retention_days_l3: int | Literal["same"] | None = None
    extraction_interval: int = limits.EXTRACTION_INTERVAL[2]
    max_record_bytes: int = limits.MAX_RECORD_BYTES[2]
    auto_recall_max_results: int = limits.AUTO_RECALL_MAX_RESULTS[2]
    auto_recall_max_chars: int = limits.AUTO_RECALL_MAX_CHARS[2]
    auto_recall_timeout_ms: int = limits.AUTO_RECALL_TIMEOUT_MS[2]
    embedding_provider: str | None = None
    embedding_model: str | None = None
    embedding_dimensions: int | None = limits.EMBEDDING_DIMENSIONS[2]
    embedding_base_url: str | None = None
    embedding_api_key_env: str | None = None
    embedding_query_timeout_ms: int = limits.EMBEDDING_QUERY_TIMEOUT_MS[2]
    embedding_batch_timeout_ms: int = limits.EMBEDDING_BATCH_TIMEOUT_MS[2]

    def __post_init__(self) -> None:
        if cast(object, self.redact_secrets) is None:
            object.__setattr__(self, "redact_secrets", self.compatibility == "standard")
        for entry in FIELDS:
            object.__setattr__(self, entry.name, check(entry, getattr(self, entry.name), _DIRECT))
        if self.enabled:  # a disabled memory stores nothing, so there is nothing to protect
            self._check_key()

    def _check_key(self) -> None:
        least = limits.ENCRYPTION_PASSPHRASE_MIN_BYTES if self.encryption_passphrase else None
        check_encryption(self.encryption_key_env, True, os.environ, "encryption_key_env", least)
        places = ("encryption_key_env", "encryption_key_file", "encryption_key_command")
        given = [name for name in places if getattr(self, name) is not None]
        if len(given) > 1:
            raise errors.InvalidConfiguration(f"{' and '.join(given)}: only one of them may be set")
        if given:
            check_cipher(given[0])


def check_encryption(
    variable: str | None, enabled: bool, environ: Mapping[str, str], name: str, least: int | None = None
) -> None:
    """Check a key in an environment variable: set, at least ``least`` (32) UTF-8 bytes; then whether it can be used.

    ``name`` is the setting as the caller's users know it. Neither the key nor the variable's name is shown: people put
    the key itself there by mistake. When memory is disabled nothing is stored, so nothing is refused after the check.
    """
    if variable is None:
        return
    key = environ.get(variable, "")
    if not key:
        raise errors.InvalidConfiguration(f"{name}: the environment variable it names is not set")
    least = limits.ENCRYPTION_KEY_MIN_BYTES if least is None else least
    if len(key.encode("utf-8", "surrogateescape")) < least:
        raise errors.InvalidConfiguration(f"{name}: the key in that variable must contain at least {least} bytes")
    if enabled:
        check_cipher(name)


def check_cipher(name: str) -> None:
    """Raise ``EncryptionUnavailable``, naming the setting, unless the SQLite that is there can encrypt."""
    from memory_sqlite import library  # apsw is loaded here only for this answer

    problem = library.cipher_problem()
    if problem is not None:
        raise errors.EncryptionUnavailable(f"{name} is configured, but {problem}; nothing was stored")


def config_path(file: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> tuple[Path, bool]:
    """The configuration file that counts, and whether it was named (then it must exist)."""
    named = os.fspath(file) if file is not None else environ.get(f"{PREFIX}CONFIG", "").strip()
    if named or file is not None:
        return expand(named, None), True
    place = _user_directory("XDG_CONFIG_HOME", ".config")
    if place is None:
        import platformdirs

        place = Path(platformdirs.user_config_dir(APP_NAME, appauthor=False)).absolute()
    return place / FILE_NAME, False


def _read_file(path: Path, named: bool) -> dict[str, Any]:
    """The file's top-level table; an absent unnamed file is an empty one."""
    try:
        with path.open("rb") as stream:
            data = stream.read(limits.CONFIG_FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        if not named:
            return {}
        raise errors.InvalidConfiguration(f"the configuration file {path} does not exist") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise errors.InvalidConfiguration(f"the configuration file {path} cannot be read: {reason}") from None
    if len(data) > limits.CONFIG_FILE_MAX_BYTES:
        raise errors.InvalidConfiguration(
            f"the configuration file {path} is larger than {limits.CONFIG_FILE_MAX_BYTES} bytes"
        )
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))  # editors on Windows write a BOM
    except UnicodeDecodeError:
        raise errors.InvalidConfiguration(f"the configuration file {path} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise errors.InvalidConfiguration(f"the configuration file {path} is not TOML: {error}") from None


def _unknown(key: str, where: str) -> errors.InvalidConfiguration:
    """The error for a key nobody knows, with the nearest one that is known."""
    from difflib import get_close_matches

    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
    near = get_close_matches(snake, list(BY_NAME), n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else errors.InvalidConfiguration.default_hint
    return errors.InvalidConfiguration(f"unknown setting {key!r} in {where}", hint=hint)


def load(
    *,
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    arguments: Mapping[str, object] | None = None,
) -> tuple[Settings, dict[str, Origin]]:
    """Settings from every layer, and for each field where its value came from.

    ``arguments`` are the caller's own, by field name; ``None`` means not given. Relative paths in the file are meant
    from the file's directory, elsewhere from the working directory. An empty variable counts as not set. Raises
    ``InvalidConfiguration`` (unknown key, wrong value, unreadable file) and ``EncryptionUnavailable``.
    """
    environ = os.environ if environ is None else environ
    origins = {entry.name: Origin("default") for entry in FIELDS}
    values: dict[str, Any] = {}

    def take(name: str, value: object, origin: Origin, base: Path | None = None) -> None:
        values[name] = check(BY_NAME[name], value, origin, base)
        origins[name] = origin

    path, named = config_path(file, environ)
    for key, value in _read_file(path, named).items():
        if key not in BY_NAME:
            raise _unknown(key, str(path))
        take(key, value, Origin("file", str(path)), path.parent)
    for entry in FIELDS:
        variable = f"{PREFIX}{entry.name.upper()}"
        text = environ.get(variable, "")
        if text.strip():
            take(entry.name, from_environment(entry, text), Origin("environment", variable))
    for name, argument in (arguments or {}).items():
        if name not in BY_NAME:
            raise _unknown(name, "the arguments")
        if argument is not None:
            take(name, argument, Origin("argument", f"--{name.replace('_', '-')}"))

    least = limits.ENCRYPTION_PASSPHRASE_MIN_BYTES if values.get("encryption_passphrase") else None
    enabled = values.get("enabled", True)
    check_encryption(values.get("encryption_key_env"), enabled, environ, "encryption_key_env", least)
    if "redact_secrets" not in values and values.get("compatibility") == "layered-memory":
        origins["redact_secrets"] = Origin("default", "of compatibility layered-memory")
    return Settings(**values), origins
