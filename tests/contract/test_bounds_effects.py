"""Every bound has an effect that can be seen through the door; the names and ranges are the layered product's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.config import Settings
from memory_sqlite.text.units import utf8_length, utf16_length

Opener = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path, workspace: Path) -> Opener:
    """Open the test's memory with the settings given."""

    @contextmanager
    def open_with(**settings: Any) -> Iterator[Memory]:
        with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace, **settings)) as memory:
            yield memory

    return open_with


def note(workspace: Path, name: str, text: str) -> None:
    (workspace / "memory" / f"{name}.md").write_text(text, encoding="utf-8")


def say(memory: Memory, text: str, **options: Any) -> Any:
    options = {"session": "s1", "chat_type": "direct", "sender_is_owner": True, **options}
    return memory.remember(messages=[{"role": "user", "content": text}], **options)


@pytest.fixture
def quillons(workspace: Path) -> list[str]:
    """Eight notes about quillons that say different things."""
    texts = [
        f"The {name} quillon is kept in the {place}, wrapped in {cloth}."
        for name, place, cloth in [
            ("first", "attic", "wool"), ("second", "cellar", "linen"), ("third", "garage", "felt"),
            ("fourth", "hallway", "canvas"), ("fifth", "kitchen", "silk"), ("sixth", "library", "paper"),
            ("seventh", "garden shed", "cotton"), ("eighth", "boathouse", "leather"),
        ]
    ]  # fmt: skip
    for number, text in enumerate(texts):
        note(workspace, f"q{number}", text + "\n")
    return texts


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 5),
        ({"auto_recall_max_results": 3}, 3),
        ({"auto_recall_max_results": 8, "max_search_results": 2}, 2),
        ({"auto_recall_max_results": 10}, 8),
    ],
)
def test_results_of_recall_are_bounded_by_both(
    opened: Opener, quillons: list[str], settings: dict[str, int], expected: int
) -> None:
    with opened(**settings) as memory:
        block = memory.recall("where is the quillon?")
        assert len(block.hits) == expected
        assert block.text.count("\n- [") == expected


def test_the_operators_own_search_is_not_capped_by_max_search_results(opened: Opener, quillons: list[str]) -> None:
    with opened(max_search_results=2) as memory:
        assert len(memory.search("quillon").hits) == 6
        assert len(memory.search("quillon", max_results=8).hits) == 8
        with pytest.raises(errors.InvalidArgument, match="max_results"):
            memory.search("quillon", max_results=101)


@pytest.mark.parametrize("chars", [256, 300, 451, 4_000])
def test_auto_recall_max_chars_counts_utf16_units_of_the_whole_block(
    opened: Opener, workspace: Path, chars: int
) -> None:
    note(workspace, "emoji", "quillon " + "\U0001f468\u200d\U0001f469\u200d\U0001f467 " * 60 + "\n")
    note(workspace, "words", "quillon " + "notes about the old wooden boat " * 20 + "\n")
    with opened(auto_recall_max_chars=chars) as memory:
        block = memory.recall("quillon")
    assert block.reason == "ok"
    assert utf16_length(block.text) <= chars
    assert utf16_length(block.text) > chars * 0.6 or len(block.hits) == 2
    assert block.text.endswith("</memory_sqlite_context>")


def test_context_max_tokens_counts_bytes_and_replaces_the_characters(opened: Opener, workspace: Path) -> None:
    note(workspace, "cjk", "quillon " + "旧船的记录在阁楼里。" * 60 + "\n")
    with opened(context_max_tokens=1_500, auto_recall_max_chars=256) as memory:
        block = memory.recall("quillon")
        assert 1_000 < utf8_length(block.text) <= 1_500
    with opened(context_max_tokens=300) as memory:
        assert 200 < utf8_length(memory.recall("quillon").text) <= 300
    for too_small in (0, 1, 100):
        with opened(context_max_tokens=too_small) as memory:
            block = memory.recall("quillon")
            assert (block.text, block.hits, block.reason) == ("", (), "nothing")


@pytest.mark.parametrize("tokens", [400, 700, 1_000, 1_600, 2_500])
def test_context_max_tokens_counts_the_bytes_of_all_items(opened: Opener, workspace: Path, tokens: int) -> None:
    """Six items of three bytes a character: none is shown at a third of its price."""
    for number, stone in enumerate("金银铜铁锡铅"):
        note(workspace, f"cjk{number}", f"quillon {stone}" + f"{stone}的记录在阁楼里。" * 12)
    with opened(context_max_tokens=tokens) as memory:
        block = memory.recall("quillon")
    assert tokens * 0.6 < utf8_length(block.text) <= tokens
    assert len(block.hits) > 1 or tokens < 1_000


def test_auto_recall_off_recalls_nothing(opened: Opener, quillons: list[str]) -> None:
    with opened(auto_recall=False) as memory:
        assert memory.recall("quillon").reason == "disabled"
        assert memory.search("quillon").hits


def test_max_read_lines_bounds_every_get(opened: Opener, workspace: Path) -> None:
    note(workspace, "long", "".join(f"line {number}\n" for number in range(1, 31)))
    with opened(max_read_lines=4) as memory:
        for lines in (None, 4, 100):
            passage = memory.get("memory/long.md", lines=lines)
            assert (passage.text, passage.lines) == ("line 1\nline 2\nline 3\nline 4\n", 4)
            assert (passage.truncated, passage.next_from) == (True, 5)
        assert memory.get("memory/long.md", from_line=5, lines=2).text == "line 5\nline 6\n"
    with opened(max_read_lines=2_000) as memory:
        assert memory.get("memory/long.md").lines == 30


def test_a_get_of_a_transcript_is_bounded_in_characters_and_read_on(opened: Opener) -> None:
    """Whole messages as long as they fit; one that is longer than an answer is cut and read on where it was cut."""
    said = [f"quillon{number} " + chr(97 + number) * 5_000 for number in range(5)] + ["\U0001f6a3" * 9_000]
    with opened() as memory:
        for number, text in enumerate(said):
            say(memory, text, run_id=str(number))
        path = f"sessions/{memory.sessions()[0]['token']}"
        parts, start, offset = [], 1, 0
        while True:
            passage = memory.get(path, from_line=start, offset=offset)
            assert utf16_length(passage.text) <= limits.GET_MAX_CHARS
            parts.append(passage.text)
            if not passage.truncated:
                break
            assert passage.next_from is not None
            start, offset = passage.next_from, passage.next_offset
        assert "".join(parts) == "".join(f"user: {text}\n" for text in said)
        assert len(parts) == 5


def test_extraction_interval_says_on_which_turn_a_scenario_is_made(opened: Opener) -> None:
    texts = [
        "The attic roof leaks near the chimney.", "A roofer called Ines comes on Monday.",
        "She wants the ladder and the tarp.", "The tarp is in the boathouse.",
    ]  # fmt: skip
    with opened(extraction_interval=2) as memory:
        assert [say(memory, text, run_id=text).scenarios for text in texts] == [0, 1, 0, 1]
    with opened(extraction_interval=3) as memory:
        assert [say(memory, text, session="s2", run_id=text).scenarios for text in texts] == [0, 0, 1, 0]


def test_max_record_bytes_bounds_one_message(opened: Opener) -> None:
    too_long = "quillon " * 200
    # the record as the host wrote it counts, with its role and braces
    fits = "quillon " * 124 + "x" * (1_024 - 8 * 124 - len('{"role":"user","content":""}'))
    with opened(max_record_bytes=1_024) as memory:
        assert say(memory, fits).status == "stored"
        with pytest.raises(errors.RecordTooLarge, match="bytes"):
            say(memory, fits + "x", run_id="longer")
        with pytest.raises(errors.RecordTooLarge, match="bytes"):
            say(memory, too_long)
        assert memory.status()["messages"] == 1
        receipt = say(memory, too_long, oversize="truncate")
        assert (receipt.status, receipt.shortened) == ("stored", 1)
        stored = memory.get(memory.search("quillon", sources=["sessions"]).hits[0].reference)
        assert len(stored.text.encode()) < 2 * 1_024 + 200
    with opened(max_record_bytes=2_048) as memory:
        assert say(memory, too_long, session="s2").status == "stored"


def test_max_search_bytes_bounds_the_text_read_and_keeps_the_best(opened: Opener) -> None:
    filler = " ".join(f"plank{number}" for number in range(6_500))
    assert 50_000 < len(filler) < 65_000
    with opened(max_search_bytes=1024 * 1024) as memory:
        for number in range(30):
            say(memory, f"quillon {number} {filler}", session=f"long{number}", run_id="r")
        say(memory, "I love quillon fencing.", session="fact", run_id="r")
        say(memory, "The quillon quillon is the quillon of quillons.", session="best", run_id="r")
        page = memory.search("quillon", max_results=30)
        assert page.coverage == "partial"
        assert {"fact", "best"} <= {hit.session for hit in page.hits[:4]}
        assert any(hit.layer == "L3" for hit in page.hits)
        assert memory.search("quillon fencing", max_results=1).hits[0].session == "fact"
    with opened(max_search_bytes=64 * 1024 * 1024) as memory:
        assert memory.search("quillon", max_results=30).coverage == "complete"


def test_max_search_bytes_starves_neither_the_newest_nor_the_best(opened: Opener) -> None:
    """Thirty long old messages hold the word more often; the newest, just as long, is read all the same."""
    filler = " ".join(f"plank{number}" for number in range(6_300))
    assert 30 * len(filler) > 1024 * 1024
    with opened(max_search_bytes=1024 * 1024) as memory:
        for number in range(30):
            text = f"quillon quillon quillon number{number} {filler}"
            messages = [{"role": "user", "content": text, "at": f"2025-01-{number + 1:02d}T10:00:00Z"}]
            memory.remember(session=f"old{number}", messages=messages, run_id="r")
        messages = [{"role": "user", "content": f"{filler} one quillon", "at": "2026-02-01T10:00:00Z"}]
        memory.remember(session="newest", messages=messages, run_id="r")
        memory.remember(session="best", messages=[{"role": "user", "content": "The quillon."}], run_id="r")
        page = memory.search("quillon", max_results=40, sources=["sessions"])
        assert page.coverage == "partial"
        assert len(page.hits) < 32
        assert page.hits[0].session == "best"
        assert "newest" in {hit.session for hit in page.hits}


def test_profile_scope_decides_over_the_owners_facts_outside_direct_chats(tmp_path: Path) -> None:
    for scope, seen in (("session", False), ("agent", True)):
        settings = Settings(data_dir=tmp_path / scope, profile_scope=scope)  # type: ignore[arg-type]
        with Memory.open(settings=settings) as memory:
            say(memory, "Hello.", session="direct")
            say(memory, "I love quillons.", session="group", chat_type="group")
            assert bool(memory.search("quillons", session="direct", layers=["L3"]).hits) is seen
            assert memory.search("quillons", session="group", layers=["L3"]).hits


def test_disabled_answers_so_and_opens_and_creates_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Memory.open(settings=Settings(enabled=False, data_dir=data, workspace=tmp_path / "none")) as memory:
        assert say(memory, "I love quillons.").status == "disabled"
        assert memory.index().status == "disabled"
        assert memory.search("quillon").disabled
        assert memory.get("MEMORY.md").status == "disabled"
        assert memory.recall("quillon").reason == "disabled"
        assert memory.import_transcripts([tmp_path / "none.jsonl"]).status == "disabled"
        assert memory.import_layered(tmp_path).status == "disabled"
        assert memory.sessions() == []
        assert memory.status()["status"] == "disabled"
    assert not data.exists()


def test_the_disabled_command_line_answers_with_exit_0(tmp_path: Path) -> None:
    environment = {**os.environ, "MEMORY_SQLITE_ENABLED": "false", "HOME": str(tmp_path)}
    for command in (["search", "quillon"], ["recall", "quillon"], ["status"], ["index"], ["get", "MEMORY.md"]):
        done = subprocess.run(
            [sys.executable, "-m", "memory_sqlite", command[0], "--json", "--data-dir", "data", *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert "disabled" in json.dumps(json.loads(done.stdout)), command
    assert not (tmp_path / "data").exists()
