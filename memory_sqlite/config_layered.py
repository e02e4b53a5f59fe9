"""The layered-memory product's camelCase configuration, read with its rules, its order and its messages.

Facts: section 12 of the layered-memory reference (bounds, order of checks, message forms, ``dataDir`` rules); blocks 9,
10 and 49 of its section 13 are tests. Not here: our own file and environment (``config.py``). Called by compatible
faces: the manager, the plugin side of a host that migrates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.config import Settings, check_encryption
from memory_sqlite.config_fields import BY_NAME, expand

_INTEGERS: Final = (
    ("maxSearchResults", "max_search_results"),
    ("maxSearchBytes", "max_search_bytes"),
    ("maxReadLines", "max_read_lines"),
    ("retentionDays", "retention_days"),
    ("extractionInterval", "extraction_interval"),
    ("maxRecordBytes", "max_record_bytes"),
    ("autoRecallMaxResults", "auto_recall_max_results"),
    ("autoRecallMaxChars", "auto_recall_max_chars"),
    ("autoRecallTimeoutMs", "auto_recall_timeout_ms"),
)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_JS_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f"
    "\u3000\ufeff"
)
"""What JavaScript's trim removes (ECMA-262: WhiteSpace and LineTerminator); Python's strip removes other characters."""
DEFAULT_DATA_DIR: Final = "~/.openclaw/state/memory"


def from_layered(configuration: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Settings with ``compatibility="layered-memory"`` from that product's own configuration object.

    An absent key is the default; any other wrong value, null included, raises ``InvalidConfiguration`` with the
    product's message. Unknown keys are ignored, as its resolver does (its host's schema refuses them). ``5.0`` is an
    integer there, booleans and numeric strings are not. A usable key raises ``EncryptionUnavailable`` where this SQLite
    cannot encrypt.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {"enabled": _boolean(configuration, "enabled", True)}
    values["data_dir"] = expand(_text(configuration, "dataDir", DEFAULT_DATA_DIR) or "", None)
    variable = _text(configuration, "encryptionKeyEnv", None)
    if variable is not None:
        if not _VARIABLE.match(variable):
            raise _wrong("encryptionKeyEnv must be a valid environment variable name")
        check_encryption(variable, False, environ, "[memory] encryptionKeyEnv")
    scope = configuration.get("profileScope", "session")
    if scope not in ("session", "agent"):
        raise _wrong("profileScope must be session or agent")
    values["profile_scope"] = scope
    values["auto_recall"] = _boolean(configuration, "autoRecall", True)
    if "contextMaxTokens" in configuration:
        values["context_max_tokens"] = _integer(configuration, "contextMaxTokens", "context_max_tokens")
    for theirs, ours in _INTEGERS:
        if theirs in configuration:
            values[ours] = _integer(configuration, theirs, ours)
    # only now: every other value is checked first, in the product's order, whether or not this SQLite encrypts
    check_encryption(variable, values["enabled"], environ, "[memory] encryptionKeyEnv")
    return Settings(compatibility="layered-memory", encryption_key_env=variable, **values)


def _wrong(message: str) -> errors.InvalidConfiguration:
    return errors.InvalidConfiguration(f"[memory] {message}")


def _boolean(configuration: Mapping[str, Any], name: str, default: bool) -> bool:
    value = configuration.get(name, default)
    if not isinstance(value, bool):
        raise _wrong(f"{name} must be a boolean")
    return value


def _text(configuration: Mapping[str, Any], name: str, default: str | None) -> str | None:
    if name not in configuration:
        return default
    value = configuration[name]
    text = value.strip(_JS_SPACE) if isinstance(value, str) else ""
    if not text or "\0" in text:
        raise _wrong(f"{name} must be a non-empty string")
    return text


def _integer(configuration: Mapping[str, Any], name: str, ours: str) -> int:
    low, high = BY_NAME[ours].bounds or (0, 0)
    value = configuration[name]
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not low <= value <= high:
        raise _wrong(f"{name} must be an integer between {low} and {high}")
    return int(value)
