"""Puts this folder on the path, so that the harness can be imported by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def external() -> Path:
    """The folder of the external sets; tests that need it skip when it is absent."""
    from quality_harness import data_folder

    folder = data_folder()
    if folder is None:
        pytest.skip(
            "no evaluation data: set MEMORY_SQLITE_EVAL_DATA to the folder that holds locomo/, xquad/, scifact/"
        )
    return folder
