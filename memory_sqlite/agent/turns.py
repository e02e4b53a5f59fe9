"""``remember``: a host's messages checked, stored with their layers, and searchable when the receipt is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.layers import compatible
from memory_sqlite.layers.remember import Remembered, remember_turns
from memory_sqlite.model import Message, Receipt, SessionInfo
from memory_sqlite.text.frame import strip_frames
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.bounds import Oversize, bounded
from memory_sqlite.transcripts.normalise import CALLS, normalise
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one call wants to store, checked and bounded; nothing was written yet."""

    info: SessionInfo
    messages: tuple[Message, ...]


def prepare(
    info: SessionInfo,
    messages: object,
    run_id: str | None,
    settings: Settings,
    oversize: Oversize,
) -> Prepared:
    """Check everything before the first byte is written. Raises ``InvalidArgument``, ``RecordTooLarge``."""
    info = sessions.check_info(replace(info, key=sessions.check_key(info.key)))
    if info.project is not None:
        info = replace(info, project=_label(info.project, settings))
    _check_run_id(run_id)
    if oversize not in ("refuse", "truncate"):
        raise errors.InvalidArgument('oversize must be "refuse" or "truncate"')
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise errors.InvalidArgument("messages must be a list of messages")
    if len(messages) > limits.MESSAGES_PER_CALL_MAX:
        raise errors.InvalidArgument(f"messages must be at most {limits.MESSAGES_PER_CALL_MAX} a call")
    if settings.compatibility == "layered-memory":
        messages = _current_turn(messages)
    prepared = []
    says_something = False
    for index, given in enumerate(messages):
        message = without_frames(normalise(given, redact=settings.redact_secrets, where=f"messages[{index}]"))
        if message is not None:
            says_something = says_something or bool(message.text.strip()) or _holds_blocks(given)
            prepared.append(bounded(message, settings.max_record_bytes, oversize, what=f"messages[{index}]"))
    return Prepared(info, tuple(prepared) if says_something else ())


def _label(label: str, settings: Settings) -> str:
    """An id or name of the host's as it may be stored: never with a token in it, and still unlike any other."""
    if not settings.redact_secrets:
        return label
    from memory_sqlite.text.secrets import mask_label

    return mask_label(label)


def _holds_blocks(given: Mapping[str, Any]) -> bool:
    """Whether a message without words has blocks (an image) or calls that are worth keeping."""
    content = given.get("content")
    return bool(content and not isinstance(content, str)) or any(given.get(key) for key in CALLS)


def _current_turn(messages: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The layered-memory product's current turn, each message with what else the host said of it."""
    tail = compatible.current_turn(messages)
    sayers = [message for message in messages if compatible.current_turn([message])]
    return [{**said, **flat} for said, flat in zip(sayers[len(sayers) - len(tail) :], tail, strict=True)]


def _check_run_id(run_id: object) -> None:
    if run_id is None:
        return
    if not isinstance(run_id, str) or not run_id.strip():
        raise errors.InvalidArgument("run_id must be a string that is not blank, or absent")
    if len(run_id.encode("utf-8", "surrogatepass")) > limits.RUN_ID_MAX_BYTES:
        raise errors.InvalidArgument(f"run_id must be at most {limits.RUN_ID_MAX_BYTES} bytes of UTF-8")
    if "\0" in run_id or valid_unicode(run_id) != run_id:
        raise errors.InvalidArgument("run_id must be valid Unicode without NUL")


def without_frames(message: Message) -> Message | None:
    """The message without recalled blocks that a host fed back; ``None`` when nothing else was in it."""
    text = strip_frames(message.text)
    if text == message.text:
        return message
    if not text.strip():
        return None
    raw = {"role": message.role, "content": text}
    return replace(message, text=text, raw=json.dumps(raw, ensure_ascii=False, separators=(",", ":")))


def remember(opened: Opened, prepared: Prepared, run_id: str | None, settings: Settings, clock: Clock) -> Receipt:
    """Store in one transaction, then let the index apply it. An index that cannot take it now gets it later."""
    if not prepared.messages:
        return Receipt("empty", prepared.info.key)
    stored = remember_turns(
        opened.store,
        prepared.info,
        prepared.messages,
        run_id=_label(run_id.strip(), settings) if run_id is not None else None,
        way="remember",
        settings=settings,
        clock=clock,
    )
    warning = apply_quietly(opened)
    return _receipt(prepared, stored, warning)


def apply_quietly(opened: Opened) -> str | None:
    """Bring the index up to the store; a failure is a warning, for what was stored is safe and will be applied."""
    try:
        opened.keeper.apply()
        opened.brought()
    except errors.MemorySqliteError as error:
        return f"stored, but not searchable yet ({error.code})"
    return None


def _receipt(prepared: Prepared, stored: Remembered, warning: str | None) -> Receipt:
    warnings = [warning] if warning else []
    if stored.forgotten:
        warnings.append(f"{stored.forgotten} turns were forgotten before and not stored")
    return Receipt(
        "stored" if stored.new_turns else "duplicate",
        prepared.info.key,
        turns=tuple(stored.ordinals),
        messages=stored.messages,
        episodes=len(stored.episodes),
        scenarios=len(stored.scenarios),
        facts=tuple(f"record:{record_id}" for record_id in stored.facts),
        superseded=tuple(f"record:{record_id}" for record_id in stored.superseded),
        redactions=sum(message.redactions for message in prepared.messages),
        shortened=sum(message.cut_from_bytes is not None for message in prepared.messages),
        searchable=warning is None,
        warnings=tuple(warnings),
    )
