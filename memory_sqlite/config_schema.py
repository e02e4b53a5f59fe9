"""The settings as a pydantic model and as JSON Schema, for editors and for files written by us.

Built from the field table of ``config_fields.py``, so that the two cannot disagree; a test compares them all the same.
Not on the search path: only ``memory-sqlite config --schema`` and later the servers import it.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as PydanticField

from memory_sqlite.config import Settings
from memory_sqlite.config_fields import FIELDS, Field


class ExtraPathModel(BaseModel):
    """A further place of notes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str = PydanticField(min_length=1, pattern=r"\S", description="Absolute, or relative to the workspace.")
    glob: str | None = PydanticField(None, min_length=1, pattern=r"\S", description="Within a directory; **/*.md.")


def _annotation(entry: Field) -> Any:
    """The type of one setting as the file may write it."""
    annotation: Any
    if entry.kind == "boolean":
        annotation = bool
    elif entry.kind == "integer" and entry.bounds is not None:
        annotation = Annotated[int, PydanticField(ge=entry.bounds[0], le=entry.bounds[1])]
    elif entry.kind == "choice":
        annotation = Literal[entry.choices]
    elif entry.kind == "paths":
        annotation = list[Annotated[str, PydanticField(pattern=r"\S")] | ExtraPathModel]
    elif entry.kind == "variable":
        annotation = Annotated[str, PydanticField(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    elif entry.kind == "url":
        annotation = Annotated[str, PydanticField(pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#@]+(/[^\s?#@]*)?$")]
    else:
        annotation = Annotated[str, PydanticField(pattern=r"\S")]
    # TOML has no null: the word takes its place
    return annotation | Literal["none"] if entry.nullable else annotation


def _default(entry: Field) -> Any:
    """The default as the file would write it; ``None`` where it depends on the machine or on another setting."""
    if entry.name in ("data_dir", "redact_secrets"):
        return None
    value = next(field.default for field in fields(Settings) if field.name == entry.name)
    if value is None:
        return "none"
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


@cache
def model() -> type[BaseModel]:
    """The pydantic model of ``memory-sqlite.toml``."""
    definitions: dict[str, Any] = {}
    for entry in FIELDS:
        default = _default(entry)
        annotation = _annotation(entry)
        if default is None:
            # absent in the file, and then computed: None is what "absent" validates to, never a value to write
            definitions[entry.name] = (
                annotation,
                PydanticField(default=None, description=entry.help, json_schema_extra=_without_default),
            )
        else:
            definitions[entry.name] = (annotation, PydanticField(default=default, description=entry.help))
    built: type[BaseModel] = create_model(
        "MemorySqliteConfiguration", __config__=ConfigDict(extra="forbid", strict=True), **definitions
    )
    return built


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the configuration file."""
    schema = model().model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
