"""The proof of forgetting looks into encrypted files too: with their key, in memory, free pages included."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.forgetting import proof
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.storage import connection as connections

KEY = FileKey("aegis", bytes(range(32)), "key")
GONE = "the walrus sang behind the granite boathouse at dawn"


class Pieces(Samples):
    """One piece, whatever is asked for."""

    def __init__(self) -> None:
        pass

    def pieces(self, most: int) -> list[bytes]:
        return [GONE.encode()]


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """An encrypted store with a sentence in it."""
    store = connections.create_index(tmp_path / "memory.sqlite", KEY)
    store.execute("CREATE TABLE messages (text, raw)")
    store.execute("CREATE TABLE records (content)")
    store.execute("CREATE TABLE other (text)")
    store.execute("INSERT INTO other VALUES (?)", (GONE,))
    store.close()
    return tmp_path


def test_what_is_left_in_an_encrypted_file_is_found(agent: Path) -> None:
    """Its bytes alone would show nothing, and nothing would be proven."""
    store = connections.open_store(agent / "memory.sqlite", KEY)
    assert proof.search_bytes(agent, Pieces(), store, None).files == ()  # what the bytes alone say
    assert proof.search_bytes(agent, Pieces(), store, None, KEY).files == ("memory.sqlite",)
    store.execute("DELETE FROM other")
    assert proof.search_bytes(agent, Pieces(), store, None, KEY) == proof.Proof(1)
    store.close()


def test_free_pages_count(agent: Path) -> None:
    """A row that was deleted without being overwritten is still there."""
    store = connections.open_store(agent / "memory.sqlite", KEY)
    store.pragma("secure_delete", False)
    store.execute("DROP TABLE other")
    assert proof.search_bytes(agent, Pieces(), store, None, KEY).files == ("memory.sqlite",)
    store.close()


def test_a_file_that_cannot_be_opened_proves_nothing(agent: Path) -> None:
    """Under a wrong key there is no proof, and that is said."""
    store = connections.open_store(agent / "memory.sqlite", KEY)
    other = FileKey("aegis", bytes(32), "other")
    found = proof.search_bytes(agent, Pieces(), store, None, other)
    assert found.files == () and found.problem is not None and "could not be searched" in found.problem
    store.close()


def test_files_too_large_for_memory_are_told(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not searched by halves."""
    monkeypatch.setattr(proof, "PROOF_DECRYPTED_MAX_BYTES", 1)
    store = connections.open_store(agent / "memory.sqlite", KEY)
    found = proof.search_bytes(agent, Pieces(), store, None, KEY)
    assert found.problem is not None and "too large" in found.problem
    store.close()
