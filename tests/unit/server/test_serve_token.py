"""The bearer token of a server: where it comes from, what is none, and who is let through."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_sqlite import errors
from memory_sqlite.server import token
from memory_sqlite.server.token import VARIABLE, Token

GOOD = "a-token-of-the-tests-0123456789"


def test_a_file_comes_before_the_environment_and_that_before_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{GOOD}\r\n")
    file.chmod(0o600)
    assert token.find(str(file), {VARIABLE: "another-token-0123456789"}).admits(f"Bearer {GOOD}".encode())
    assert token.find(None, {VARIABLE: GOOD}).admits(f"bearer {GOOD}".encode())
    made, other = token.find(None, {}), token.find(None, {VARIABLE: ""})
    assert made.made and other.made and made.reveal() != other.reveal()
    assert made.admits(b"Bearer " + made.reveal().encode()) and len(made.reveal()) >= 40
    assert not token.find(None, {VARIABLE: GOOD}).made


@pytest.mark.parametrize(
    "header",
    [b"", b"Bearer", b"Bearer ", GOOD.encode(), b"Basic " + GOOD.encode(), b"Bearer x" + GOOD.encode(),
     b"Bearer " + GOOD[:-1].encode(), b"Bearer " + GOOD.upper().encode(), b"Bearer \xff\x00", b"Bearer " * 10_000],
)  # fmt: skip
def test_nothing_else_is_let_through(header: bytes) -> None:
    assert not Token(GOOD).admits(header)


@pytest.mark.parametrize("value", ["", "short", "x" * 513, f"{GOOD} two", f"{GOOD}\n", f"{GOOD}é", f"{GOOD}\x7f"])
def test_what_is_no_token_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(errors.InvalidConfiguration) as raised:
        Token(value)
    assert GOOD not in str(raised.value)
    assert GOOD not in repr(Token(GOOD))


def test_files_that_hold_none(tmp_path: Path) -> None:
    """Absent, a folder, a pipe that nobody writes to, readable by others, too long."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for place in (tmp_path / "absent", tmp_path, pipe, Path("nul\0")):
        with pytest.raises(errors.InvalidConfiguration):
            token.find(str(place), {})
    file = tmp_path / "token"
    for text, mode in ((GOOD, 0o640), (GOOD, 0o604), ("x" * 600, 0o600), (f"{GOOD}\n\n", 0o600)):
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(errors.InvalidConfiguration):
            token.find(str(file), {})
