"""Rules 100 to 102 of the list in ``architecture.md``, seen through the index: what a note's chunks are and say."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import apsw.unicode as unicode_data
import pytest

from memory_sqlite import Memory

WORDS = [
    "basalt",
    "茶を飲む",
    "e\u0301tude",
    "👨‍👩‍👧‍👦",
    "🇸🇪🇯🇵",
    "क्षि",
    "ERR_42",
    "`code`",
    "𝔘𝔫𝔦",
    "\u2028sep",
    "\x0cfeed",
]
CURATED = """# Memory

- The router VLAN is 42. <!-- trigger: vlan, router --> <!-- importance: 8 -->
  It was 41 before.
- The garden gate sticks.
  - Oil is in the shed. <!-- project: example.com/house/garden -->

## Later

- Paint the fence.
"""


def chunks(memory: Memory, path: str) -> list[dict[str, Any]]:
    """What the index has of a note, in order."""
    assert memory._opened is not None
    names = ("ordinal", "start_line", "end_line", "text", "heading", "triggers", "importance", "projects")
    with memory._opened.keeper.reader() as index:
        rows = index.execute(
            f"SELECT {', '.join(names)} FROM chunks WHERE document_id = (SELECT id FROM documents WHERE path = ?)"
            " ORDER BY ordinal",
            (path,),
        ).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


def hostile(seed: int) -> str:
    """A note of long and short lines of everything that is hard to cut."""
    rng = random.Random(seed)
    lines = ["# Notes"]
    for _ in range(60):
        glue = rng.choice([" ", ""])
        lines.append(rng.choice(["", "- ", "## ", "> "]) + glue.join(rng.choices(WORDS, k=rng.choice([0, 3, 400]))))
    return rng.choice(["\n", "\r\n"]).join(lines)


@cache
def graphemes(line: str) -> frozenset[int]:
    """Where a line may be cut."""
    breaks = [0]
    while breaks[-1] < len(line):
        breaks.append(unicode_data.grapheme_next_break(line, breaks[-1]))
    return frozenset(breaks)


@pytest.mark.parametrize("seed", range(4))
def test_inv_100_chunks_keep_every_character_and_their_lines_and_split_none(
    memory: Memory, workspace: Path, seed: int
) -> None:
    """Each chunk's text is that of its lines, no grapheme is cut (nor a character, which cannot be), every line with
    text is in one, and another build gives the same."""
    text = hostile(seed)
    (workspace / "memory" / "n.md").write_bytes(text.encode())
    memory.index()
    before = chunks(memory, "memory/n.md")
    lines = re.split(r"\r\n|\n", text)
    shown: dict[int, int] = {}
    for chunk in before:
        rows = chunk["text"].split("\n")
        assert len(rows) == chunk["end_line"] - chunk["start_line"] + 1
        for number, row in enumerate(rows, chunk["start_line"]):
            line = lines[number - 1]
            assert row in line
            if len(rows) > 2 and number not in (chunk["start_line"], chunk["end_line"]):
                assert row == line
            # a part of a line begins and ends where a grapheme does
            breaks = graphemes(line)
            assert any(at + len(row) in breaks for at in breaks if line.startswith(row, at))
            shown[number] = shown.get(number, 0) + len(row)
    for number, line in enumerate(lines, 1):
        if re.search(r"[^#>\s-]", line):
            assert shown.get(number, 0) >= len(line), f"line {number} is not whole in the index"
    memory.index(full=True)
    assert chunks(memory, "memory/n.md") == before


def test_inv_101_curated_entries_share_no_chunk_and_do_not_overlap(memory: Memory, workspace: Path) -> None:
    """One entry a chunk, with its nested lines; no line is in two; an ordinary note of the same text is not cut so."""
    (workspace / "MEMORY.md").write_text(CURATED)
    (workspace / "memory" / "same.md").write_text(CURATED.replace("<!--", "(").replace("-->", ")"))
    memory.index()
    entries = chunks(memory, "MEMORY.md")
    assert [(one["start_line"], one["end_line"], one["heading"]) for one in entries] == [
        (3, 4, "Memory"),
        (5, 6, "Memory"),
        (10, 10, "Memory > Later"),
    ]
    taken = [line for one in entries for line in range(one["start_line"], one["end_line"] + 1)]
    assert len(taken) == len(set(taken))
    assert len(chunks(memory, "memory/same.md")) < len(entries)
    (hit,) = memory.search("garden gate", sources=("memory",), max_results=1).hits
    assert "router" not in hit.excerpt
    # an entry that is too long for one chunk is several, and its neighbours are in none of them
    long = "".join(f"word{number} " for number in range(2_000))
    (workspace / "MEMORY.md").write_text(f"# Memory\n\n- first entry\n- {long}\n- last entry\n")
    memory.index()
    first, *parts, last = chunks(memory, "MEMORY.md")
    assert (first["text"], last["text"]) == ("- first entry", "- last entry")
    assert {(part["start_line"], part["end_line"]) for part in parts} == {(4, 4)}
    assert set(re.findall(r"word\d+", " ".join(part["text"] for part in parts))) == {f"word{n}" for n in range(2_000)}


def test_inv_102_annotations_are_no_text_and_are_said_of_every_chunk_of_their_entry(
    memory: Memory, workspace: Path
) -> None:
    """Neither in the text nor among the words that are searched, except that a trigger finds its entry; in an entry of
    several chunks each carries them; its neighbours do not."""
    (workspace / "MEMORY.md").write_text(CURATED)
    memory.index()
    router, garden, fence = chunks(memory, "MEMORY.md")
    assert not any("<!--" in one["text"] or "importance" in one["text"] for one in (router, garden, fence))
    assert (json.loads(router["triggers"]), router["importance"], json.loads(router["projects"])) == (
        ["vlan", "router"],
        8,
        [],
    )
    assert (json.loads(garden["triggers"]), garden["importance"]) == ([], None)
    assert json.loads(garden["projects"]) == ["example.com/house/garden"]
    assert (json.loads(fence["triggers"]), fence["importance"], json.loads(fence["projects"])) == ([], None, [])
    assert memory.search("importance", sources=("memory",)).hits == ()
    assert memory.search("trigger", sources=("memory",)).hits == ()
    long = "".join(f"word{number} " for number in range(2_000))
    (workspace / "MEMORY.md").write_text(f"- first\n- {long}<!-- trigger: kettle --> <!-- importance: 9 -->\n- last\n")
    memory.index()
    first, *parts, last = chunks(memory, "MEMORY.md")
    assert len(parts) > 4
    assert {(one["triggers"], one["importance"]) for one in parts} == {('["kettle"]', 9)}
    assert [(one["triggers"], one["importance"]) for one in (first, last)] == [("[]", None)] * 2
    assert memory.search("kettle", sources=("memory",)).hits
    assert not any("kettle" in one["text"] for one in parts)
