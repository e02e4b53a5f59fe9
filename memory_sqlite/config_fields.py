"""The table of settings: each one's kind, bounds and meaning, and the check of one value.

Not here: defaults and where values come from (``config.py``), the camelCase form of the layered-memory product
(``config_layered.py``), the JSON Schema (``config_schema.py``, which is tested against this table). Called by those
three and by nobody else. No heavy import: this is on the path of every search.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from memory_sqlite import errors, limits
from memory_sqlite.values import dataclass

SAME: Final = "same"
"""Of the days a layer is kept: as many as ``retention_days`` says. Null is something else, and means for ever."""

Kind = Literal["boolean", "integer", "text", "choice", "variable", "path", "paths", "url", "command"]


@dataclass(frozen=True, slots=True)
class ExtraPath:
    """A further place of notes: a file, or a directory with an optional glob (``**/*.md`` when ``None``).

    ``path`` is absolute, or relative to the workspace.
    """

    path: str
    glob: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One setting. ``bounds`` are inclusive; ``nullable`` settings accept ``none`` in files and the environment; an
    integer accepts its ``choices`` as words beside numbers."""

    name: str
    kind: Kind
    help: str
    bounds: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from. ``detail`` is a file, a variable, or why the default is what it is."""

    layer: Literal["default", "file", "environment", "argument"]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {self.detail}".rstrip()


def _integer(name: str, bound: tuple[int, int, int | None], help_text: str, *, nullable: bool = False) -> Field:
    return Field(name, "integer", help_text, bounds=(bound[0], bound[1]), nullable=nullable)


def _layer_days(layer: str, what: str) -> Field:
    bounds = (limits.RETENTION_DAYS[0], limits.RETENTION_DAYS[1])
    help_text = f"Days {what} are kept; none: for ever; same: as retention_days."
    return Field(f"retention_days_{layer}", "integer", help_text, bounds=bounds, choices=(SAME,), nullable=True)


FIELDS: Final[tuple[Field, ...]] = (
    Field("enabled", "boolean", "When false every operation answers 'disabled' and nothing is opened or created."),
    Field("data_dir", "path", "Directory that holds session.key and one directory per agent."),
    Field("agent", "text", "Owner of the memory that is read and written."),
    Field("workspace", "path", "Directory with MEMORY.md, USER.md and memory/; none: no notes.", nullable=True),
    Field("extra_paths", "paths", "Further files or directories of notes, each with an optional glob."),
    Field(
        "compatibility",
        "choice",
        "'layered-memory' switches extraction, scoring order, redaction, retention and JSON shapes to that product's.",
        choices=("standard", "layered-memory"),
    ),
    Field("redact_secrets", "boolean", "Mask tokens, keys and passwords before a message is stored or a note indexed."),
    Field(
        "encryption_key_env",
        "variable",
        "Name of the environment variable that holds the encryption key (at least 32 bytes).",
        nullable=True,
    ),
    Field(
        "encryption_key_file",
        "path",
        "File that holds the encryption key; one line end at its end is no part of it.",
        nullable=True,
    ),
    Field(
        "encryption_key_command",
        "command",
        "Command that prints the encryption key, run without a shell.",
        nullable=True,
    ),
    Field("encryption_passphrase", "boolean", "The key is a passphrase (at least 8 bytes): stretch it with scrypt."),
    Field(
        "encryption_cipher",
        "choice",
        "Cipher of a data directory yet to be encrypted; 'sqlcipher' is for files that SQLCipher's tools can read.",
        choices=("aegis", "sqlcipher"),
    ),
    Field(
        "profile_scope",
        "choice",
        "Whether L3 facts belong to their session or to the agent.",
        choices=("session", "agent"),
    ),
    Field("auto_recall", "boolean", "Whether recall may return a block at all."),
    _integer("context_max_tokens", limits.CONTEXT_MAX_TOKENS, "UTF-8 bytes of a recall block.", nullable=True),
    _integer("max_search_results", limits.MAX_SEARCH_RESULTS, "Most hits a tool, a manager or recall may get."),
    _integer("max_search_bytes", limits.MAX_SEARCH_BYTES, "Most bytes of text one search may read."),
    _integer("max_read_lines", limits.MAX_READ_LINES, "Most lines one get returns."),
    _integer("retention_days", limits.RETENTION_DAYS, "Days L0 to L2 are kept; none: for ever.", nullable=True),
    _layer_days("l0", "conversations (L0)"),
    _layer_days("l1", "episodes (L1)"),
    _layer_days("l2", "scenarios (L2)"),
    _layer_days("l3", "facts (L3)"),
    _integer("extraction_interval", limits.EXTRACTION_INTERVAL, "Every n-th turn of a session makes an L2 scenario."),
    _integer("max_record_bytes", limits.MAX_RECORD_BYTES, "Most UTF-8 bytes of one stored message or record."),
    _integer("auto_recall_max_results", limits.AUTO_RECALL_MAX_RESULTS, "Most hits in a recall block."),
    _integer("auto_recall_max_chars", limits.AUTO_RECALL_MAX_CHARS, "Most UTF-16 units of a recall block."),
    _integer("auto_recall_timeout_ms", limits.AUTO_RECALL_TIMEOUT_MS, "Milliseconds after which recall gives up."),
    Field(
        "embedding_provider",
        "text",
        "What turns text into vectors: 'static', 'local', 'openai' or a plugin's id; none: words alone.",
        nullable=True,
    ),
    Field(
        "embedding_model", "text", "Model of the embedding provider; none: the provider's own choice.", nullable=True
    ),
    _integer(
        "embedding_dimensions",
        limits.EMBEDDING_DIMENSIONS,
        "Dimensions to ask an 'openai' provider for; none: as many as the model has.",
        nullable=True,
    ),
    Field(
        "embedding_base_url",
        "url",
        "Where an 'openai' provider is, e.g. 'http://localhost:11434/v1'; none: OpenAI itself.",
        nullable=True,
    ),
    Field(
        "embedding_api_key_env",
        "variable",
        "Name of the environment variable that holds the embedding provider's key.",
        nullable=True,
    ),
    _integer(
        "embedding_query_timeout_ms",
        limits.EMBEDDING_QUERY_TIMEOUT_MS,
        "Milliseconds a search waits for the vector of its question.",
    ),
    _integer(
        "embedding_batch_timeout_ms",
        limits.EMBEDDING_BATCH_TIMEOUT_MS,
        "Milliseconds that loading a model or embedding one batch may take.",
    ),
)
BY_NAME: Final[Mapping[str, Field]] = {field.name: field for field in FIELDS}

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_URL: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#@]*)?\Z", re.IGNORECASE)
"""No user, password, query or fragment: what is secret does not belong into a setting that is shown."""
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}\Z")
_WORDS: Final[Mapping[str, bool]] = {
    "true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def expected(field: Field) -> str:
    """What a right value looks like, for messages and for help: ``an integer between 1 and 100``."""
    if field.kind == "integer" and field.bounds is not None:
        text = f"an integer between {field.bounds[0]} and {field.bounds[1]}"
        if field.choices:
            text += f", {', '.join(field.choices)}"
    else:
        text = {
            "boolean": "a boolean",
            "choice": " or ".join(field.choices),
            "variable": "a valid environment variable name",
            "url": "an http:// or https:// address without a password",
            "command": "a command line without unclosed quotes",
            "paths": "a list of paths or of tables {path, glob}",
        }.get(field.kind, "a non-empty string")
    return f"{text}, or none" if field.nullable else text


def refuse(name: str, what: str, origin: Origin) -> errors.InvalidConfiguration:
    """The error for a wrong value. It names field, rule and origin, never the value (it may be a misplaced key)."""
    return errors.InvalidConfiguration(f"{name} must be {what} ({origin})")


def expand(text: str, base: Path | None) -> Path:
    """``~`` and ``~/…`` from HOME (else the working directory); other relative paths against ``base``; never ``~user``.

    The rule is the layered-memory product's (section 12 of its reference); ``base=None`` means the working directory.
    """
    if text == "~" or text.startswith("~/"):
        return Path(os.environ.get("HOME") or Path.cwd(), text[2:].lstrip("/")).absolute()
    return Path(base or Path.cwd(), text).absolute()


def from_environment(field: Field, text: str) -> object:
    """The typed value a variable's text means; text that means nothing is passed on for ``check`` to refuse."""
    word = text.strip()
    if field.kind == "boolean":
        return _WORDS.get(word.lower(), text)
    if field.kind == "integer" and _DECIMAL.match(word):
        return int(word)
    if field.kind == "paths":
        return [part for part in text.split(os.pathsep) if part.strip()]
    return text


def check(field: Field, value: object, origin: Origin, base: Path | None = None) -> Any:
    """The value in its final type, or ``InvalidConfiguration``. Applying it to its own result changes nothing."""
    if field.nullable and (value is None or (isinstance(value, str) and value.strip().lower() == "none")):
        return None
    wrong = refuse(field.name, expected(field), origin)
    if field.kind == "boolean":
        if not isinstance(value, bool):
            raise wrong
        return value
    if field.kind == "integer":
        if isinstance(value, str) and value.strip().lower() in field.choices:
            return value.strip().lower()
        if not isinstance(value, int) or isinstance(value, bool) or field.bounds is None:
            raise wrong
        if not field.bounds[0] <= value <= field.bounds[1]:
            raise wrong
        return value
    if field.kind == "paths":
        return _extra_paths(field, value, origin)
    if field.kind == "path" and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise wrong
    value = value.strip()
    if field.kind == "path":
        return expand(value, base)
    if field.kind == "choice" and value not in field.choices:
        raise wrong
    if field.kind == "variable" and not _VARIABLE.match(value):
        raise wrong
    if field.kind == "url" and not _URL.match(value):
        raise wrong
    if field.kind == "command" and not _is_command(value):
        raise wrong
    if not _is_unicode(value):
        raise refuse(field.name, "valid Unicode", origin)
    return value


def _is_command(text: str) -> bool:
    import shlex  # only where one is set

    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _extra_paths(field: Field, value: object, origin: Origin) -> tuple[ExtraPath, ...]:
    """Strings, ``ExtraPath`` objects or ``{path, glob}`` tables. Relative paths stay relative: to the workspace."""
    if not isinstance(value, list | tuple):
        raise refuse(field.name, expected(field), origin)
    found = []
    for item in value:
        glob: object = None
        if isinstance(item, ExtraPath):
            path: object = item.path
            glob = item.glob
        elif isinstance(item, Mapping):
            path, glob = item.get("path"), item.get("glob")
            unknown = sorted(str(key) for key in item if key not in ("path", "glob"))
            if unknown:
                raise refuse(field.name, f"tables with the keys path and glob, not {unknown[0]}", origin)
        else:
            path = os.fspath(item) if isinstance(item, os.PathLike) else item
        if not isinstance(path, str) or not path.strip() or "\0" in path:
            raise refuse(field.name, expected(field), origin)
        if glob is not None and (not isinstance(glob, str) or not glob.strip() or "\0" in glob):
            raise refuse(field.name, "given with a glob that is a non-empty string", origin)
        path = path.strip()
        found.append(ExtraPath(str(expand(path, None)) if path == "~" or path.startswith("~/") else path, glob))
    return tuple(found)
