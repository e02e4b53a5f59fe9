"""The tolerant line reader: offsets, ends of lines, bounds, compression."""

from __future__ import annotations

import gzip
import itertools
import os
import time
from pathlib import Path

import pytest

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument
from memory_sqlite.sources.jsonl import Line, read_lines


def lines_of(folder: Path, data: bytes) -> list[Line]:
    path = folder / "a.jsonl"
    path.write_bytes(data)
    return list(read_lines(path))


def test_offsets_cover_the_file_and_reading_on_from_one_gives_the_rest(tmp_path: Path) -> None:
    data = '\ufeff{"a":1}\r\n\n{"b":"é"}\n{"c":3}'.encode()
    lines = lines_of(tmp_path, data)
    assert [line.values for line in lines] == [[{"a": 1}], [], [{"b": "é"}], [{"c": 3}]]
    assert [line.number for line in lines] == [1, 2, 3, 4]
    assert lines[0].offset == 0 and lines[-1].end_offset == len(data)
    assert all(before.end_offset == after.offset for before, after in itertools.pairwise(lines))
    assert list(read_lines(tmp_path / "a.jsonl", offset=lines[2].offset, line=3)) == lines[2:]


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, b'{"a":"x\xff\xfey \xef\xbf\xbd"}\n')
    assert line.values == [{"a": "x\ufffd\ufffdy \ufffd"}] and line.replaced == 2 and line.problem is None


def test_a_line_over_the_bound_is_refused_with_its_number_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSCRIPT_LINE_MAX_BYTES", 1_000)
    exact = b'"' + b"x" * 998 + b'"\n'
    lines = lines_of(tmp_path, exact + b'"' + b"x" * 999 + b'"\n' + b'{"a":1}\n' + b"y" * 5_000)
    assert [(line.number, line.problem is None, line.complete) for line in lines] == [
        (1, True, True),
        (2, False, True),
        (3, True, True),
        (4, True, False),
    ]
    assert lines[2].values == [{"a": 1}]


@pytest.mark.parametrize(
    ("data", "values", "problem"),
    [
        (b'{"a":1}{"b":2} {"c":3}\n', [{"a": 1}, {"b": 2}, {"c": 3}], False),
        (b'{"a":1}\0\0{"b":2}\0\n', [{"a": 1}, {"b": 2}], False),
        (b'tail of a torn record"}]}}{"b":2}\n', [{"b": 2}], True),
        # the inner object of a torn record is not a record
        (b'{"m":[{"x":1},{"x":2},{"x"\n', [], True),
        (b'{"a":1}{"m":{"x":1},"y\n', [{"a": 1}], True),
        (b"\0\0\0\n", [], True),
        (b" \t \n", [], False),
    ],
)
def test_damaged_lines_give_what_can_be_had(tmp_path: Path, data: bytes, values: list[object], problem: bool) -> None:
    (line,) = lines_of(tmp_path, data)
    assert line.values == values and (line.problem is not None) is problem and line.complete


@pytest.mark.parametrize("tail", [b'{"a":', b'{"a":1}{"b"', b"\0\0\0", b"  ", b"[" * 100_000])
def test_an_unfinished_last_line_is_neither_consumed_nor_an_error(tmp_path: Path, tail: bytes) -> None:
    lines = lines_of(tmp_path, b'{"x":1}\n' + tail)
    assert not lines[1].complete and lines[1].values == [] and lines[1].problem is None and lines[1].offset == 8


def test_a_hostile_damaged_line_costs_linear_time(tmp_path: Path) -> None:
    started = time.process_time()
    for piece in (b'{"a":', b'{"a":[', b'{"', b'{"a":1},', b"x{"):
        lines_of(tmp_path, piece * (2 * limits.MIB // len(piece)) + b"\n")
    assert time.process_time() - started < 8.0


def test_gzip_is_read_and_a_damaged_one_ends_with_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    data = gzip.compress(b'{"a":1}\n' + b'{"b":"' + os.urandom(40_000).hex().encode() + b'"}\n')
    path.write_bytes(data)
    assert [len(line.values) for line in read_lines(path)] == [1, 1]
    path.write_bytes(data[: len(data) // 2])
    assert list(read_lines(path))[-1].problem is not None


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="not a regular file"):
        list(read_lines(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match="not a regular file"):
        list(read_lines(tmp_path / "pipe"))
    with pytest.raises(FileNotFoundError):
        list(read_lines(tmp_path / "absent"))
