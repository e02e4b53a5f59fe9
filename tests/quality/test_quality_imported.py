"""The labelled conversations through the front door: imported as transcripts, one agent each, asked with ``search``.

``test_quality_external.py`` measures the index alone; here the importer, the store and the layers stand between.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import quality_harness as harness

from memory_sqlite import Memory

pytestmark = pytest.mark.quality


def transcript(conversation: dict[str, Any]) -> str:
    """Every session of a conversation as ``{role, content}`` lines; the host's ids are the labels."""
    lines = [
        {
            "session": document.details["session"],
            "id": document.key,
            "role": "user",
            "name": document.speaker,
            "content": document.chunks[0].text,
            "at": document.at,
        }
        for document in harness.locomo_documents(conversation)
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def test_locomo_imported_as_transcripts(external: Path, tmp_path: Path) -> None:
    """Evidence messages R@10 .77 and MRR .55, a hit counting by its ``message_id`` (measured .809 and .605)."""
    scores = harness.Scores()
    for number, sample in enumerate(json.loads((external / "locomo" / "locomo-dev.json").read_text("utf-8"))):
        source = tmp_path / f"{number}.jsonl"
        source.write_text(transcript(sample["conversation"]), encoding="utf-8")
        known = {document.key for document in harness.locomo_documents(sample["conversation"])}
        with Memory.open(tmp_path / "data", agent=f"locomo-{number}") as memory:
            report = memory.import_transcripts([source], chat_type="direct", sender_is_owner=True)
            assert (report.messages, report.refused, report.problems) == (len(known), 0, ())
            for question in sample["qa"]:
                evidence = {part for item in question["evidence"] for part in re.findall(r"D\d+:\d+", item)} & known
                if evidence:
                    page = memory.search(question["question"], max_results=10, sources=["sessions"])
                    scores.add([str(hit.message_id) for hit in page.hits], evidence)
    assert scores.recall >= 0.77
    assert scores.mrr >= 0.55
