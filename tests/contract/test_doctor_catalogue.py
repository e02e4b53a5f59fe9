"""The findings' catalogue: documented word for word, each with a way out, and each made by a fault in some test."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from memory_sqlite import errors
from memory_sqlite.cli.app import COMMANDS
from memory_sqlite.doctor import Finding
from memory_sqlite.doctor.catalogue import FINDINGS
from memory_sqlite.doctor.store_state import KEY_CODES

ROOT = Path(__file__).parents[1]


def test_documented_findings_are_the_catalogue() -> None:
    """One row per code, in the order of the table."""
    text = (resources.files("memory_sqlite") / "docs" / "findings.md").read_text("utf-8")
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        [
            f"`{code}`",
            kind.severity,
            "yes" if kind.mends else "no",
            kind.meaning,
            kind.fix,
            f"`{kind.command}`" if kind.command else "-",
        ]
        for code, kind in FINDINGS.items()
    ]


def test_every_finding_says_what_it_means_and_what_to_do() -> None:
    """In sentences; a command of ours is one that there is; what is mended is named so."""
    for code, kind in FINDINGS.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]+", code)
        assert kind.meaning.endswith(".") and kind.fix.endswith("."), code
        if kind.command.startswith("memory-sqlite "):
            assert kind.command.split()[1] in COMMANDS, code
        if kind.mends:
            assert kind.severity != "info", code


def test_key_findings_are_the_errors_of_the_same_name() -> None:
    """A code that is both an error and a finding means one thing."""
    assert {code for code in KEY_CODES if code in FINDINGS} <= set(errors.catalogue())
    for code in ("session_key_missing", "schema_too_new", "file_system_unsuitable", "encryption_key_wrong"):
        assert code in FINDINGS
        assert code in errors.catalogue()


def test_every_code_is_provoked_by_a_test() -> None:
    """Its name stands, quoted, in a test; at least 30 are planted in files."""
    tests = "".join(path.read_text("utf-8") for path in ROOT.rglob("test_*.py") if path.name != Path(__file__).name)
    assert not [code for code in FINDINGS if f'"{code}"' not in tests]
    planted = (ROOT / "unit" / "doctor" / "test_doctor_planted.py").read_text("utf-8")
    assert len([code for code in FINDINGS if f'"{code}"' in planted]) >= 30


def test_a_finding_without_a_place_in_the_catalogue_cannot_be_made() -> None:
    """And one with too many names keeps the first; they stay out of what is sent away."""
    with pytest.raises(AssertionError):
        Finding("no_such_code")
    finding = Finding("foreign_file", {"files": 99}, [str(number) for number in range(99)])
    assert len(finding.as_json()["names"]) == 20
    assert finding.as_json(names=False)["names"] == []
