"""Reading the directory of the layered-memory product: agents, sessions, L0 turns and L1 to L3 records.

Facts: that product's directory (layouts G0, G1 and G2: files per day, one JSON object a line, ``.isolation-key`` beside
``agents/``). Only clear text is read; encrypted lines are reported. Nothing is ever written there, links are not
followed, and ``.legacy-backup`` is left out because its records were moved into the sessions. The importer that stores
what comes out of here is not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memory_sqlite.clock import parse_time
from memory_sqlite.model import Layer
from memory_sqlite.paths import AGENTS_DIRECTORY, agent_directory_name
from memory_sqlite.sources.jsonl import Line, read_lines
from memory_sqlite.text.units import valid_unicode

KEY_FILE: Final = ".isolation-key"
"""32 raw bytes: the HMAC key of its session tokens, the same that ``session.key`` holds here."""

_LAYER_DIRECTORIES: Final[Mapping[str, Layer]] = {
    "conversations": "L0",
    "memories": "L1",
    "scenarios": "L2",
    "profiles": "L3",
    "agent-profiles": "L3",
}
_G0_DIRECTORIES: Final = ("conversations", "records")
_DAY_FILE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.jsonl")
_LAYERS: Final[Mapping[str, Layer]] = {"L0": "L0", "L1": "L1", "L2": "L2", "L3": "L3"}
_DEFAULT_AGENT: Final = "main"


@dataclass(frozen=True, slots=True)
class LayeredTurn:
    """One L0 record. ``messages`` are its ``{role, content}`` objects, as written; ``at`` is milliseconds.

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
    """A line or file that could not be read; ``needs_custody`` when it is encrypted rather than damaged."""

    path: str
    line: int | None
    reason: str
    needs_custody: bool = False


LayeredItem = LayeredTurn | LayeredRecord | LayeredProblem


def is_layered_directory(path: Path) -> bool:
    """Whether ``path`` was written by that product: it holds its key, or day files in its layer directories."""
    if (path / KEY_FILE).is_file():
        return True
    return next(_day_files(path), None) is not None


def read_layered(path: Path, agent: str | None = None) -> Iterator[LayeredItem]:
    """Everything in the directory: agents by name, sessions by token, layers from L0 up, days in order.

    With ``agent`` (an id there) only what lies in that agent's own directory; G0 knew none, its files are ``main``'s.
    One bad line costs that line. Raises ``OSError`` when the directory itself cannot be listed.
    """
    for root, file in _day_files(path):
        if agent is not None and not _belongs_to(agent, root, path):
            continue
        name = file.relative_to(path).as_posix()
        if file.is_symlink():
            yield LayeredProblem(name, None, "a link, not followed")
            continue
        try:
            yield from _read_file(root, file, root.name if root != path else _DEFAULT_AGENT, name)
        except OSError as error:
            yield LayeredProblem(name, None, f"cannot be read: {error.strerror or type(error).__name__}")


def has_agent(path: Path, agent: str) -> bool:
    """Whether an agent has a directory there (``main`` also through G0 files)."""
    roots = [*_folders(path / AGENTS_DIRECTORY), *(root for root, _ in _day_files(path) if root == path)]
    return any(_belongs_to(agent, root, path) for root in roots)


def _belongs_to(agent: str, root: Path, path: Path) -> bool:
    """Whether ``root`` is that agent's directory: named with the hash, or, in the oldest layouts, without."""
    if root == path:
        return agent == _DEFAULT_AGENT
    return root.name in (agent_directory_name(agent), agent)


def _day_files(path: Path) -> Iterator[tuple[Path, Path]]:
    """Day files with the directory their cited paths are relative to: the agent's, for G0 the data directory."""
    for name in _G0_DIRECTORIES:
        for file in _days_of(path / name):
            yield path, file
    for agent in _folders(path / AGENTS_DIRECTORY):
        for session in [agent, *_folders(agent / "sessions")]:  # G1 keeps its layers beside ``sessions``
            for name in _LAYER_DIRECTORIES:
                for file in _days_of(session / name):
                    yield agent, file


def _folders(path: Path) -> list[Path]:
    return sorted(item for item in path.iterdir() if _is_folder(item)) if _is_folder(path) else []


def _days_of(path: Path) -> list[Path]:
    return sorted(item for item in path.iterdir() if _DAY_FILE.fullmatch(item.name)) if _is_folder(path) else []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_file(root: Path, file: Path, agent: str, name: str) -> Iterator[LayeredItem]:
    cited = file.relative_to(root).as_posix()
    ordinal = 0
    for line in read_lines(file):
        if not line.complete:
            yield LayeredProblem(name, line.number, "the last line is torn or still being written")
            continue
        if line.values or line.problem is not None:
            ordinal += 1
        if line.problem is not None:
            yield LayeredProblem(name, line.number, line.problem)
        for value in line.values:
            yield _read_record(value, line, agent, file.parent.name, cited, ordinal, name)


def _read_record(
    value: object, line: Line, agent: str, directory: str, cited: str, ordinal: int, name: str
) -> LayeredItem:
    if not isinstance(value, dict):
        return LayeredProblem(name, line.number, "not a JSON object")
    if value.get("v") == 1 and all(isinstance(value.get(key), str) for key in ("iv", "tag", "data")):
        return LayeredProblem(name, line.number, "encrypted; reading it needs the Custody feature", needs_custody=True)
    record_id, session = _text(value, "id"), _text(value, "sessionKey")
    if record_id is None or session is None:
        return LayeredProblem(name, line.number, "has no id or no session identity")
    agent = _text(value, "agentId") or agent
    at = parse_time(value.get("createdAt", value.get("timestamp")))
    sender, run_id = _text(value, "senderId"), _text(value, "runId")
    layer = _LAYERS.get(str(value.get("level")), _LAYER_DIRECTORIES.get(directory, "L1"))  # G0 ``records`` are L1
    if layer == "L0":
        said = value.get("messages", [value] if "content" in value else None)  # G0: the record is the message
        if not isinstance(said, list) or not all(isinstance(message, dict) for message in said):
            return LayeredProblem(name, line.number, "messages must be a list of objects")
        messages = tuple({"role": message.get("role"), "content": message.get("content")} for message in said)
        return LayeredTurn(record_id, agent, session, messages, at, sender, run_id, cited, line.number, ordinal)
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
        keywords=tuple(valid_unicode(word) for word in keywords if isinstance(word, str))
        if isinstance(keywords, list)
        else (),
        session=session,
        at=at,
        sender=sender,
        run_id=run_id,
        path=cited,
        line=line.number,
        ordinal=ordinal,
    )


def _text(value: Mapping[str, Any], key: str) -> str | None:
    """A string that is not blank, exactly as written: session keys are hashed to tokens byte by byte."""
    said = value.get(key)
    return valid_unicode(said) if isinstance(said, str) and said.strip() else None
