"""A flipped bit anywhere in a store or an index, encrypted or not: what is answered, and what doctor says.

Encrypted: every answer is the right one or an error, and doctor names every flip. In clear nobody can promise that a
changed letter is noticed: there every answer comes or is refused with a typed error, and nothing ends in a crash.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor.examine import examine
from memory_sqlite.paths import agent_directory, session_token
from memory_sqlite.storage import session_key

KEY: Final = "a key for flipping that has more than 32 bytes"
WORDS: Final = ("granite", "harbor", "walrus", "ledger", "茶园", "E_42")
FILES: Final = ("memory.sqlite", "index-000001.sqlite")
SESSION_KEY: Final = bytes(range(32))
TOKENS: Final = [session_token(SESSION_KEY, f"s{number}") for number in range(4)]
Answers = dict[str, Any]


def settings(place: Path, encrypted: bool) -> Settings:
    """Of the data directory in ``place``."""
    os.environ["FLIPPED_KEY"] = KEY
    key = {"encryption_key_env": "FLIPPED_KEY"} if encrypted else {}
    return Settings(data_dir=place / "data", retention_days=None, **key)  # type: ignore[arg-type]


def fill(place: Path, encrypted: bool) -> None:
    """A store and an index of some hundred pages."""
    rng = random.Random(5)
    workspace = place / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (place / "data").mkdir(mode=0o700)
    session_key.adopt(place / "data", SESSION_KEY, Clock())
    for number in range(6):
        text = " ".join(rng.choice(WORDS) for _ in range(120))
        (workspace / "memory" / f"n{number}.md").write_text(f"# Note {number}\n{text}\n")
    with Memory.open(settings=settings(place, encrypted), workspace=workspace) as memory:
        for number in range(24):
            said = " ".join(rng.choice(WORDS) for _ in range(60))
            memory.remember(
                session=f"s{number % 4}",
                chat_type="direct",
                sender_is_owner=True,
                messages=[
                    {"role": "user", "content": f"I love tea number {number}. {said}"},
                    {"role": "assistant", "content": f"Noted {number}."},
                ],
            )
        memory.index()


def told(call: Callable[[], Any]) -> Any:
    """What a call answers, or the code of the error it ends with. Anything untyped fails the test."""
    try:
        return call()
    except errors.MemorySqliteError as error:
        return f"error: {error.code}"


def answers(place: Path, encrypted: bool) -> Answers:
    """What a reader is told of everything; nothing is mended by looking."""
    try:
        memory = Memory.open(settings=settings(place, encrypted), read_only=True)
    except errors.MemorySqliteError as error:
        return {"open": f"error: {error.code}"}
    with memory:
        found: Answers = {"open": "ok", "sessions": told(memory.sessions)}
        for word in WORDS:
            page = told(lambda word=word: memory.search(word, max_results=40))
            if isinstance(page, str):
                found[word] = page
            else:
                found[word] = [(hit.reference, hit.excerpt, hit.start_line, hit.end_line) for hit in page.hits]
                if page.warnings:
                    found[word] = "error: said in a warning"
        for token in TOKENS:
            passage = told(lambda token=token: memory.get(f"sessions/{token}"))
            found[token] = passage if isinstance(passage, str) else passage.text
    return found


def flip(path: Path, rng: random.Random) -> int:
    """Turn one bit of a file that nobody has open; where."""
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return at


def is_right(answer: Any, truth: Any) -> bool:
    return answer == truth or (isinstance(answer, str) and answer.startswith("error: "))


def sweep(tmp_path: Path, flips: int, encrypted: bool, seed: int) -> None:
    """As many flips, by turns in store and index."""
    whole = tmp_path / "whole"
    fill(whole, encrypted)
    truth = answers(whole, encrypted)
    assert len(truth) == 2 + len(WORDS) + len(TOKENS)
    assert all(not isinstance(answer, str) or not answer.startswith("error") for answer in truth.values()), truth
    rng = random.Random(seed)
    unnamed = []
    for number in range(flips):
        place = tmp_path / "flipped"
        shutil.copytree(whole, place)
        name = FILES[number % 2]
        at = flip(agent_directory(place / "data", "main") / name, rng)
        now = answers(place, encrypted)
        report = examine(settings(place, encrypted), Clock(), deep=True)
        if encrypted:
            wrong = {asked: now[asked] for asked in now if not is_right(now[asked], truth[asked])}
            assert not wrong, (name, at, wrong)
            if report.status != "findings":
                unnamed.append((name, at))
        shutil.rmtree(place)
    assert not unnamed, unnamed


@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
def test_flipped_bits(tmp_path: Path, encrypted: bool) -> None:
    """A few on every run."""
    sweep(tmp_path, 8, encrypted, seed=20261201)


@pytest.mark.sweep
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP, e.g. to 500")
@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
def test_flipped_bits_sweep(tmp_path: Path, encrypted: bool) -> None:
    """As many as ``MEMORY_SQLITE_SWEEP`` says."""
    sweep(tmp_path, int(os.environ["MEMORY_SQLITE_SWEEP"]), encrypted, seed=7)
