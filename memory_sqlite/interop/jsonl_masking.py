"""Lines of an export with their secrets masked, as a message is before it is stored: the same rules, the same marks.

What was exported with masking on has no secrets left and stays as it is. Called by the merging modules, where
``redact_secrets`` is on.
"""

from __future__ import annotations

import json
from typing import Any

from memory_sqlite.interop.jsonl_export import dump
from memory_sqlite.interop.jsonl_format import Record
from memory_sqlite.layers.keywords import keywords
from memory_sqlite.text.secrets import mask, mask_json, mask_known, mask_label


def masked_message(line: Record) -> tuple[Record, int]:
    """The line as it may be stored, and how many secrets that took out of it. ``line`` is not changed."""
    text, in_text = mask(line["text"])
    raw, in_raw = _raw(line["raw"])
    if in_text:
        raw = mask_known(raw, line["text"])
    changed = {
        "text": text,
        "raw": raw,
        "role": mask_label(line["role"]),
        "name": _text(line["name"]),
        "sender": _text(line["sender"]),
        "host_id": _label(line["host_id"]),
        "entries": [[_label(entry), way] for entry, way in line["entries"]],
    }
    found = max(in_text, in_raw)
    return {**line, **changed, "redactions": line["redactions"] + found}, found


def masked_turn(line: Record) -> Record:
    """The line with the labels that a host gave: run ids."""
    return {**line, "run_id": _label(line["run_id"])}


def masked_record(line: Record) -> tuple[Record, int]:
    """As ``masked_message``; keywords of a text that held a secret are made anew."""
    content, found = mask(line["content"])
    value, slot = _text(line["value"]), _text(line["slot"])
    changed: Record = {
        "content": content,
        "value": value,
        "slot": slot,
        "sender": _text(line["sender"]),
        "run_id": _label(line["run_id"]),
        "triggers": [mask(name)[0] for name in line["triggers"]],
        "projects": [mask_label(name) for name in line["projects"]],
    }
    if found:
        changed["keywords"] = list(keywords(content))
    return {**line, **changed}, found


def masked_value(value: Any) -> Any:
    """JSON of a host, as a value or as the text of one."""
    if isinstance(value, str):
        return _raw(value)[0]
    return mask_json(value)[0]


def _raw(raw: str) -> tuple[str, int]:
    """JSON text without its secrets, byte for byte as it was where it had none; what is no JSON is masked as text."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return mask(raw)
    masked, found = mask_json(value)
    return (dump(masked), found) if found else (raw, 0)


def _text(value: str | None) -> str | None:
    return None if value is None else mask(value)[0]


def _label(value: str | None) -> str | None:
    return None if value is None else mask_label(value)
