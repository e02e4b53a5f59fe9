"""Blocks 28 to 30 of section 13 of the layered-memory reference: an encrypted store behind the manager."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors

SCAN = """
import sys
from pathlib import Path
print(*(p.name for p in Path(sys.argv[1]).rglob("*") if p.is_file() and sys.argv[2].encode() in p.read_bytes().lower()))
"""
TEXT = "python development with zirconquartz"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "a-demo-secret-with-at-least-32-bytes!")
    monkeypatch.setenv("OTHER", "another-demo-secret-of-32-bytes-or-more")


def test_block_28_an_empty_clear_store_becomes_encrypted(make_host: Callable[..., Any], tmp_path: Path) -> None:
    """Deviation: pages are encrypted, not lines; there is no raw file of lines, so all files are looked at."""
    clear = make_host()
    assert clear.search("main", "python", sessionKey="s1") == []
    clear.plugin.memory("main").opened(create=True)
    clear.plugin.close()
    host = make_host(encryption_key_env="KEY")
    host.append("main", "s1", "r1", TEXT)
    (found,) = host.search("main", "python", sessionKey="s1")
    assert "zirconquartz" in found["snippet"]
    data = str(tmp_path / "data")
    assert subprocess.run([sys.executable, "-c", SCAN, data, "zirconquartz"], capture_output=True).stdout == b"\n"
    assert host.plugin.manager("main").status()["custom"]["encrypted"] is True


def test_block_29_another_key_is_refused(make_host: Callable[..., Any]) -> None:
    first = make_host(encryption_key_env="KEY")
    first.append("main", "s1", "r1", TEXT)
    first.plugin.close()
    with pytest.raises(errors.EncryptionKeyWrong, match="encryption key validation failed"):
        make_host(encryption_key_env="OTHER").append("main", "s1", "r2", TEXT)
    with pytest.raises(errors.EncryptionKeyRequired, match="encryption key validation failed"):
        make_host().append("main", "s1", "r2", TEXT)
    assert make_host(encryption_key_env="KEY").append("main", "s1", "r1", TEXT) is False


def test_block_30_clear_data_and_then_a_key(make_host: Callable[..., Any]) -> None:
    clear = make_host()
    clear.append("main", "s1", "r1", TEXT)
    clear.plugin.close()
    with pytest.raises(errors.StoreNotEncrypted, match="encryption key validation failed"):
        make_host(encryption_key_env="KEY").append("main", "s1", "r2", TEXT)
    assert make_host().search("main", "python", sessionKey="s1")
