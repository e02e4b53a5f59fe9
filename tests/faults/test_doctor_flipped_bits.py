"""One bit flipped anywhere in a store or an index: the doctor makes every check and tells no text, whatever it finds.

Encrypted files are in ``tests/unit/doctor``: there each flip is a finding. In clear a bit of somebody's text is as good
as any other; only message texts have a digest. Here it is held that looking goes well.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor.examine import CHECKS, examine
from memory_sqlite.paths import agent_directory

FLIPS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "12"))
LOOKS = frozenset(CHECKS) - {"worker", "libraries", "other products", "watches"}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A memory of some sixty pages."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("flips") / "data")
    fill(settings)
    return settings


def fill(settings: Settings) -> None:
    with Memory.open(settings=settings) as memory:
        for number in range(60):
            said = [{"role": "user", "content": f"I love granite tea number {number}. " + "slate basalt " * 20}]
            memory.remember(session=f"s{number % 5}", chat_type="direct", sender_is_owner=True, messages=said)


def flip(path: Path, seed: int) -> None:
    data = bytearray(path.read_bytes())
    chosen = random.Random(seed)
    data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["memory.sqlite", "index-000001.sqlite"])
def test_a_flipped_bit_in_clear_stops_no_check(healthy: Settings, tmp_path: Path, name: str) -> None:
    """No check fails for it, and what is found is found by a code that says so."""
    place = tmp_path / "data"
    shutil.copytree(healthy.data_dir, place)
    path = agent_directory(place, "main") / name
    sound = path.read_bytes()
    for seed in range(FLIPS):
        path.write_bytes(sound)
        flip(path, seed)
        report = examine(replace(healthy, data_dir=place), Clock(), only=LOOKS)
        assert not [one for one in report.findings if one.code == "check_failed"], seed
        assert "granite" not in str(report.as_json()), seed
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
