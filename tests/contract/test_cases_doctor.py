"""Cases of other products' doctors that told too much, too little, or the wrong cure; inputs as the cases give them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from memory_sqlite import Memory
from memory_sqlite.cli.app import root
from memory_sqlite.config import Settings
from memory_sqlite.doctor.catalogue import FINDINGS
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY
from memory_sqlite.paths import agent_directory


@pytest.fixture
def data(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory with a note and a turn; the command line finds it by its environment."""
    (workspace / "memory" / "a.md").write_text("granite\n")
    data = tmp_path / "data"
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(data))
    monkeypatch.setenv("MEMORY_SQLITE_WORKSPACE", str(workspace))
    with Memory.open(settings=Settings(data_dir=data, workspace=workspace)) as memory:
        said = [{"role": "user", "content": "I love slate."}]
        memory.remember(session="s-001", chat_type="direct", sender_is_owner=True, messages=said)
        memory.index()
    return data


def doctor(*words: str, expected: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(root, ["doctor", *words, "--json"])
    assert result.exit_code == expected, result.output
    assert result.stdout.count("\n") == 1
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["ok"] is True
    return document


def by_code(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["code"]: one for one in (*document["findings"], *document["notes"])}


def check(document: dict[str, Any], name: str) -> str:
    (state,) = [one["state"] for one in document["checks"] if one["name"] == name]
    return str(state)


def run(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    try:
        for statement in statements:
            connection.execute(statement).fetchall()
    finally:
        connection.close()


class Embedder:
    """Reachable, or down."""

    cost: Any = "free"
    up = True
    identity = EmbeddingIdentity("case", "m", 2, "1")
    limits = InputLimits(text_chars=1_000, batch_texts=4, batch_chars=4_000)
    weight = Weight()

    def load(self, timeout_s: float) -> None:
        if not Embedder.up:
            raise ConnectionRefusedError

    def embed_query(self, text: str, timeout_s: float) -> list[float]:
        return [1.0, 0.0]

    def embed_documents(self, texts: Any, timeout_s: float) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    def close(self) -> None:
        pass


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Embedder]]:
    REGISTRY.plugin("cases-doctor", ["case"]).register("case", lambda settings: Embedder())
    monkeypatch.setenv("MEMORY_SQLITE_EMBEDDING_PROVIDER", "case")
    Embedder.up = True
    yield Embedder
    REGISTRY.retire("cases-doctor", 10.0)


def test_case_C110_what_was_not_checked_is_no_warning(
    data: Path, embedder: type[Embedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default the embedder is skipped, with --deep probed; down it is a warning that leaves word search as it is;
    switched off it is off."""
    plain = doctor()
    assert (plain["status"], check(plain, "embedding")) == ("clean", "skipped")
    deep = doctor("--deep")
    assert (deep["status"], check(deep, "embedding")) == ("clean", "ok")
    embedder.up = False
    down = doctor("--deep", expected=3)
    assert [(one["code"], one["severity"]) for one in down["findings"]] == [("embedding_failed", "warning")]
    assert (check(down, "embedding"), check(down, "index")) == ("findings", "ok")
    monkeypatch.setenv("MEMORY_SQLITE_EMBEDDING_PROVIDER", "none")
    off = doctor("--deep")
    assert (off["status"], check(off, "embedding")) == ("clean", "off")


def damaged_words(data: Path) -> None:
    run(agent_directory(data, "main") / "index-000001.sqlite", "DELETE FROM lexical_data WHERE id > 100")


def damaged_facts(data: Path) -> None:
    store = agent_directory(data, "main") / "memory.sqlite"
    connection = apsw.Connection(str(store))
    page = int(str(connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'records'").get))
    size = int(str(connection.pragma("page_size")))
    connection.close()
    content = bytearray(store.read_bytes())
    content[(page - 1) * size : page * size] = b"\xa5" * size
    store.write_bytes(bytes(content))


def test_case_C112_each_kind_of_fault_has_its_own_cure(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word index, the facts' table, the key, the permissions, the version: five codes, and no cure of another."""
    seen = {}
    harms: dict[str, Callable[[Path], object]] = {
        "A": damaged_words,
        "B": damaged_facts,
        "C": lambda place: (place / "session.key").write_bytes(b"k" * 32),
        "E": lambda place: run(agent_directory(place, "main") / "memory.sqlite", "PRAGMA user_version = 999"),
    }
    for variant, harm in harms.items():
        place = tmp_path / variant
        shutil.copytree(data, place)
        harm(place)
        monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(place))
        (seen[variant], *_) = doctor(expected=3)["findings"]
    with monkeypatch.context() as patch:
        real = os.access
        patch.setattr(os, "access", lambda path, mode, **more: False if mode == os.W_OK else real(path, mode, **more))
        patch.setenv("MEMORY_SQLITE_DATA_DIR", str(data))
        seen["D"] = by_code(doctor())["directory_read_only"]
    assert {variant: one["code"] for variant, one in seen.items()} == {
        "A": "index_damaged",
        "B": "store_damaged",
        "C": "session_key_changed",
        "D": "directory_read_only",
        "E": "schema_too_new",
    }
    assert seen["A"]["command"] == "memory-sqlite index --full"
    assert "lexical" in seen["A"]["evidence"]["objects"]
    assert seen["B"]["evidence"]["tables"] == "records"
    assert "backup" in seen["B"]["fix"] and "Building the index anew does not help" in seen["B"]["fix"]
    assert "index" not in seen["B"]["command"]
    assert "session.key" in seen["C"]["fix"]
    assert "permissions" in seen["D"]["fix"]
    assert "Upgrade" in seen["E"]["fix"]
    for kind in FINDINGS.values():  # a backup that has the same fault is no cure: only one that was verified is
        assert "damage" not in kind.meaning or "restore" not in kind.fix or "memory-sqlite verify" in kind.fix


def test_case_C114_leftovers_are_counted_and_set_aside(data: Path) -> None:
    """Two dead builds of three days ago, one that a process has open, and a file of somebody else; half of the chunks
    are deleted under their vectors. The dead ones go into the quarantine, the live one and the stranger stay."""
    directory = agent_directory(data, "main")
    current = directory / "index-000001.sqlite"
    three_days_ago = current.stat().st_mtime - 3 * 86_400
    for number in (7, 8):
        for ending in ("", "-wal", "-shm"):
            path = directory / f"index-00000{number}.sqlite{ending}"
            path.write_bytes(current.read_bytes() if not ending else b"")
            path.chmod(0o600)
            os.utime(path, (three_days_ago, three_days_ago))
    live = directory / "index-000009.sqlite"
    live.write_bytes(current.read_bytes())
    live.chmod(0o600)
    (directory / "stranger.txt").write_bytes(b"mine")
    run(
        current,
        "INSERT INTO vector_spaces VALUES (1, '{\"model\": \"m\"}', 2, '{}', 'complete', 'free')",
        "INSERT INTO vectors (space_id, chunk_id, input_hash, vector)"
        " SELECT 1, id, x'00', x'0000803f00000000' FROM chunks",
        "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks LIMIT (SELECT count(*) / 2 FROM chunks))",
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", "import apsw, sys; c = apsw.Connection(sys.argv[1]);"
         "c.execute('SELECT count(*) FROM chunks').fetchall(); print('open', flush=True); sys.stdin.read()", str(live)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "open\n"
        before = doctor(expected=3)
        leftovers = [one["evidence"] for one in before["findings"] if one["code"] == "index_leftover"]
        assert [one["file"] for one in leftovers] == ["index-000007.sqlite", "index-000008.sqlite"]
        assert {one["bytes"] for one in leftovers} == {current.stat().st_size}
        vectors = by_code(before)["vectors_inconsistent"]["evidence"]
        assert 0 < vectors["without_chunk"] <= vectors["vectors"]
        assert by_code(before)["foreign_file"]["names"] == [f"agents/{directory.name}/stranger.txt"]
        if sys.platform == "linux":
            assert by_code(before)["index_held"]["evidence"]["processes"] == str(holder.pid)
        mended = doctor("--fix")
        assert {one["outcome"] for one in mended["mendings"]} == {"mended"}
        assert not {"index_leftover", "vectors_inconsistent"} & set(by_code(mended))
        quarantine = directory / mended["quarantine"]
        assert {"index-000007.sqlite", "index-000008.sqlite"} <= {path.name for path in quarantine.iterdir()}
        assert live.exists() and (directory / "stranger.txt").read_bytes() == b"mine"
    finally:
        holder.communicate(timeout=60)


def test_case_C116_records_without_their_sources_are_listed(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts whose messages were deleted behind the program's back are named, those of another source that lives count
    as partly sourced, and so are the episodes and scenarios over the same turns; nothing is changed without --fix."""
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", extraction_interval=3)) as memory:
        for number, text in enumerate(("I love granite tea.", "I love slate.", "I love slate."), 1):
            said = [{"role": "user", "content": text}]
            memory.remember(
                session="s-001", run_id=f"r{number}", chat_type="direct", sender_is_owner=True, messages=said
            )
    store = agent_directory(tmp_path / "data", "main") / "memory.sqlite"
    run(
        store,
        "PRAGMA foreign_keys = 0",
        "DELETE FROM messages WHERE turn_id IN (SELECT id FROM turns WHERE ordinal IN (1, 2))",
        "UPDATE records SET turn_id = 999 WHERE layer = 'L3' AND content LIKE '%granite%'",
    )
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute("SELECT record_id, layer, content FROM records ORDER BY id").fetchall()
    real = dict(connection.execute("SELECT layer, count(*) FROM records GROUP BY layer").fetchall())
    connection.close()
    before = store.read_bytes()
    finding = by_code(doctor(expected=3))["sources_dangling"]
    assert store.read_bytes() == before
    facts = {str(content): str(record) for record, layer, content in rows if layer == "L3"}
    bare = next(record for content, record in facts.items() if "granite" in content)
    partly = next(record for content, record in facts.items() if "slate" in content)
    scenario = next(str(record) for record, layer, _ in rows if layer == "L2")
    assert {bare, partly, scenario} <= set(finding["names"])
    assert finding["names"].index(bare) < finding["names"].index(partly)
    assert finding["evidence"]["partly_sourced"] == 2  # the fact that was said twice, and the scenario
    assert finding["evidence"]["L2"] == 1
    status = json.loads(CliRunner().invoke(root, ["status", "--json"]).stdout)
    assert {layer: number for layer, number in status["records"].items() if number} == real


def test_doctor_for_people(data: Path) -> None:
    """What is wrong, what it means, what to type; what was skipped; the exit code."""
    healthy = CliRunner().invoke(root, ["doctor"])
    assert healthy.exit_code == 0
    assert "nothing is wrong" in healthy.stdout
    assert "skipped: transcripts" in healthy.stdout
    data.chmod(0o755)
    ill = CliRunner().invoke(root, ["doctor"])
    assert ill.exit_code == 3
    assert "warning: permissions_open (files 1)" in ill.stdout
    assert "$ memory-sqlite doctor --fix" in ill.stdout
    assert "1 finding;" in ill.stdout
    mended = CliRunner().invoke(root, ["doctor", "--fix"])
    assert (mended.exit_code, "mended: permissions_open" in mended.stdout) == (0, True)


def test_doctor_offers_to_bring_in_what_is_found(data: Path) -> None:
    """A note that asks for nothing shows no command; one that can be acted on shows it, and is no finding."""
    (data / "conversations").mkdir(mode=0o700)
    (data / "conversations" / "2026-01-01.jsonl").write_text("{}\n")
    told = CliRunner().invoke(root, ["doctor"])
    assert told.exit_code == 0
    assert "info: legacy_found (directories 1, files 1)" in told.stdout
    assert "$ memory-sqlite import layered PATH" in told.stdout
    assert "  Nothing" not in CliRunner().invoke(root, ["--agent", "nobody", "doctor"]).stdout


def test_doctor_without_settings_or_memory(tmp_path: Path) -> None:
    """A wrong setting is a finding with its name; an agent that is not there is worth a note; disabled says so."""
    environment = {"MEMORY_SQLITE_MAX_READ_LINES": "0"}
    result = CliRunner().invoke(root, ["doctor", "--json"], env=environment)
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert (document["findings"][0]["code"], document["data_dir"]) == ("configuration_invalid", None)
    assert "max_read_lines" in document["findings"][0]["evidence"]["reason"]
    nowhere = CliRunner().invoke(root, ["--data-dir", str(tmp_path / "none"), "doctor", "--json"])
    assert (nowhere.exit_code, [one["code"] for one in json.loads(nowhere.stdout)["notes"]]) == (0, ["agent_absent"])
    off = CliRunner().invoke(root, ["doctor", "--json"], env={"MEMORY_SQLITE_ENABLED": "false"})
    assert (off.exit_code, json.loads(off.stdout)["status"]) == (0, "disabled")


def test_the_door_examines_from_several_threads(data: Path, workspace: Path) -> None:
    """Writes wait their turn and searches go on while it looks."""
    with Memory.open(settings=Settings(data_dir=data, workspace=workspace)) as memory:
        reports: list[str] = []
        threads = [threading.Thread(target=lambda: reports.append(memory.doctor().status)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert memory.search("granite").hits
        for thread in threads:
            thread.join()
        assert reports == ["clean"] * 3
