"""Cases of kind chunking, from bugs that other products had, at the level of the chunker and the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sqlite.model import Document, SourceProblem
from memory_sqlite.sources.markdown import chunk_markdown
from memory_sqlite.sources.notes import discover, note_document, read_note


def _documents(workspace: Path, files: dict[str, bytes]) -> tuple[dict[str, Document], list[SourceProblem]]:
    for name, data in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(data)
    documents: dict[str, Document] = {}
    problems: list[SourceProblem] = []
    for place in discover(workspace, ()).places:
        note = read_note(place)
        assert not isinstance(note, SourceProblem)
        documents[place.path], found = note_document(place, note)
        problems += found
    return documents, problems


def _text(document: Document) -> str:
    return "\n".join(chunk.text for chunk in document.chunks)


@pytest.mark.parametrize("overlap", [50, 400, 1250])
def test_case_C032_limit_holds_with_any_overlap(overlap: int) -> None:
    """200, 1600 and 5000 characters of overlap: never over 1600 in all, always ahead."""
    text = ("harbor crane log " * 200)[:3201] + "\n"
    chunks = chunk_markdown(text, max_tokens=400, overlap_tokens=overlap)
    assert all(len(chunk.text) <= 1600 for chunk in chunks)
    assert 3 <= len(chunks) <= 6
    assert chunks[0].text.startswith("harbor") and text.rstrip("\n").endswith(chunks[-1].text)
    assert [chunk.text for chunk in chunk_markdown("short note about basalt\n")] == ["short note about basalt"]


def test_case_C034_broken_front_matter_loses_no_body(tmp_path: Path) -> None:
    """All five bodies, and the three files whose block no YAML parser would take are named."""
    documents, problems = _documents(
        tmp_path,
        {
            "memory/rule.md": b"---\nThis file starts with a horizontal rule, basalt one.\n",
            "memory/path.md": b"---\nkey: `C:\\agent: x`\n---\nBody basalt two.\n",
            "memory/alias.md": b"---\ntitle: *Italic*\n---\nBody basalt three.\n",
            "memory/dup.md": b"---\ntitle: a\ntitle: b\n---\nBody basalt four.\n",
            "memory/good.md": b"Body basalt five.\n",
        },
    )
    assert len(documents) == 5 and all("basalt" in _text(document) for document in documents.values())
    # rule.md is valid Markdown without front matter: naming it would be a false alarm
    assert {problem.path for problem in problems} == {"memory/path.md", "memory/alias.md", "memory/dup.md"}
    assert documents["memory/dup.md"].title == "a"


def test_case_C036_other_encodings(tmp_path: Path) -> None:
    """Each is found and the odd ones are named; no NUL is ever text."""
    hexes = {
        "memory/latin1.md": "54686520636166e9206c656467657220697320626c75652e0a",
        "memory/utf16.md": "fffe540068006500200068006100720062006f00720020006c006500640067006500720020006900730020"
        "007200650064002e000a00",
        "memory/nul.md": "54686520646f636b206c65646765720020697320677265656e2e0a",
        "memory/ok.md": "546865206174746963206c656467657220697320677265792e0a",
    }
    documents, problems = _documents(tmp_path, {name: bytes.fromhex(data) for name, data in hexes.items()})
    assert {name: _text(document) for name, document in documents.items()} == {
        "memory/latin1.md": "The caf\ufffd ledger is blue.",
        "memory/utf16.md": "The harbor ledger is red.",
        "memory/nul.md": "The dock ledger\ufffd is green.",
        "memory/ok.md": "The attic ledger is grey.",
    }
    assert {problem.path for problem in problems} == {"memory/latin1.md", "memory/utf16.md", "memory/nul.md"}


def test_case_C038_equal_headers_and_hashes_in_fences(tmp_path: Path) -> None:
    """Two notes with one long header stay two; a comment in a fence is no heading."""
    header = "# Team page\n**Status:** active\n" + "template line\n" * 40
    documents, problems = _documents(
        tmp_path,
        {
            "memory/d1.md": (header + "Decision: use granite.\n").encode(),
            "memory/d2.md": (header + "Decision: use marble.\n").encode(),
            "memory/code.md": b"# Setup\n\n```sh\n# not a heading\nrun-basalt --now\n```\n\nAfter the block.\n",
        },
    )
    first, second = documents["memory/d1.md"], documents["memory/d2.md"]
    assert "granite" in _text(first) and "marble" in _text(second)
    assert (first.key, first.hash) != (second.key, second.hash)
    (code,) = documents["memory/code.md"].chunks
    assert code.heading == "Setup" and "# not a heading\nrun-basalt --now" in code.text
    assert problems == []
