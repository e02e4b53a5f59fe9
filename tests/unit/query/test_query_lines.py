"""Lines of JSONL files as rows: odd ones too, across blocks, compressed, with numbers that are those of the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument

from .query_kit import Answer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ODD = [
    (b'{"a":1}', None, 1),
    (b'{"a":', "not valid JSON", None),
    (b'{"a":NaN}', "NaN or Infinity, which JSON does not know", None),
    (b'{"a":1,"a":2}', "a key appears twice", 2),
    (b'{"a":"\xff"}', "bytes that are not UTF-8", "\ufffd"),
    (b"\0\0\0", "only NUL bytes", None),
    (b"[1,2]", None, None),
    (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply", None),
    (b'{"a":' + b"9" * 5_000 + b"}", "a number has too many digits", None),
    (b'{"a":1}{"a":2}', "not valid JSON", None),
    (b'  {"a":3} \r', None, 3),
    (b'{"a":"\\ud800x"}', None, "\ufffdx"),
    (b'{"a":"\\ud83d\\ude00"}', None, "\U0001f600"),
    (b'{"a":123456789012345678901234567890}', None, "123456789012345678901234567890"),
    (b'{"a":true}', None, 1),
    (b'{"a":null}', None, None),
    (b'{"a":{"b":[1, 2.5]}}', None, '{"b":[1,2.5]}'),
    ('{"a":"x\u2028y\x85z"}'.encode(), None, "x\u2028y\x85z"),
]


def test_odd_lines_are_rows_with_their_error(place: Path) -> None:
    """Each line of a kind: its number, its error, its value; none stops the reading."""
    (place / "odd.jsonl").write_bytes(b"".join(line + b"\n" for line, _, _ in ODD))
    rows = Answer("SELECT line, error, a FROM jsonl('odd.jsonl')").rows
    assert rows == [(number, error, value) for number, (_, error, value) in enumerate(ODD, 1)]
    assert Answer("SELECT value FROM jsonl('odd.jsonl') WHERE line = 3").rows == [(None,)], "NaN is no JSON"
    without = Answer("SELECT line, a FROM jsonl('odd.jsonl')").rows
    assert without == [(line, value) for line, _, value in rows], "asking for the error changes no value"


def test_raw_and_value(place: Path) -> None:
    """``raw`` is the line, ``value`` its JSON, which SQLite's own functions take."""
    (place / "r.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1} \r\nnope\n\n{"b":{"c":"d"}}')
    rows = Answer("SELECT line, raw, value, value ->> '$.b.c' FROM jsonl('r.jsonl')").rows
    assert rows == [
        (1, '{"a": 1} ', '{"a": 1}', None),
        (2, "nope", None, None),
        (4, '{"b":{"c":"d"}}', '{"b":{"c":"d"}}', "d"),
    ]


def test_a_torn_last_line_says_so(place: Path) -> None:
    (place / "t.jsonl").write_bytes(b'{"a":1}\n{"a":')
    assert Answer("SELECT line, error FROM jsonl('t.jsonl')").rows[1] == (
        2,
        "not valid JSON: the last line has no end",
    )


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_blocks_of_any_size_give_the_same_lines(place: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Lines that lie across blocks, empty ones, the last one without an end; with a condition pushed down or not."""
    lines = [
        json.dumps({"n": number, "t": "x" * (number % 23), "k": "ab" if number % 5 else "zz"}) for number in range(60)
    ]
    lines[7:7] = ["", "   "]
    (place / "b.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr(limits, "QUERY_BLOCK_BYTES", block)
    expected = [(at, json.loads(line)["n"]) for at, line in enumerate(lines, 1) if line.strip()]
    assert Answer("SELECT line, n FROM jsonl('b.jsonl')").rows == expected
    chosen = [(at, n) for at, n in expected if not n % 5]
    for condition in ("k = 'zz'", "raw LIKE '%ZZ%'", "raw GLOB '*zz*'", "k IN ('zz', 'yy')", "+k = 'zz'"):
        assert Answer(f"SELECT line, n FROM jsonl('b.jsonl') WHERE {condition}").rows == chosen, condition


def test_long_lines(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line over the bound is a row without text, the others keep their numbers; one of exactly the bound is whole."""
    monkeypatch.setattr(limits, "TRANSCRIPT_LINE_MAX_BYTES", 1_000)
    monkeypatch.setattr(limits, "QUERY_BLOCK_BYTES", 64)
    fits = b'{"a":"' + b"y" * (1_000 - 9) + b'"}'
    (place / "l.jsonl").write_bytes(b'{"a":1}\n' + b"x" * 5_000 + b"\n" + fits + b"\n" + b"z" * 2_000)
    rows = Answer("SELECT line, length(raw), error IS NOT NULL FROM jsonl('l.jsonl')").rows
    assert rows == [(1, 7, 0), (2, None, 1), (3, 999, 0), (4, None, 1)]


def test_a_line_of_ten_megabytes(place: Path) -> None:
    (place / "m.jsonl").write_text(json.dumps({"a": "b" * 10_000_000}) + '\n{"a":"c"}\n')
    assert Answer("SELECT line, length(a) FROM jsonl('m.jsonl')").rows == [(1, 10_000_000), (2, 1)]


def test_gzip_and_zstd_by_their_first_bytes(place: Path) -> None:
    """Whatever the name; several frames of zstd and members of gzip are one file."""
    zstandard = pytest.importorskip("zstandard")
    text = b"".join(b'{"n":%d}\n' % number for number in range(1_000))
    (place / "a.jsonl").write_bytes(gzip.compress(text[:4_000]) + gzip.compress(text[4_000:]))
    pack = zstandard.ZstdCompressor().compress
    (place / "b.jsonl").write_bytes(pack(text[:4_000]) + pack(text[4_000:]))
    (place / "c.jsonl").write_bytes(text)
    rows = Answer("SELECT file, count(*), sum(n), max(line) FROM jsonl('?.jsonl') GROUP BY file").rows
    assert [row[1:] for row in rows] == [(1_000, 499_500, 1_000)] * 3


def test_damaged_compression_is_a_row(place: Path) -> None:
    """What could be read is given, then the error."""
    zstandard = pytest.importorskip("zstandard")
    text = b"".join(b'{"n":%d}\n' % number for number in range(100_000))
    (place / "a.jsonl").write_bytes(gzip.compress(text)[:-1_000])
    data = bytearray(zstandard.ZstdCompressor().compress(text))
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    (place / "b.jsonl").write_bytes(data)
    for name in ("a", "b"):
        rows = Answer(f"SELECT error, raw IS NULL, count(*) FROM jsonl('{name}.jsonl') GROUP BY 1 ORDER BY 1").rows
        assert ("the compressed data ends early or is damaged", 1, 1) in rows


def test_what_comes_before_damage_is_given(place: Path) -> None:
    """Also where both lie in one block."""
    (place / "g.jsonl").write_bytes(gzip.compress(b'{"n":1}\n') + b"garbage")
    rows = Answer("SELECT line, raw, error FROM jsonl('g.jsonl')").rows
    damaged = (2, None, "the compressed data ends early or is damaged")
    assert rows == [(1, '{"n":1}', None), damaged]
    zstandard = pytest.importorskip("zstandard")
    (place / "z.jsonl").write_bytes(zstandard.ZstdCompressor().compress(b'{"n":1}\n') + b"garbage")
    assert Answer("SELECT line, raw, error FROM jsonl('z.jsonl')").rows == rows


def test_zstd_that_ends_early_is_told(place: Path) -> None:
    """Also at the end of a line, where what is there looks whole; frames that are empty or hold no data end nothing."""
    zstandard = pytest.importorskip("zstandard")
    part = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compressobj()
    begun = part.compress(b'{"n":1}\n') + part.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    whole = begun + part.flush()
    pack = zstandard.ZstdCompressor().compress
    no_data = b"\x5a\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"x" * 9
    long = pack(b'{"n":3}' + b" " * 500_000 + b"\n")
    for name, data in (
        ("early", begun),
        ("whole", whole),
        ("many", pack(b"") + whole + no_data + pack(b'{"n":2}\n') + pack(b"") + long),
        ("torn", whole + no_data[:6]),
        ("long", long[:-1]),
    ):
        (place / f"{name}.jsonl").write_bytes(data)
    early = (None, "the compressed data ends early or is damaged")
    for name, expected in (
        ("early", [(1, None), early]),
        ("whole", [(1, None)]),
        ("many", [(1, None), (2, None), (3, None)]),
        ("torn", [(1, None), early]),
        ("long", [early]),
    ):
        rows = Answer(f"SELECT value ->> '$.n', error FROM jsonl('{name}.jsonl')").rows
        assert rows[-len(expected) :] == expected, name


def test_half_a_character_in_json(place: Path) -> None:
    """``value`` is JSON of which SQLite's functions make a text; whole characters and backslashes stay."""
    (place / "h.jsonl").write_text(r'{"a":"\\ud800 \ud83d\ude00 \ud800\\","b":"\udc00\uD83Dx"}' + "\n")
    rows = Answer("SELECT value ->> '$.a', value ->> '$.b', a, b FROM jsonl('h.jsonl')").rows
    said = ("\\ud800 \U0001f600 \ufffd\\", "\ufffd\ufffdx")
    assert rows == [said + said]
    assert Answer("SELECT error, value ->> '$.b' FROM jsonl('h.jsonl')").rows == [(None, said[1])]
    assert len(Answer("SELECT line FROM jsonl('h.jsonl') WHERE value LIKE '%fffdx%'").rows) == 1


def test_a_bomb_costs_no_memory(place: Path) -> None:
    """What is unpacked is read in blocks: a line without an end is given up at the bound, and passed over."""
    tail = gzip.compress(b"x" * (1 << 20))
    (place / "bomb.jsonl").write_bytes(tail * 64)
    rows = Answer("SELECT line, error, raw FROM jsonl('bomb.jsonl')").rows
    assert rows == [(1, "longer than 16777216 bytes", None)]


def test_keys_become_columns(place: Path) -> None:
    """Of the sample, named ones first; what is taken, spelt alike or too late is reached through ``value``."""
    (place / "k.jsonl").write_text('{"b":1,"Error":2,"B":3,"odd name \\"x":4,"":5}\n{"late":{"in":6}}\n')
    answer = Answer("SELECT * FROM jsonl('k.jsonl')")
    assert answer.columns == ("file", "line", "raw", "value", "error", "b", 'odd name "x', "late")
    named = Answer("SELECT \"late.in\", value ->> '$.Error', value ->> '$.B' FROM jsonl('k.jsonl', 'late.in')")
    assert named.rows == [(None, 2, 3), (6, None, None)]
    with pytest.raises(InvalidArgument, match="fixed"):
        Answer("SELECT 1 FROM jsonl('k.jsonl', 'raw')")


def test_many_keys(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns beyond the 63rd, which SQLite reports together, are read right; beyond the bound it is said."""
    (place / "w.jsonl").write_text(json.dumps({f"k{number}": number for number in range(150)}) + "\n")
    assert Answer("SELECT k0, k57, k58, k59, k149 FROM jsonl('w.jsonl')").rows == [(0, 57, 58, 59, 149)]
    plan = Answer("SELECT k149 FROM jsonl('w.jsonl')", explain=True).summary.plan
    assert any("are parsed" in line for line in plan)
    monkeypatch.setattr(limits, "QUERY_PROMOTED_MAX", 3)
    answer = Answer("SELECT * FROM jsonl('w.jsonl')")
    assert answer.columns[5:] == ("k0", "k1", "k2")
    assert any("More keys" in said for said in answer.summary.remarks)


def test_the_sample_is_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUERY_SAMPLE_BYTES", 100)
    (place / "s.jsonl").write_text('{"a":1}\n' * 50 + '{"z":1}\n')
    assert Answer("SELECT * FROM jsonl('s.jsonl')").columns[5:] == ("a",)
    assert Answer("SELECT sum(z) FROM jsonl('s.jsonl', 'z')").rows == [(1,)]


def test_patterns_from_another_table(place: Path) -> None:
    """The five columns, for a pattern that is known only while it runs."""
    for name in ("a", "b"):
        (place / f"{name}.jsonl").write_text(f'{{"n":"{name}"}}\n')
    sql = "SELECT j.value ->> '$.n' FROM (SELECT 'b.jsonl' AS p UNION ALL SELECT 'a.jsonl') f, jsonl(f.p) j"
    assert Answer(sql).rows == [("b",), ("a",)]
    with pytest.raises(InvalidArgument, match="no file"):
        Answer("SELECT 1 FROM (SELECT 'x' AS p) f, jsonl(f.p)")


def test_order_and_lines_are_pushed_down(place: Path) -> None:
    """Sorted files need no sorter, files and lines outside are not read."""
    for name in ("b", "a", "c"):
        (place / f"{name}.jsonl").write_text("".join(f'{{"n":{number}}}\n' for number in range(100)))
    answer = Answer("SELECT file, line FROM jsonl('*.jsonl') ORDER BY file, line LIMIT 2")
    assert answer.rows == [(str(place / "a.jsonl"), 1), (str(place / "a.jsonl"), 2)]
    assert answer.summary.files == 1
    plan = Answer("SELECT line FROM jsonl('*.jsonl') ORDER BY file, line", explain=True).summary.plan
    assert not any("ORDER BY" in line for line in plan)
    assert Answer("SELECT line FROM jsonl('*.jsonl') ORDER BY line DESC LIMIT 1").rows == [(100,)]
    one = Answer("SELECT n FROM jsonl('*.jsonl') WHERE file = ? AND line BETWEEN 5 AND 6", (str(place / "c.jsonl"),))
    assert (one.rows, one.summary.files) == ([(4,), (5,)], 1)
    assert Answer("SELECT n FROM jsonl('a.jsonl') WHERE line > 98.5 AND line <> 100").rows == [(98,)]


def test_explain_shows_what_is_pushed_down(place: Path) -> None:
    """Whether lines are parsed, what skips them; no value of the query."""
    (place / "e.jsonl").write_text('{"level":"granite","n":1}\n')
    sql = "SELECT line FROM jsonl('e.jsonl') WHERE level = 'granite' AND line < 9"
    plan = "\n".join(Answer(sql, explain=True).summary.plan)
    assert "lines are parsed" in plan
    assert "condition line <: lines outside are skipped" in plan
    assert "granite" not in plan
    names = '"a VIRTUAL TABLE INDEX 0:{}", (VALUES (1)) "b VIRTUAL TABLE INDEX 0:{x}"'
    assert Answer(f"SELECT 1 FROM (SELECT 1 UNION SELECT 2) {names}", explain=True).summary.plan
    assert "not parsed" in "\n".join(Answer("SELECT raw FROM jsonl('e.jsonl')", explain=True).summary.plan)
