"""Every criterion of the provider, host and engine contracts has a test of its number, and the docs say where."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib import resources
from pathlib import Path

CRITERIA = 148
"""How many the contract numbers."""
NAMED = re.compile(r"^(?:async )?def test_criterion_(\d{3})_\w+", re.M)


def test_every_criterion_has_a_test_of_its_number() -> None:
    """1 to 148, no gap and no number beyond."""
    tests: dict[int, list[str]] = defaultdict(list)
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        for number in NAMED.findall(path.read_text(encoding="utf-8")):
            tests[int(number)].append(path.name)
    assert set(tests) == set(range(1, CRITERIA + 1))


def test_the_architecture_page_says_which_file_holds_which() -> None:
    """The table of areas names each file of criteria, and no other."""
    page = (resources.files("memory_sqlite") / "docs" / "architecture.md").read_text("utf-8")
    section = page.split("## The contracts' criteria", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"`(test_\w+\.py)`", section))
    holding = {
        path.name
        for path in Path(__file__).parents[1].rglob("test_*.py")
        if NAMED.search(path.read_text(encoding="utf-8"))
    }
    assert named == holding
