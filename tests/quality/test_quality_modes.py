"""The suites of quality and parity once more, on machines that lack something: each mode is a process of its own.

A mode is a folder before everything else that Python and its workers import from: in it lies a sqlite-vec that will not
load, a NumPy that is not there, or one line that asks for more neighbours than sqlite-vec takes at once. That the
workers looked there is checked, and how many tests ran, so that nothing passes by being skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import apsw
import pytest
from invented import NOTHING, QUERIES

from memory_sqlite.search.vectors import extension

pytestmark = pytest.mark.quality

TESTS = Path(__file__).resolve().parent.parent
WORKER = "memory_sqlite.workers.retrieval"
SEEN = """import os, sys
from pathlib import Path
Path(__file__).with_name(f"seen-{os.getpid()}").write_text(" ".join(sys.orig_argv), encoding="utf-8")
"""
MORE = """from memory_sqlite.search import fusion
fusion.NEAREST = 5_000
"""
SUITE = (
    "unit/search/vectors/test_vector_routes_parity.py",
    "unit/search/test_fusion.py",
    "contract/test_meaning_door.py",
    "quality/test_quality_invented.py",
)
REST = (
    "unit/search/vectors",
    "contract/test_invariants_vectors.py",
    "quality/test_quality_vector_routes.py",
    "quality/test_weaknesses_w.py",
)
"""What takes longer: run where ``MEMORY_SQLITE_SWEEP`` is set."""


@dataclass(frozen=True)
class Mode:
    """What is there, how many neighbours are asked for, and how many tests must at least have run."""

    name: str
    vec: bool = True
    numpy: bool = True
    nearest: int = 100
    least: int = 0

    def write(self, folder: Path) -> Path:
        """The folder that takes things away."""
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SEEN + (MORE if self.nearest > 100 else ""), encoding="utf-8")
        if not self.numpy:
            gone = "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n"
            (folder / "numpy").mkdir()
            (folder / "numpy" / "__init__.py").write_text(gone, encoding="utf-8")
        shim = folder / "sqlite_vec"
        if self.vec and (there := find_spec("sqlite_vec")) is not None and there.origin is not None:
            shutil.copytree(Path(there.origin).parent, shim)  # workers look into a folder that holds what they need
        else:
            shim.mkdir()
            for ending in ("so", "dylib", "dll"):
                (shim / f"vec0.{ending}").write_bytes(b"not a library")
            (shim / "__init__.py").write_text("", encoding="utf-8")
        return folder


MODES = (
    Mode("without sqlite-vec", vec=False, least=115),
    Mode("without NumPy", numpy=False, least=90),
    Mode("k above 4,096", nearest=5_000, least=125),
    Mode("with neither", vec=False, numpy=False, least=80),
)


def run(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Python with this folder first; nothing of the pytest and the coverage that run this reaches it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}
    environment["PYTHONPATH"] = os.pathsep.join((str(folder), str(TESTS / "quality")))
    return subprocess.run(
        [sys.executable, *words], cwd=TESTS.parent, env=environment, capture_output=True, text=True, timeout=500
    )


def suite(mode: Mode, tests: tuple[str, ...], place: Path) -> int:
    """Run tests in a mode, all of which must pass; how many were not skipped."""
    report = place / "report.xml"
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place / 'made'}", f"--junitxml={report}"]
    folder = mode.write(place / "mode")
    done = run(folder, [*words, *(str(TESTS / name) for name in tests)])
    assert done.returncode == 0, done.stdout[-6_000:]
    assert any(WORKER in one.read_text("utf-8") for one in folder.glob("seen-*")), "no worker looked into the folder"
    cases = list(ElementTree.parse(report).iter("testcase"))
    return sum(case.find("skipped") is None for case in cases)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", MODES[:3], ids=lambda mode: mode.name)
def test_parity_and_quality_hold(mode: Mode, tmp_path: Path) -> None:
    """Every route against comparing everything, words and meaning together, through the door and its workers."""
    assert suite(mode, SUITE, tmp_path) >= mode.least


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_rest_holds_too(mode: Mode, tmp_path: Path) -> None:
    """All tests of vectors, the invariants, real embeddings where their data is there, the peer's weaknesses."""
    assert suite(mode, SUITE + REST, tmp_path) >= mode.least


# --- whole answers --------------------------------------------------------------------------------------------------


def asked(mode: Mode, place: Path) -> dict[str, Any]:
    place.mkdir()
    folder = mode.write(place / "mode")
    done = run(folder, [str(TESTS / "quality" / "mode_answers.py"), str(place)])
    assert done.returncode == 0, done.stderr[-3_000:]
    assert any(WORKER in one.read_text("utf-8") for one in folder.glob("seen-*"))
    answered: dict[str, Any] = json.loads(done.stdout)
    return answered


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of this machine as it is."""
    return asked(Mode("as it is"), tmp_path_factory.mktemp("modes") / "whole")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_answers_are_as_good_and_routes_are_there(mode: Mode, whole: dict[str, Any], tmp_path: Path) -> None:
    """The same hits with the same scores, in this process and by a worker, and ``status`` and answers name a route that
    this machine has. Asked for more neighbours the answers may hold more, and are as good."""
    found = asked(mode, tmp_path / "asked")
    vec = mode.vec and extension.load(apsw.Connection(":memory:"))
    numpy = mode.numpy and find_spec("numpy") is not None
    here = "sqlite-vec" if vec else "exact-python"  # so few rows that loading NumPy does not pay
    served = "sqlite-vec" if vec else "resident-float32" if numpy else "exact-python"
    for name, route in (("here", here), ("served", served)):
        told = found[name]
        assert (told["routes"], told["status"]) == (sorted(["lexical", route]), route)
        assert told["resident"] == ([route] if route.startswith("resident") else [])
        assert told["warnings"] == []
    assert found["nearest"] == mode.nearest
    assert found["figures"]["figures"]["hit@1"] >= 0.96 and found["figures"]["figures"]["hit@6"] == 1.0
    assert (found["figures"]["questions"], found["figures"]["empty_right"]) == (len(QUERIES), len(NOTHING))
    assert found["here"]["answers"] == found["served"]["answers"]
    if mode.nearest == whole["nearest"]:
        assert found["here"]["answers"] == whole["here"]["answers"]
