"""Hosts that number messages anew: an id that was given before does not swallow what is said under it now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_sqlite import Memory


def turn(said: str, answer: str, first: int = 1) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": said, "id": str(first)},
        {"role": "assistant", "content": answer, "id": str(first + 1)},
    ]


def texts(memory: Memory) -> list[str]:
    return memory.get("sessions/" + memory.sessions()[0]["token"]).text.splitlines()


def test_a_new_run_under_old_ids_with_other_words_is_stored_once(memory: Memory) -> None:
    """The host was started again and counts from 1: nothing of the second run is lost, and its replay adds nothing."""
    for _ in range(2):
        for run, said, answer in (
            ("a", "the first matter", "ok"),
            ("b", "quite another thing", "ok"),
            ("c", "部署", "ok"),
        ):
            memory.remember(session="s", run_id=run, messages=turn(said, answer))
    assert texts(memory) == [
        "user: the first matter",
        "assistant: ok",
        "user: quite another thing",
        "assistant: ok",
        "user: 部署",
        "assistant: ok",
    ]


def test_the_same_ids_with_an_edited_text_are_one_turn(memory: Memory) -> None:
    """An edit shares words with what it edits: it is the turn that is known."""
    memory.remember(session="s", run_id="a", messages=turn("the frist matter", "ok"))
    assert memory.remember(session="s", run_id="b", messages=turn("the first matter", "ok")).status == "duplicate"


def test_an_id_of_the_agents_is_not_a_persons(memory: Memory) -> None:
    """A person's words that begin like the agent's are not put into the agent's mouth, nor lost."""
    memory.remember(session="s", messages=[{"role": "assistant", "content": "I order", "id": "9"}])
    memory.remember(session="s", messages=[{"role": "user", "content": "I order tea, says Mallory", "id": "9"}])
    assert texts(memory) == ["assistant: I order", "user: I order tea, says Mallory"]


def test_an_import_believes_its_ids(memory: Memory, tmp_path: Path) -> None:
    """A file read again after its texts were rewritten under the same ids adds nothing."""
    path = tmp_path / "t.jsonl"
    for text in ("granite", "marble and more"):
        path.write_text(f'{{"role":"user","content":"{text}","id":"1"}}\n')
        memory.import_transcripts([path])
    assert texts(memory) == ["user: granite"]
