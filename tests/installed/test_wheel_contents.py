"""What is in the wheel and in the sdist: everything that runs, nothing that does not belong to a user."""

from __future__ import annotations

import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.installed


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def sources(top: Path, into: str, *patterns: str) -> set[str]:
    """Files below a folder of the tree by the names they have in the wheel."""
    found = (path for pattern in patterns for path in top.rglob(pattern) if path.is_file())
    return {f"{into}/{path.relative_to(top)}" for path in found if "__pycache__" not in path.parts}


def test_the_wheel_has_every_module_of_the_tree(clean_copy: Path, wheel_names: set[str]) -> None:
    """The packages are listed by hand in pyproject.toml: one that was forgotten shows here."""
    wanted = sources(clean_copy / "memory_sqlite", "memory_sqlite", "*.py")
    wanted |= sources(clean_copy / "migrations", "memory_sqlite/migrations", "*.py", "*.sql")
    wanted |= sources(clean_copy / "workers", "memory_sqlite/workers", "*.py")
    assert wanted <= wheel_names


def test_the_wheel_has_its_data(clean_copy: Path, wheel_names: set[str]) -> None:
    wanted = {"memory_sqlite/py.typed"}
    wanted |= sources(clean_copy / "memory_sqlite/docs", "memory_sqlite/docs", "*.md")
    wanted |= sources(clean_copy / "memory_sqlite/samples", "memory_sqlite/samples", "*")
    assert len(wanted) > 10
    assert wanted <= wheel_names


def test_the_wheel_has_nothing_else(wheel_names: set[str]) -> None:
    kinds = {Path(name).suffix for name in wheel_names if name.startswith("memory_sqlite/")}
    assert kinds <= {".py", ".sql", ".md", ".jsonl", ".typed"}
    tops = {name.split("/", 1)[0] for name in wheel_names}
    assert {top.split("-", 1)[0] for top in tops} == {"memory_sqlite"}
    assert not [name for name in wheel_names if "test" in name.lower() or "__pycache__" in name]
    assert any(name.endswith("licenses/LICENSE") for name in wheel_names)


def test_the_sdist_builds_the_same_and_holds_nothing_stray(dist: Path) -> None:
    """The wheel was built from it; besides sources it holds the project's own files."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "migrations/0001_initial.sql", "workers/__init__.py"} <= names
    tops = {name.split("/", 1)[0] for name in names}
    assert tops <= {
        "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "memory_sqlite", "memory_sqlite.egg-info", "migrations",
        "pyproject.toml", "setup.cfg", "workers", "tests",
    }  # fmt: skip
    assert not [name for name in names if name.endswith((".pyc", ".sqlite", ".key"))]
