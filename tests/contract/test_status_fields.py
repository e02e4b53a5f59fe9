"""What ``status`` tells is frozen: names are added, never renamed or dropped. And it is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import Memory, errors
from memory_sqlite.cli.app import root
from memory_sqlite.config import Settings
from memory_sqlite.runtime.manager_shapes import wire

ASKED = {
    "files": int, "chunks": int, "dirty": bool, "dirty_because": list, "sources": dict, "generation": dict,
    "identity": dict, "fts": dict, "vector": dict, "last_sync": dict, "sizes": dict, "encrypted": bool,
    "retention_days": int, "isolation": str, "profile_scope": str, "pending_writes": int, "dreaming": str,
}  # fmt: skip
INSIDE = {
    "sources": {"memory", "sessions"},
    "generation": {"number", "state", "kept"},
    "identity": {"status", "reason", "command"},
    "fts": {"enabled", "available", "error"},
    "vector": {"enabled", "available", "route", "dims", "error"},
    "last_sync": {"at", "error"},
    "sizes": {"store", "store_wal", "index", "index_wal", "reusable"},
}
CUSTOM = {
    "searchMode", "indexIdentity", "generation", "dirtyBecause", "lastSync", "sizes", "encrypted", "retentionDays",
    "isolation", "profileScope", "pendingWrites", "dreaming",
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "net.md").write_text("# Net\n\nThe router is in VLAN 20.\n", "utf-8")
    return Settings(data_dir=tmp_path / "data", workspace=workspace)


def remember(memory: Memory, text: str = "I like granite.") -> None:
    memory.remember(session="s", messages=[{"role": "user", "content": text}])


def test_fields_of_the_door_and_the_command_line(settings: Settings) -> None:
    """Every field that the specification lists is there, of its kind, from both."""
    with Memory.open(settings=settings) as memory:
        remember(memory)
        memory.index()
        said = memory.status()
    place = ["--data-dir", str(settings.data_dir), "--workspace", str(settings.workspace), "--json"]
    printed = json.loads(CliRunner().invoke(root, ["status", *place]).stdout)
    for document in (said, printed):
        assert {name: type(document[name]) for name in ASKED} == ASKED
        assert {name: set(document[name]) for name in INSIDE} == INSIDE
    assert said["files"] == 1 and said["sources"]["memory"]["documents"] >= 2
    assert said["sources"]["sessions"] == {"documents": 1, "chunks": 1}
    assert sum(source["chunks"] for source in said["sources"].values()) == said["chunks"] > 0
    assert said["dirty"] is bool(said["dirty_because"])
    assert said["identity"] == {"status": "valid", "reason": None, "command": None}
    assert said["generation"] == {"number": 1, "state": "current", "kept": []}
    assert said["fts"] == {"enabled": True, "available": True, "error": None}
    assert (said["encrypted"], said["isolation"]) == (False, "agent file and session filter")
    assert (said["retention_days"], said["profile_scope"], said["dreaming"]) == (90, "session", "unsupported")
    assert said["last_sync"]["at"] is not None and said["last_sync"]["error"] is None


def test_fields_of_the_manager(settings: Settings) -> None:
    """The same facts in the contract's words."""
    with Memory.open(settings=settings) as memory:
        remember(memory)
        memory.index()
        said = wire(memory.search_manager().status())
    assert {"files", "chunks", "dirty", "sources", "sourceCounts", "fts", "vector", "custom"} <= set(said)
    assert set(said["custom"]) == CUSTOM
    assert set(said["vector"]) >= {"enabled", "available"} and said["fts"]["available"] is True
    assert said["custom"]["indexIdentity"]["status"] == "valid"
    assert (said["custom"]["retentionDays"], said["custom"]["pendingWrites"]) == (90, 0)
    assert set(said["custom"]["sizes"]) == {"store", "storeWal", "index", "indexWal", "reusable"}


def test_why_it_is_dirty(settings: Settings) -> None:
    """A note that was not taken in yet, and a workspace that is not there, are each said in words."""
    assert settings.workspace is not None
    with Memory.open(settings=settings) as memory:
        memory.index()
        (settings.workspace / "memory" / "more.md").write_text("More.\n", "utf-8")
        said = memory.status()
        changed = said["index"]["dirty_notes"]  # notes that were just written are looked at again, and count
        assert said["dirty"] and changed >= 1
        assert said["dirty_because"] == [f"notes that came, went or changed: {changed}"]
        settings.workspace.rename(settings.workspace.with_name("elsewhere"))
        assert memory.status()["dirty_because"] == ["the workspace is not there"]


def test_what_kept_the_last_sync_from_ending(settings: Settings) -> None:
    """Its code, until the next one that ends."""
    assert settings.workspace is not None
    moved = settings.workspace.with_name("elsewhere")
    with Memory.open(settings=settings) as memory:
        memory.index()
        settings.workspace.rename(moved)
        with pytest.raises(errors.WorkspaceUnavailable):
            memory.index()
        assert memory.status()["last_sync"]["error"] == "workspace_unavailable"
        assert wire(memory.search_manager().status())["lastSyncError"] == "workspace_unavailable"
        moved.rename(settings.workspace)
        memory.index()
        assert memory.status()["last_sync"]["error"] is None


def test_an_index_that_is_gone(settings: Settings) -> None:
    """The store answers; of the index it is said what is wrong with it and what to run."""
    with Memory.open(settings=settings) as memory:
        remember(memory)
        directory = memory._opened.store.directory  # type: ignore[union-attr]
    next(directory.glob("index-*.sqlite")).unlink()
    with Memory.open(settings=settings, read_only=True) as memory:
        said = memory.status(deep=True)
    assert said["turns"] == 1 and said["dirty"] is True
    assert said["identity"]["status"] == "unavailable" and said["identity"]["command"] == "memory-sqlite index --full"
    assert (
        said["fts"]["available"] is False and said["fts"]["error"] and said["dirty_because"] == [said["fts"]["error"]]
    )
    assert said["deep"]["integrity"] == {"store": "ok", "index": None}


def test_generations_that_are_kept(settings: Settings) -> None:
    """One that a reader still has open is named with its state and size."""
    with Memory.open(settings=settings) as memory, Memory.open(settings=settings, read_only=True) as reader:
        assert reader._opened is not None
        with reader._opened.keeper.reader():
            memory.index(full=True)
            kept = memory.status()["generation"]["kept"]
    assert [(one["number"], one["state"]) for one in kept] == [(1, "retired")] and kept[0]["bytes"] > 0


def test_deep(settings: Settings) -> None:
    """Whole, bytes of each table, pages, rows against chunks; and the same numbers as the file has."""
    with Memory.open(settings=settings) as memory:
        remember(memory)
        memory.index()
        said = memory.status(deep=True)["deep"]
        assert "deep" not in memory.status()
    assert set(said) == {"integrity", "tables", "pages", "parity", "processes"}
    assert said["integrity"] == {"store": "ok", "index": "ok"} and said["parity"] == {"lexical": "ok", "vectors": []}
    for file in ("store", "index"):
        pages = said["pages"][file]
        used = sum(said["tables"][file].values())
        assert used + pages["reusable"] * pages["size"] == pages["count"] * pages["size"]
    assert "messages" in said["tables"]["store"] and "lexical_data" in said["tables"]["index"]


def test_deep_for_people(settings: Settings) -> None:
    with Memory.open(settings=settings) as memory:
        remember(memory)
    result = CliRunner().invoke(root, ["status", "--deep", "--data-dir", str(settings.data_dir)])
    assert result.exit_code == 0 and "messages: 4.0 KiB" in result.stdout


def test_reading_status_makes_and_changes_nothing(settings: Settings) -> None:
    """Not a byte, not a file but SQLite's own ``-shm`` and ``-wal``, which are gone when it is closed."""
    with Memory.open(settings=settings) as memory:
        remember(memory)
    before = snapshot(settings.data_dir)
    with Memory.open(settings=settings, read_only=True) as memory:
        memory.status(deep=True)
        now = {name for name in snapshot(settings.data_dir) if not name.endswith(("-shm", "-wal"))}
        assert now == set(before)
    after = {name: seen for name, seen in snapshot(settings.data_dir).items() if not name.endswith(("-shm", "-wal"))}
    assert after == before


def snapshot(place: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(place)): (path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_ino)
        for path in place.rglob("*")
        if path.is_file()
    }
