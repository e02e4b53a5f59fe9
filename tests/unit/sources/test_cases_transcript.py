"""Cases of kind transcript-parse, at the level of the reader: the importer's own tests add storing and searching."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from memory_sqlite.sources.transcript_formats.items import Ignored, Item, Refused, Spoken
from memory_sqlite.sources.transcript_formats.transcript import open_transcript

HEADER = '{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}\n'


def entry(entry_id: str, blocks: str, role: str = "user") -> str:
    return (
        f'{{"type":"message","id":"{entry_id}","timestamp":"2026-03-01T10:00:00.000Z",'
        f'"message":{{"role":"{role}","content":{blocks}}}}}'
    )


def text_entry(entry_id: str, text: str, role: str = "user") -> str:
    return entry(entry_id, f'[{{"type":"text","text":"{text}"}}]', role)


def read(folder: Path, content: str | bytes) -> list[Item]:
    path = folder / "sessions" / "s-001.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return list(open_transcript(path, redact=False))


def spoken(items: list[Item]) -> dict[str, Spoken]:
    return {str(item.message.host_id): item for item in items if isinstance(item, Spoken)}


def refused(items: list[Item]) -> list[int]:
    return [item.line for item in items if isinstance(item, Refused)]


def test_case_C040_tool_results_in_every_form_and_no_base64(tmp_path: Path) -> None:
    image = "iVBORw0KGgoAAAANSUhEUgAA" + "A" * 400
    nested = "QUJD" * 100
    items = read(
        tmp_path,
        HEADER
        + entry("m1", '[{"type":"tool_result","tool_use_id":"t1","content":"plain result granite"}]')
        + "\n"
        + entry(
            "m2",
            '[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"list result marble"},'
            '{"type":"text","text":"second part slate"}]}]',
        )
        + "\n"
        + entry("m3", '[{"type":"tool_result","tool_use_id":"t3","content":null}]')
        + "\n"
        + entry(
            "m4",
            f'[{{"type":"image","data":"{image}","mimeType":"image/png"}},'
            '{"type":"text","text":"see the picture of gneiss"}]',
        )
        + "\n"
        + entry(
            "m5",
            f'[{{"type":"tool_result","tool_use_id":"t5","content":[{{"type":"image","source":{{"data":"{nested}"}}}}]}}]',
        )
        + "\n",
    )
    said = spoken(items)
    assert list(said) == ["m1", "m2", "m3", "m4", "m5"] and not refused(items)
    assert said["m4"].message.text == "see the picture of gneiss"
    # policy: tool output is kept and marked, the same for the string and the list form, so that no index takes it
    assert [said[key].message.is_tool_output for key in said] == [True, True, True, False, True]
    assert said["m1"].message.text == "plain result granite"
    assert said["m2"].message.text == "list result marble\nsecond part slate"
    assert said["m3"].message.text == said["m5"].message.text == ""
    assert '"data":"[base64:318]"' in said["m4"].message.raw
    assert '"data":"[base64:300]"' in said["m5"].message.raw
    for item in said.values():
        assert "iVBORw0KGgo" not in item.message.raw + item.message.text


def test_case_C042_a_half_written_last_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    start = HEADER + text_entry("m1", "first granite") + "\n"
    second = text_entry("m2", "second marble")
    first_run = read(tmp_path, start + second[:70])
    path = tmp_path / "sessions" / "s-001.jsonl"
    before = path.read_bytes()
    transcript = open_transcript(path, redact=False)
    assert list(transcript) == first_run and transcript.pending == 3
    assert list(spoken(first_run)) == ["m1"] and not refused(first_run)
    assert path.read_bytes() == before
    grown = read(tmp_path, start + second + "\n" + text_entry("m3", "third slate") + "\n")
    assert [item.message.text for item in spoken(grown).values()] == ["first granite", "second marble", "third slate"]
    assert spoken(grown)["m1"] == spoken(first_run)["m1"]
    assert read(tmp_path, path.read_bytes()) == grown


def test_case_C044_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    items = read(
        tmp_path,
        HEADER
        + "\n".join(
            [
                text_entry("m1", "pasted\u2028granite text"),
                text_entry("m2", "next\u0085marble text"),
                text_entry("m3", "page\\u000cslate"),
            ]
        )
        + "\n",
    )
    assert [item.message.text for item in spoken(items).values()] == [
        "pasted\u2028granite text",
        "next\u0085marble text",
        "page\x0cslate",
    ]
    assert not refused(items)


def test_case_C046_nul_padding_and_nul_in_text_lose_nothing(tmp_path: Path) -> None:
    items = read(
        tmp_path,
        (HEADER + text_entry("m1", "before granite") + "\n").encode()
        + b"\0" * 64
        + b"\n"
        + (text_entry("m2", "left\\u0000right marble") + "\n").encode()
        + b"\0" * 32
        + (text_entry("m3", "after slate") + "\n").encode(),
    )
    said = spoken(items)
    assert list(said) == ["m1", "m2", "m3"]
    assert said["m2"].message.text == "left\0right marble"
    assert "\\u0000" in said["m2"].message.raw and json.loads(said["m2"].message.raw)["id"] == "m2"
    assert refused(items) == [3]


def test_case_C048_one_answer_in_several_lines_is_one_message(tmp_path: Path) -> None:
    def part(uuid: str, time: str, block: str) -> str:
        return (
            f'{{"type":"assistant","uuid":"{uuid}","timestamp":"{time}",'
            f'"message":{{"id":"msg_1","role":"assistant","content":[{block}]}}}}\n'
        )

    items = read(
        tmp_path,
        HEADER
        + part("u1", "2026-03-01T10:00:00Z", '{"type":"thinking","thinking":"hidden plan obsidian"}')
        + part("u2", "2026-03-01T10:00:00Z", '{"type":"text","text":"visible part granite"}')
        + part("u3", "2026-03-01T10:00:00Z", '{"type":"tool_use","id":"t1","name":"read","input":{"path":"a.md"}}')
        + part("u4", "2026-03-01T10:00:01Z", '{"type":"text","text":"closing part marble"}'),
    )
    (answer,) = spoken(items).values()
    assert answer.session.key == "s-001"
    assert answer.message.host_id == "msg_1" and answer.message.entry_ids == ("u1", "u2", "u3", "u4")
    assert answer.message.text == "visible part granite\nclosing part marble"
    # hidden reasoning is in no searchable text; it stays in the raw record
    assert "obsidian" not in answer.message.text and "obsidian" in answer.message.raw


def test_case_C050_odd_lines_cost_only_themselves(tmp_path: Path) -> None:
    items = read(
        tmp_path,
        HEADER
        + "\n".join(
            [
                text_entry("m1", "granite"),
                "null",
                "[]",
                '"text"',
                "42",
                "{}",
                '{"type":"summary","leaf":"x"}',
                "[" * 100_000 + "]" * 100_000,
                '{"type":"message","id":"mB","n":' + "7" * 5_000 + "}",
                '{"a":NaN}',
                '{"type":"message","id":"mD","id":"mD2","message":{"role":"user","content":"dup key marble"}}',
                text_entry("m3", "slate"),
            ]
        )
        + "\n",
    )
    said = spoken(items)
    assert [item.message.text for item in said.values()] == ["granite", "dup key marble", "slate"]
    assert list(said) == ["m1", "mD2", "m3"]  # of a repeated key the last wins
    assert refused(items) == [3, 4, 5, 6, 9, 10]
    assert {item.line for item in items if isinstance(item, Ignored)} == {1, 7, 8, 11}


def test_case_C052_glued_and_damaged_lines_are_recovered_and_counted(tmp_path: Path) -> None:
    content = (
        '{"type":"session","id":"s-0\n'
        + text_entry("m1", "first granite")
        + text_entry("m2", "glued marble")
        + "\n"
        + text_entry("m3", "third slate", "assistant")
        + '\n{"type":"message","id":"m4","message":{"role":"user","cont'
        + text_entry("m5", "after a cut gneiss")
        + "\n"
    )
    before = hashlib.sha256(content.encode()).hexdigest()
    items = read(tmp_path, content)
    assert list(spoken(items)) == ["m1", "m2", "m3", "m5"]
    assert {item.session.key for item in spoken(items).values()} == {"s-001"}
    assert refused(items) == [1, 4]
    path = tmp_path / "sessions" / "s-001.jsonl"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
