"""Where a key comes from: read once, as it is, bounded, and never shown. Wrong, short, missing and not UTF-8."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.crypto import secret
from memory_sqlite.crypto.secret import Secret

KEY = "a key of thirty-two bytes or more, with ü"


def refused(source: Secret) -> str:
    with pytest.raises(errors.InvalidConfiguration) as caught:
        source.read()
    assert KEY not in caught.value.message + caught.value.hint
    assert caught.value.message.startswith(source.field)
    return caught.value.message


def command(code: str) -> Secret:
    return Secret("command", f"{sys.executable} -c '{code}'")


def test_the_same_key_from_all_three_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable as it is; of a file and of an output one line end and a byte order mark are no part of the key."""
    monkeypatch.setenv("KEY", KEY)
    expected = KEY.encode()
    assert Secret("env", "KEY").read() == expected
    file = tmp_path / "key"
    for content in (KEY, KEY + "\n", KEY + "\r\n", "\ufeff" + KEY + "\n"):
        file.write_bytes(content.encode())
        assert Secret("file", str(file)).read() == expected
    for content in (KEY + "\n\n", " " + KEY, KEY + "\r", KEY + " "):
        file.write_bytes(content.encode())
        assert Secret("file", str(file)).read() != expected
    file.write_bytes(expected)
    (tmp_path / "link").symlink_to(file)  # as secrets are mounted into containers
    assert Secret("file", str(tmp_path / "link")).read() == expected
    assert Secret("command", f"cat {file}").read() == expected
    monkeypatch.setenv("KEY", KEY + "\n")
    assert Secret("env", "KEY").read() == expected + b"\n"


def test_read_once(tmp_path: Path) -> None:
    """A password manager asks a person once."""
    counted = tmp_path / "count"
    source = command(f'open("{counted}", "a").write("x"); print("k" * 40)')
    assert source.read() == source.read() == b"k" * 40
    assert counted.read_text() == "x"


def test_bad_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not set, empty, short, too long, not UTF-8."""
    assert "not set" in refused(Secret("env", "ABSENT"))
    for value, said in (("", "not set"), ("short", "at least 32 bytes"), ("k" * 4_097, "longer than")):
        monkeypatch.setenv("BAD", value)
        assert said in refused(Secret("env", "BAD"))
    monkeypatch.setenv("BAD", os.fsdecode(b"\xff" * 40))
    assert "not UTF-8" in refused(Secret("env", "BAD"))
    monkeypatch.setenv("BAD", "ü" * 16)  # 32 bytes in 16 characters
    assert Secret("env", "BAD").read() == "ü".encode() * 16
    monkeypatch.setenv("BAD", "seven77")
    assert "at least 8 bytes" in refused(Secret("env", "BAD", passphrase=True))
    monkeypatch.setenv("BAD", "eight888")
    assert Secret("env", "BAD", passphrase=True).read() == b"eight888"


def test_bad_files(tmp_path: Path) -> None:
    """Missing, a directory, a pipe nobody writes to, without end, not readable as text."""
    assert "cannot be read" in refused(Secret("file", str(tmp_path / "absent")))
    assert "not a regular file" in refused(Secret("file", str(tmp_path)))
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(Secret("file", str(tmp_path / "pipe")))
    assert "not a regular file" in refused(Secret("file", "/dev/zero"))
    (tmp_path / "large").write_bytes(b"k" * 1_000_000)
    assert "longer than" in refused(Secret("file", str(tmp_path / "large")))
    (tmp_path / "binary").write_bytes(bytes(range(128, 168)))
    assert "not UTF-8" in refused(Secret("file", str(tmp_path / "binary")))
    (tmp_path / "short").write_bytes(b"k" * 31 + b"\n")
    assert "at least 32 bytes" in refused(Secret("file", str(tmp_path / "short")))


def test_bad_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not there, failing, silent, without end, too slow; no shell reads it, and nothing it says is repeated."""
    assert "cannot be run" in refused(Secret("command", "/nonexistent/program"))
    for line in (f"pass '{KEY}", "", "  "):
        assert "no command line" in refused(Secret("command", line))
    said = refused(command(f'import sys; print("{KEY}"); sys.exit(3)'))
    assert "exit code 3" in said
    assert "at least 32 bytes" in refused(command("pass"))
    assert "printed more than" in refused(command('import sys\nwhile True: sys.stdout.write("k" * 1000)'))
    assert Secret("command", f"{sys.executable} -c 'print(\"$HOME|;\" * 8)'").read() == b"$HOME|;" * 8
    monkeypatch.setattr("memory_sqlite.limits.ENCRYPTION_KEY_COMMAND_S", 0.0)
    assert "did not end" in refused(command("import sys; sys.stdin.read(); import time; time.sleep(600)"))


def test_what_a_command_complains_of_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """It may quote the key, and what a host writes to its error output goes into a log."""
    assert "exit code 3" in refused(command(f'import sys; print("{KEY}", file=sys.stderr); sys.exit(3)'))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_one_place_at_most_and_no_key_in_what_is_printed(tmp_path: Path) -> None:
    """Two places are a contradiction; people put the key where its name belongs."""
    with pytest.raises(errors.InvalidConfiguration, match="--new-key-env and --new-key-file"):
        secret.named("A", tmp_path, None, prefix="--new-key-")
    assert secret.named(None, None, None) is None
    assert secret.from_settings(Settings()) is None
    source = secret.from_settings(Settings(encryption_key_file=tmp_path / KEY, encryption_cipher="sqlcipher"))
    assert source is not None
    assert (source.kind, source.cipher, source.passphrase) == ("file", "sqlcipher", False)
    assert KEY not in repr(source)
