"""What an export must be before a row of it is stored: every way to be wrong is told with its line, and nothing is
imported."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_files
from memory_sqlite.interop.jsonl_format import FIELDS

Lines = list[dict[str, Any]]


@pytest.fixture
def exported(tmp_path: Path, clock: FixedClock) -> Lines:
    """Lines of an export that has every kind but those of hosts, in a data directory whose key is the same."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", agent="alpha"), clock=clock) as memory:
        for number in range(6):
            clock.advance(1_000)
            memory.remember(
                session="s",
                run_id=f"r{number}",
                messages=[{"role": "user", "content": f"I live in town{number % 2}.", "id": f"u{number}"}],
                chat_type="direct",
                sender_is_owner=True,
            )
        memory.remember(session="gone", run_id="lost", messages=[{"role": "user", "content": "I like chalk."}])
        memory.forget(sessions=["gone"])
        memory.export(tmp_path / "a.jsonl")
    return [json.loads(line) for line in (tmp_path / "a.jsonl").read_bytes().splitlines()]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Memory]:
    """An empty agent beside it."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", agent="beta")) as memory:
        yield memory


def sealed(lines: Lines) -> bytes:
    """The lines as a file whose counts and checksum are right, whatever else is wrong."""
    header = {**lines[0], "counts": {kind: sum(line.get("kind") == kind for line in lines[1:-1]) for kind in FIELDS}}
    return closed([header, *lines[1:-1]])


def closed(lines: Lines) -> bytes:
    """The lines as they are, with a last line that is right."""
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    end = {"kind": "end", "lines": len(lines), "sha256": hashlib.sha256(data).hexdigest()}
    return data + json.dumps(end).encode() + b"\n"


def refused(target: Memory, tmp_path: Path, data: bytes) -> errors.ExportInvalid:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(data)
    with pytest.raises(errors.ExportInvalid) as caught:
        target.import_jsonl(path)
    status = target.status()
    assert (status["sessions"], status["turns"], sum(status["records"].values())) == (0, 0, 0)
    assert "town" not in caught.value.message, "no text of a memory in an error"
    return caught.value


def first(lines: Lines, kind: str) -> int:
    return next(index for index, line in enumerate(lines) if line["kind"] == kind)


def test_the_lines_as_they_are_pass(exported: Lines, target: Memory, tmp_path: Path) -> None:
    """The helper of the tests below makes sound files; otherwise they would show nothing."""
    (tmp_path / "good.jsonl").write_bytes(sealed(exported))
    assert target.import_jsonl(tmp_path / "good.jsonl").added["turn"] == 6


def _set(kind: str, **fields: Any) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        at = first(lines, kind)
        lines[at] = {**lines[at], **fields}
        return at

    return change


def _again(kind: str, **fields: Any) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        at = max(index for index, line in enumerate(lines) if line["kind"] == kind)
        lines.insert(at + 1, {**lines[at], **fields})
        return at + 1

    return change


def _drop(kind: str, name: str) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        at = first(lines, kind)
        del lines[at][name]
        return at

    return change


def _move_session_to_the_end(lines: Lines) -> int:
    lines.insert(len(lines) - 1, lines.pop(first(lines, "tombstone")))
    return len(lines) - 2


def _last_record(**fields: Any) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        at = max(index for index, line in enumerate(lines) if line["kind"] == "record")
        lines[at] = {**lines[at], **fields}
        return at

    return change


LATE = {"kind": "recall", "query_digest": "0" * 32, "way": "cli", "at": 0}
HIT = {"rank": 1, "reference": None, "message": ["s", 99], "path": "", "start_line": 1, "end_line": 1, "score": 0.5}


def _append(line: dict[str, Any]) -> Callable[[Lines], int]:
    def change(lines: Lines) -> int:
        lines.insert(len(lines) - 1, line)
        return len(lines) - 2

    return change


WRONG: dict[str, Callable[[Lines], int]] = {
    "an unknown kind": _append({"kind": "wish"}),
    "no kind": _append({"text": "x"}),
    "a kind that is no text": _append({"kind": ["turn"]}),
    "a missing field": _drop("message", "raw"),
    "an unknown field": _set("message", colour="red"),
    "a number for text": _set("message", text=5),
    "text for a number": _set("turn", at="2026-07-15"),
    "a boolean for a number": _set("turn", ordinal=True),
    "a fraction for a number": _set("turn", at=1.5),
    "a time beyond the years": _set("message", at=10**15),
    "a lone surrogate": _set("message", text="\ud800"),
    "a text that is too long": _set("message", text="x" * (limits.EXPORT_TEXT_MAX_BYTES + 1)),
    "an unknown layer": _set("record", layer="L9"),
    "an importance beyond ten": _set("record", importance=11),
    "a day that is none": _set("record", day="2026-7-1"),
    "a session twice": _again("session"),
    "a session whose token is another's": _set("session", token="0" * 32),
    "a name of two sessions": _set("session", names=["n", "n"]),
    "a turn twice": _again("turn"),
    "a turn of a session that does not come before": _set("turn", session="nowhere"),
    "more turns than the session has had": _set("session", turn_count=2),
    "a run that belongs to no id": _set("turn", runs=[["0" * 64, 0]]),
    "a message twice": _again("message"),
    "a message of another turn": _set("message", turn=2),
    "more messages than the session has had": _set("session", message_count=1),
    "an entry whose id means none": _set("message", entries=[["=3", "remember"]]),
    "a record twice": _again("record"),
    "a record of no session": _last_record(session="nowhere"),
    "a record of no turn": _last_record(turn=["s", 99]),
    "a record that is superseded by nobody": _last_record(status="superseded", superseded_by="nobody"),
    "an active record that is superseded": _last_record(status="active", superseded_by="somebody"),
    "a source of another record": _set("record_source", record="nobody"),
    "a source that is no turn": _set("record_source", turn=["s", 99]),
    "a source twice": _again("record_source"),
    "an accepted run twice": _again("accepted_run"),
    "a tombstone twice": _again("tombstone"),
    "a tombstone that is not what it says": _set("tombstone", of="somebody"),
    "a line out of order": _move_session_to_the_end,
    "a recall of a message that is not there": _append({**LATE, "hits": [HIT]}),
    "a hit that names nothing": _append({**LATE, "hits": [{**HIT, "message": None}]}),
    "a score that is no number": _append({**LATE, "hits": [{**HIT, "score": "much"}]}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_line_that_is_wrong_is_named(exported: Lines, target: Memory, tmp_path: Path, what: str) -> None:
    """Whatever is wrong with one line, though counts and checksum fit: its number is told, and nothing is imported."""
    at = WRONG[what](exported)
    data = sealed(exported) if what != "a lone surrogate" else _escaped(exported)
    error = refused(target, tmp_path, data)
    named = {at + 1}
    if what.startswith("more "):  # what breaks the promise of the session's line comes later
        named = set(range(at + 2, len(exported) + 1))
    assert error.line in named, error.message


def _escaped(lines: Lines) -> bytes:
    header = {**lines[0]}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in [header, *lines[1:-1]])
    end = {"kind": "end", "lines": len(lines) - 1, "sha256": hashlib.sha256(data).hexdigest()}
    return data + json.dumps(end).encode() + b"\n"


RAW = {
    "not JSON": b"{broken",
    "not UTF-8": b'{"kind":"session","key":"\xff"}',
    "a byte order mark": b'\xef\xbb\xbf{"kind":"session"}',
    "a list": b'["kind"]',
    "an empty line": b"",
    "NaN": b'{"kind":"recall","at":NaN}',
    "infinity": b'{"kind":"recall","at":-Infinity}',
    "a number beyond all": b'{"kind":"recall","at":1e999}',
    "a number of many digits": b'{"kind":"recall","at":' + b"9" * 10_000 + b"}",
    "a name that comes twice": b'{"kind":"session","kind":"turn"}',
    "nesting that ends the interpreter's stack": b'{"kind":' + b"[" * 200_000,
    "deep nesting": b'{"kind":' + b"[" * 100 + b"]" * 100 + b"}",
}


@pytest.mark.parametrize("what", RAW)
def test_bytes_that_are_no_line_are_named(exported: Lines, target: Memory, tmp_path: Path, what: str) -> None:
    """Strict JSON and nothing else, whatever a reader of Python's would take."""
    lines = sealed(exported).splitlines(keepends=True)
    lines.insert(5, RAW[what] + b"\n")
    assert refused(target, tmp_path, b"".join(lines)).line == 6


def test_a_line_beyond_the_bound_is_refused_before_it_is_read(exported: Lines, target: Memory, tmp_path: Path) -> None:
    """One byte too many, and more than memory should hold."""
    lines = sealed(exported).splitlines(keepends=True)
    lines.insert(3, b'{"kind":"' + b"x" * limits.TRANSCRIPT_LINE_MAX_BYTES + b'"}\n')
    assert refused(target, tmp_path, b"".join(lines)).line == 4


def test_counts_and_checksum_must_fit(exported: Lines, target: Memory, tmp_path: Path) -> None:
    """A line that was taken out, put in or changed by anybody is noticed, also at the end and after it."""
    good = sealed(exported).splitlines(keepends=True)
    taken = refused(target, tmp_path, b"".join([*good[:4], *good[5:]]))
    assert taken.line is not None
    changed = [line.replace(b"town0", b"town7") for line in good]
    assert "checksum" in refused(target, tmp_path, b"".join(changed)).message
    assert refused(target, tmp_path, b"".join([*good, good[-1]])).line == len(good) + 1
    assert refused(target, tmp_path, b"".join([*good[:-1]])).line == len(good)
    assert refused(target, tmp_path, b"".join(good)[:-1]).line == len(good)
    more = [{**exported[0], "counts": {**exported[0]["counts"], "turn": 7}}, *exported[1:-1]]
    assert "fewer lines of kind turn" in refused(target, tmp_path, closed(more)).message
    fewer = [{**exported[0], "counts": {**exported[0]["counts"], "turn": 5}}, *exported[1:-1]]
    assert "more lines of kind turn" in refused(target, tmp_path, closed(fewer)).message


@pytest.mark.parametrize("at", [0.1, 0.5, 0.99])
def test_a_compressed_file_that_is_cut_is_refused(exported: Lines, target: Memory, tmp_path: Path, at: float) -> None:
    """Also where the cut falls between two lines: the compressed stream has not ended."""
    packed = gzip.compress(sealed(exported))
    assert refused(target, tmp_path, packed[: int(len(packed) * at)]).line is not None
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0x10
    assert refused(target, tmp_path, bytes(flipped)).line is not None


def test_a_file_of_something_else_is_told_apart(target: Memory, tmp_path: Path) -> None:
    """No export at all is another error than a bad one, and a newer version is told as such; a folder, a pipe and
    what is not there are wrong arguments."""
    path = tmp_path / "other"
    for data in (b"", b"plain text\n", b'{"role":"user","content":"x"}\n', b"[]\n"):
        path.write_bytes(data)
        assert not jsonl_files.is_export(path)
        with pytest.raises(errors.UnknownFormat):
            target.import_jsonl(path)
    path.write_bytes(b'{"kind":"header","format":"memory-sqlite-export","version":3,"new":1}\n')
    assert jsonl_files.is_export(path)
    with pytest.raises(errors.ExportInvalid, match="newer") as newer:
        target.import_jsonl(path)
    assert newer.value.hint == "Upgrade memory-sqlite."
    for wrong in (tmp_path, tmp_path / "absent"):
        with pytest.raises(errors.InvalidArgument):
            target.import_jsonl(wrong)


def test_a_file_that_changes_while_it_is_read_is_not_imported(exported: Lines, target: Memory, tmp_path: Path) -> None:
    """Between the check and the end of the import the bytes must be the same, or nothing of them is stored."""
    path = tmp_path / "a2.jsonl"
    path.write_bytes(sealed(exported))
    stages: list[str] = []

    def change(stage: str, done: int, total: int | None) -> None:
        if stage == "checking" and not stages:
            stages.append(stage)
            with path.open("r+b") as file:
                data = file.read()
                file.seek(data.index(b"town1"))
                file.write(b"town9")

    with pytest.raises(errors.ExportInvalid, match="changed while it was read"):
        target.import_jsonl(path, progress=change)
    assert stages == ["checking"]
    assert target.status()["turns"] == 0
