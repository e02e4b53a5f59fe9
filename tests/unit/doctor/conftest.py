"""The healthy directory of the doctor's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for doctor_kit

from doctor_kit import Patient, build, copied


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; nobody writes to it."""
    root = tmp_path_factory.mktemp("healthy")
    build(root)
    return root


@pytest.fixture
def patient(healthy: Path, tmp_path: Path) -> Patient:
    """A copy of it."""
    return copied(healthy, tmp_path / "patient")
