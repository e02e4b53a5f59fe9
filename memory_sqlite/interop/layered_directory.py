"""Reading the files of a layered-memory directory: lines become L0 turns and L1 to L3 records, in clear or decrypted.

Facts: one JSON object a line, of which G0 wrote one for each message and later layouts one for each turn. Nothing is
ever written there. Not here: which files there are (``layered_files``), whether the key is the right one
(``layered_check``), storing what comes out of here (``layered``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.clock import parse_time
from memory_sqlite.interop.layered_cipher import CannotOpen, LineCipher, is_envelope
from memory_sqlite.interop.layered_files import (
    DEFAULT_AGENT,
    LAYER_DIRECTORIES,
    PROFILES_DIRECTORY,
    DayFile,
    day_files,
    linked_folders,
)
from memory_sqlite.model import Layer
from memory_sqlite.sources.jsonl import Line, read_lines
from memory_sqlite.text.units import utf8_length, valid_unicode
from memory_sqlite.values import dataclass

_FOLDER_LAYERS: Final[Mapping[str, Layer]] = {**LAYER_DIRECTORIES, PROFILES_DIRECTORY: "L3"}
_LAYERS: Final[Mapping[str, Layer]] = {"L0": "L0", "L1": "L1", "L2": "L2", "L3": "L3"}
_GZIP: Final = b"\x1f\x8b"
REMOVED: Final = "removed"
"""``type`` of a line that our export writes where a record is gone, so that the lines after it keep their numbers."""


@dataclass(frozen=True, slots=True)
class LayeredTurn:
    """One L0 record, or the messages of one turn in G0. ``messages`` are its ``{role, content}`` objects, as written;
    ``at`` is milliseconds.

    ``path`` is relative to the agent's directory (G0: to the data directory), which is how that product cites it;
    ``ordinal`` counts the file's records from 1, ``line`` its physical lines.
    """

    id: str
    agent: str
    session: str
    messages: tuple[Mapping[str, Any], ...]
    at: int | None
    sender: str | None
    run_id: str | None
    path: str
    line: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class LayeredRecord:
    """One L1, L2 or L3 record; fields as in ``LayeredTurn``."""

    id: str
    agent: str
    layer: Layer
    type: str
    content: str
    keywords: tuple[str, ...]
    session: str
    at: int | None
    sender: str | None
    run_id: str | None
    path: str
    line: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class LayeredProblem:
    """A line, file or folder that was not read. ``path`` is relative to the directory; the reason never quotes."""

    path: str
    line: int | None
    reason: str


LayeredItem = LayeredTurn | LayeredRecord | LayeredProblem


def read_layered(
    path: Path, agent: str | None = None, cipher: LineCipher | None = None, *, backups: bool = False
) -> Iterator[LayeredItem]:
    """Everything in the directory: sessions by token, layers from L0 up, days in order, then the rest.

    With ``agent`` (an id there) only what lies in that agent's own directory; G0 knew none, its files are ``main``'s.
    With ``cipher`` lines are decrypted; one in clear is then refused as that product refuses it, but in G0, which knew
    no encryption. One bad line costs that line. Raises ``OSError`` when a directory cannot be listed.
    """
    for folder in linked_folders(path, agent) if agent is not None else ():
        yield LayeredProblem(folder.relative_to(path).as_posix(), None, "a link, not followed")
    for file in day_files(path, agent, backups=backups):
        name = file.path.relative_to(path).as_posix()
        items = _read_file(file, name, cipher if file.layout != "G0" else None)
        try:
            yield from _turns(items) if file.layout == "G0" else items
        except OSError as error:
            yield LayeredProblem(name, None, f"cannot be read: {error.strerror or type(error).__name__}")


def _turns(items: Iterator[LayeredItem]) -> Iterator[LayeredItem]:
    """The messages of G0 put together: what a person says begins a turn, what follows in that session belongs to it.

    Sessions share the file, so each has its open turn, and so many messages at most are held back.
    """
    held: dict[str, LayeredTurn] = {}
    count = 0
    for item in items:
        if not isinstance(item, LayeredTurn):
            yield item
            continue
        begun = held.get(item.session)
        begins = any(message.get("role") == "user" for message in item.messages)
        if begun is None or begins:
            if begun is not None:
                count -= len(begun.messages)
                yield held.pop(item.session)
            held[item.session] = item
        else:
            held[item.session] = replace(begun, messages=(*begun.messages, *item.messages))
        count += len(item.messages)
        if count >= limits.LAYERED_OPEN_MESSAGES_MAX:
            yield from held.values()
            held, count = {}, 0
    yield from held.values()


def _read_file(file: DayFile, name: str, cipher: LineCipher | None) -> Iterator[LayeredItem]:
    refused = _unreadable(file)
    if refused is not None:
        yield LayeredProblem(name, None, refused)
        return
    agent = file.root.name if file.layout != "G0" else DEFAULT_AGENT
    ordinal = 0
    for line in read_lines(file.path):
        if not line.complete:
            yield LayeredProblem(name, line.number, "the last line is torn or still being written")
            continue
        if line.values or line.problem is not None:
            ordinal += 1
        if line.problem is not None:
            yield LayeredProblem(name, line.number, line.problem)
        for value in line.values:
            said = _opened(value, cipher, is_plain_layout=file.layout == "G0")
            if isinstance(said, str):
                yield LayeredProblem(name, line.number, said)
            elif (item := _read_record(said, line, agent, file, ordinal, name)) is not None:
                yield item


def _unreadable(file: DayFile) -> str | None:
    """Why a file is not opened, or not read on: that product writes plain text into plain files."""
    if file.is_link:
        return "a link, not followed"
    if not file.path.is_file():  # a pipe would block, a device would never end
        return "not a regular file"
    with file.path.open("rb") as probe:
        return "compressed, which that product never writes" if probe.read(2) == _GZIP else None


def _opened(value: object, cipher: LineCipher | None, *, is_plain_layout: bool) -> object:
    """What a line says, or in a string why it is not read. A line that is itself a string is no record, either."""
    if not isinstance(value, dict):
        return "not a JSON object"
    if not is_envelope(value):
        return "in clear although the directory is encrypted" if cipher is not None else value
    if cipher is None:
        return "encrypted" if is_plain_layout else "encrypted; reading it needs the directory's key"
    try:
        said = cipher.open(value)
    except CannotOpen as error:
        return str(error)
    return said if isinstance(said, dict) else "not a JSON object"


def _read_record(value: Any, line: Line, agent: str, file: DayFile, ordinal: int, name: str) -> LayeredItem | None:
    """The turn or record of a line; ``None`` for one that only keeps a place."""
    if value.get("type") == REMOVED and "content" not in value and "messages" not in value:
        return None
    record_id, session = _text(value, "id"), _text(value, "sessionKey")
    if record_id is None or session is None:
        return LayeredProblem(name, line.number, "has no id or no session identity")
    agent = _text(value, "agentId") or agent
    at = parse_time(value.get("createdAt", value.get("timestamp")))
    sender, run_id = _text(value, "senderId"), _text(value, "runId")
    if max(utf8_length(label or "") for label in (record_id, sender, run_id)) > limits.HOST_ID_MAX_BYTES:
        return LayeredProblem(name, line.number, "its id, sender or run is too long to be one")
    folder = file.path.parent.name
    layer = _LAYERS.get(str(value.get("level")), _FOLDER_LAYERS.get(folder, "L1"))  # G0 ``records`` are L1
    if layer == "L0":
        said = value.get("messages", [value] if "content" in value else None)  # G0: the record is the message
        if not isinstance(said, list) or not all(isinstance(message, dict) for message in said):
            return LayeredProblem(name, line.number, "messages must be a list of objects")
        messages = tuple({"role": message.get("role"), "content": message.get("content")} for message in said)
        return LayeredTurn(record_id, agent, session, messages, at, sender, run_id, file.cited, line.number, ordinal)
    content = value.get("content")
    if not isinstance(content, str):
        return LayeredProblem(name, line.number, "content must be a string")
    keywords = value.get("keywords")
    return LayeredRecord(
        id=record_id,
        agent=agent,
        layer=layer,
        type=_text(value, "type") or {"L1": "episodic", "L2": "scenario", "L3": "profile"}[layer],
        content=valid_unicode(content),
        keywords=tuple(word for word in keywords if isinstance(word, str)) if isinstance(keywords, list) else (),
        session=session,
        at=at,
        sender=sender,
        run_id=run_id,
        path=file.cited,
        line=line.number,
        ordinal=ordinal,
    )


def _text(value: Mapping[str, Any], key: str) -> str | None:
    """A string that is not blank, exactly as written: session keys are hashed to tokens byte by byte."""
    said = value.get(key)
    return valid_unicode(said) if isinstance(said, str) and said.strip() else None
