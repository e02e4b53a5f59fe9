"""The error table in docs/operations.md is the catalogue: codes, exit codes, retry, meaning, advice."""

from __future__ import annotations

import re
from importlib import resources

from memory_sqlite.cli.failures import OWN_CODES
from memory_sqlite.config_fields import FIELDS, expected
from memory_sqlite.errors import catalogue


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    text = (resources.files("memory_sqlite") / "docs" / "operations.md").read_text("utf-8")
    part = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in row] for row in rows]


def test_documented_errors_are_the_catalogue() -> None:
    """One row per error, in definition order, equal to the class word for word."""
    expected_rows = [
        [
            code,
            str(error.exit_code),
            "yes" if error.retryable else "no",
            " ".join((error.__doc__ or "").split()),
            error.default_hint or "-",
        ]
        for code, error in catalogue().items()
    ]
    assert table("The error catalogue") == [[cell.strip("`") for cell in row] for row in expected_rows]


def test_documented_codes_of_the_command_line() -> None:
    """The command line's own codes are documented and do not collide with the catalogue's."""
    rows = table("Codes of the command line itself")
    assert rows == [[code, str(exit_code), meaning] for code, (exit_code, meaning) in OWN_CODES.items()]
    assert not set(OWN_CODES) & set(catalogue())


def test_every_error_says_what_to_do_or_can_be_retried() -> None:
    """No dead ends: each error has advice, or trying again is the advice; exit codes are failures below 128."""
    for code, error in catalogue().items():
        assert error.default_hint or error.retryable, code
        assert 0 < error.exit_code < 126, code


def test_documented_settings_are_the_table_of_fields() -> None:
    """Every setting is documented with its rule and meaning."""
    rows = table("Where settings come from")
    assert [[row[0], row[1], row[3]] for row in rows] == [[entry.name, expected(entry), entry.help] for entry in FIELDS]
