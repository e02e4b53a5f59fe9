"""The JSON documents of the command line are frozen: names are added to them, never renamed or dropped."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite.cli.app import root
from memory_sqlite.cli.hits import heading
from memory_sqlite.model import Hit

PAGE = ["ok", "query", "hits", "coverage", "stale", "warnings", "withheld", "disabled", "routes"]
HIT = [
    "reference", "path", "start_line", "end_line", "excerpt", "matches", "score", "source", "layer", "citation",
    "provenance", "time", "heading", "title", "session", "message_id", "speaker", "importance", "triggers", "projects",
    "duplicates", "explanation",
]  # fmt: skip
PASSAGE = [
    "ok", "status", "reference", "path", "text", "from_line", "lines", "truncated", "next_from", "next_offset",
    "source", "layer", "provenance", "time",
]  # fmt: skip
BLOCK = ["ok", "text", "hits", "reason", "elapsed_ms", "warnings"]
RECEIPT = [
    "ok", "status", "session", "turns", "messages", "episodes", "scenarios", "facts", "superseded", "redactions",
    "shortened", "searchable", "warnings",
]  # fmt: skip
IMPORTED = [
    "ok", "status", "files", "sessions", "turns_stored", "turns_known", "messages", "episodes", "facts", "shortened",
    "redactions", "refused", "ignored", "forgotten", "unknown_sessions", "unchanged", "seconds", "problems",
    "scenarios", "dry_run", "expires",
]  # fmt: skip
LAYERED = [
    "ok", "status", "path", "agent", "encrypted", "files", "bytes", "counts", "left_out", "moved", "seconds",
]  # fmt: skip
SPOKEN = [
    "ok", "status", "path", "agent", "sessions", "lines", "bytes", "messages", "masked", "shortened", "without_data",
    "seconds",
]  # fmt: skip
EXPORTED = ["ok", "status", "path", "agent", "lines", "bytes", "counts", "seconds"]
MERGED = [
    "ok", "status", "dry_run", "agent", "exported_at", "same_key", "lines", "added", "updated", "present", "conflicts",
    "forgotten", "left", "moved", "redactions", "searchable", "seconds", "problems", "expires",
]  # fmt: skip
LINES = [
    "tombstone", "session", "turn", "message", "record", "record_source", "accepted_run", "accepted_advancement",
    "outbox", "recall", "hold",
]  # fmt: skip
INDEXED = [
    "ok", "status", "generation", "added", "changed", "removed", "unchanged", "chunks", "applied_changes", "seconds",
    "problems", "vectors",
]  # fmt: skip
SESSION = [
    "session", "token", "chat_type", "kind", "sender_is_owner", "owner_private", "indexed", "project", "turns",
    "messages", "started_at", "active_at",
]  # fmt: skip
STATUS = [
    "ok", "agent", "status", "data_dir", "store", "workspace", "compatibility", "profile_scope", "redact_secrets",
    "encrypted", "library", "retention_days", "read_only", "sessions", "internal_sessions", "turns", "messages",
    "records", "superseded", "redactions", "shortened", "sizes", "index", "dreaming", "vectors",
    "files", "chunks", "dirty", "dirty_because", "sources", "generation", "identity", "fts", "vector", "last_sync",
    "isolation", "pending_writes",
]  # fmt: skip
EXPLANATION = [
    "ok", "query", "now", "zone", "tokens", "left_out", "terms", "dates", "filters", "match", "routes", "scored",
    "candidates", "target", "coverage", "stale", "warnings", "withheld", "disabled",
]  # fmt: skip
TERM = ["text", "kind", "reading", "words", "weight", "documents", "rarity", "required", "chosen"]
CANDIDATE = [
    "rank", "reference", "citation", "source", "layer", "score", "parts", "terms", "nearby", "verdict", "place", "of",
]  # fmt: skip
TARGET = [
    "reference", "found", "reason", "detail", "passages", "citation", "rank", "place", "score", "parts", "terms",
    "missing", "filters", "of",
]  # fmt: skip
FACTS = ["ok", "query", "pinned", "named", "left_off", "warnings", "disabled"]
ENDED = ["ok", "ended", "unknown", "disabled"]
EXAMINED = [
    "ok", "data_dir", "status", "agent", "findings", "notes", "checks", "mendings", "quarantine", "versions", "seconds",
]  # fmt: skip
FINDING = ["code", "severity", "evidence", "names", "meaning", "fix", "command", "mends"]
EVALUATION = ["ok", "k", "overall", "categories", "p50_ms", "p95_ms", "answers", "warnings", "disabled"]
MEASURED = ["questions", "figures", "empty", "empty_right"]
ANSWERED = ["line", "category", "rank", "recall", "right", "ms"]
EXPIRES = ["days", "sessions", "first_at", "last_at"]
PRUNED = [
    "ok", "status", "dry_run", "rule", "days", "sessions", "turns", "messages", "episodes", "scenarios", "facts",
    "facts_kept", "waiting", "day_files", "tombstones", "expired", "held", "pinned", "running", "old_notes", "clock",
    "generations", "searched_for", "verified", "reasons", "seconds",
]  # fmt: skip
EXPIRED = ["session", "token", "last_at", "layers", "turns", "messages", "records", "gone"]
HELD = ["ok", "status", "session", "token", "kind", "reason"]
HOLD = ["session", "token", "kind", "reason", "at"]
QUICKSTART = [
    "ok", "agent", "data_dir", "workspace", "files", "imported", "indexed", "searches", "recall", "status",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))


def call(*words: str, stdin: str | None = None) -> dict[str, Any]:
    result = CliRunner().invoke(root, [*words, "--json"], input=stdin)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["ok"] is True
    return document


def test_documents_of_the_main_job(tmp_path: Path) -> None:
    """Remember, index, search, get, recall, sessions, status: the fields of each, in order."""
    note = tmp_path / "workspace" / "memory" / "net.md"
    note.parent.mkdir(parents=True)
    note.write_text("# Network\n\nThe router is in VLAN 20.\n")
    receipt = call("remember", "--user", "I love oolong tea.", "--assistant", "Noted.", "--run-id", "r1")
    assert list(receipt) == RECEIPT
    assert (receipt["status"], receipt["session"], receipt["messages"]) == ("stored", "cli", 2)
    assert call("remember", "--user", "I love oolong tea.", "--run-id", "r1")["status"] == "duplicate"
    indexed = call("index", "--workspace", str(tmp_path / "workspace"))
    assert list(indexed) == INDEXED
    page = call("search", "router", "VLAN")
    assert list(page) == PAGE
    hit = page["hits"][0]
    assert list(hit) == HIT
    assert (hit["path"], hit["source"], hit["layer"]) == ("memory/net.md", "memory", None)
    assert hit["citation"].startswith("memory/net.md#L")
    first = hit["matches"][0]
    assert list(first) == ["start", "end"]
    assert hit["excerpt"][first["start"] : first["end"]].lower() in ("router", "vlan")
    passage = call("get", hit["reference"])
    assert list(passage) == PASSAGE
    assert passage["status"] == "ok"
    assert "VLAN 20" in passage["text"]
    part = call("get", "memory/net.md", "--from", "3", "--offset", "4", "--lines", "1")
    assert part["text"].rstrip() == "router is in VLAN 20."
    assert call("get", "memory/absent.md")["status"] == "not_found"
    block = call("recall", "which tea do I love?")
    assert list(block) == BLOCK
    assert "oolong" in block["text"]
    sessions = call("sessions")
    assert list(sessions) == ["ok", "count", "sessions"]
    assert (sessions["count"], sessions["sessions"][0]["session"]) == (1, "cli")
    assert list(sessions["sessions"][0]) == SESSION
    assert "cli  direct, owner  1 turn, 2 messages" in CliRunner().invoke(root, ["sessions"]).stdout
    status = call("status")
    assert list(status) == STATUS
    assert (status["agent"], status["turns"], status["index"]["documents"]["note"]) == ("main", 1, 1)


def test_documents_of_facts() -> None:
    """Added, listed by name, ended: the fields of each, in order; an added one is a receipt."""
    receipt = call("facts", "add", "The crane is serviced in May.", "--name", "crane service")
    assert list(receipt) == RECEIPT
    found = call("facts", "list", "when is the crane service?")
    assert list(found) == FACTS
    assert [list(hit) for hit in found["named"]] == [HIT]
    assert (found["named"][0]["reference"], found["named"][0]["triggers"]) == (receipt["facts"][0], ["crane service"])
    assert call("facts", "list")["query"] is None
    ended = call("facts", "remove", "Crane Service", "nothing at all")
    assert list(ended) == ENDED
    assert (ended["ended"], ended["unknown"]) == (receipt["facts"], ["nothing at all"])


def test_documents_of_explain_and_eval(tmp_path: Path) -> None:
    """The fields of each, in order, with a thing asked about that is found."""
    note = tmp_path / "workspace" / "memory" / "net.md"
    note.parent.mkdir(parents=True)
    note.write_text("# Network\n\nThe router is in VLAN 20.\n")
    call("index", "--workspace", str(tmp_path / "workspace"))
    explained = call("explain", "router VLAN", "memory/net.md")
    assert list(explained) == EXPLANATION
    assert list(explained["terms"][0]) == TERM
    assert list(explained["candidates"][0]) == CANDIDATE
    assert list(explained["target"]) == TARGET
    assert (explained["target"]["reason"], explained["target"]["place"]) == ("hit", 1)
    assert call("explain", "router")["target"] is None
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"query": "router", "expected": ["memory/net.md"]}\n')
    evaluation = call("eval", str(queries))
    assert list(evaluation) == EVALUATION
    assert list(evaluation["overall"]) == list(evaluation["categories"][""]) == MEASURED
    assert list(evaluation["answers"][0]) == ANSWERED
    assert evaluation["overall"]["figures"]["recall@10"] == 1.0


def test_documents_of_imports(tmp_path: Path) -> None:
    """One odd line costs that line: the report counts it, the exit code stays 0."""
    transcript = tmp_path / "chat.jsonl"
    lines = [
        {"role": "user", "content": "Where is the key?"},
        {"role": "assistant", "content": "Behind the barometer."},
    ]
    transcript.write_text("\n".join([*(json.dumps(line) for line in lines), "{broken"]) + "\n")
    report = call("import", "transcripts", str(transcript))
    assert list(report) == IMPORTED
    assert (report["status"], report["messages"], report["refused"]) == ("partial", 2, 1)
    assert list(report["problems"][0]) == ["path", "reason", "line"]
    assert report["problems"][0]["line"] == 3
    assert list(report["expires"]) == EXPIRES
    assert (report["expires"]["days"]["L0"], report["expires"]["sessions"]) == (90, 1)
    again = call("import", "transcripts", str(transcript))
    assert (again["turns_stored"], again["turns_known"] + again["unchanged"]) == (0, 1)


def test_documents_of_exports(tmp_path: Path) -> None:
    """Out and in again: the fields of both, in order, and every kind of line in each mapping."""
    call("remember", "--user", "I love oolong tea.")
    exported = call("export", str(tmp_path / "a.jsonl"))
    assert list(exported) == EXPORTED
    assert list(exported["counts"]) == LINES
    layered = call("export", "--as", "layered", str(tmp_path / "layered"))
    assert list(layered) == LAYERED
    assert list(layered["counts"]) == ["L0", "L1", "L2", "L3"]
    spoken = call("export", "--as", "transcripts", str(tmp_path / "transcripts"))
    assert list(spoken) == SPOKEN
    merged = call("import", str(tmp_path / "a.jsonl"), "--agent", "copy")
    assert list(merged) == MERGED
    for outcome in ("added", "updated", "present", "conflicts", "forgotten", "left"):
        assert list(merged[outcome]) == LINES
    assert merged["added"]["message"] == exported["counts"]["message"] == 1


def test_documents_of_retention() -> None:
    """Prune, hold, the list of what is kept: the fields of each, in order."""
    call("remember", "--user", "I love oolong tea.")
    pruned = call("prune", "--dry-run")
    assert list(pruned) == PRUNED
    assert (pruned["status"], pruned["days"]) == ("nothing", {"L0": 90, "L1": 90, "L2": 90, "L3": None})
    held = call("hold", "cli", "--reason", "case 114")
    assert list(held) == HELD
    assert (held["status"], held["kind"]) == ("held", "legal")
    listed = call("hold")
    assert list(listed) == ["ok", "holds"]
    assert [list(one) for one in listed["holds"]] == [HOLD]
    assert call("hold", "cli", "--release")["status"] == "released"


KEYS = [
    "ok", "action", "status", "source", "target", "cipher", "user_key", "agents", "done_before", "resumed",
    "free_needed", "backups",
]  # fmt: skip
REKEYED = ["directory", "was", "bytes", "rows", "index", "index_dropped"]
KEY_STATUS = [
    "ok", "state", "opens", "problem", "key_id", "user_key", "cipher", "kdf", "change", "files", "backups",
]  # fmt: skip


def test_documents_of_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Status before and after, encrypt, rotate, change the passphrase, decrypt: the fields of each, in order."""
    call("remember", "--user", "I love oolong tea.")
    assert call("key", "status")["state"] == "plain"
    monkeypatch.setenv("MEMORY_SQLITE_ENCRYPTION_KEY_ENV", "MEMORY_KEY")
    monkeypatch.setenv("MEMORY_KEY", "k" * 32)
    monkeypatch.setenv("NEXT_KEY", "n" * 32)
    backup = str(tmp_path / "backup")
    planned = call("key", "encrypt", "--dry-run")
    assert (list(planned), planned["status"]) == (KEYS, "planned")
    done = call("key", "encrypt")
    assert (list(done), done["status"], [list(one) for one in done["agents"]]) == (KEYS, "done", [REKEYED])
    assert call("key", "encrypt")["status"] == "nothing"
    call("backup", backup)
    status = call("key", "status", "--backup", backup)
    assert (list(status), status["state"], status["opens"]) == (KEY_STATUS, "encrypted", True)
    assert [list(one) for one in status["files"]] == [["name", "state", "bytes"]] * 2
    assert [(list(one), one["old"]) for one in status["backups"]] == [(["path", "needs", "old"], False)]
    rotated = call("key", "rotate", "--cipher", "sqlcipher", "--backup", backup)
    assert (rotated["source"], rotated["cipher"]) == (done["target"], "sqlcipher")
    assert done["target"] in rotated["backups"][0]["needs"]
    changed = call("key", "change-passphrase", "--new-key-env", "NEXT_KEY", "--backup", backup)
    assert changed["target"] == rotated["target"]
    assert changed["backups"][0]["old"] is True
    assert call("key", "status")["opens"] is False
    monkeypatch.setenv("MEMORY_KEY", "n" * 32)
    assert len(call("search", "oolong")["hits"]) >= 1
    assert call("key", "decrypt")["target"] is None


def test_remember_reads_a_document(tmp_path: Path) -> None:
    """Standard input is a turn; what the options say wins; a group's speaker is no owner unless said."""
    turn = {"session": "friday", "chat_type": "group", "messages": [{"role": "user", "content": "I like walnuts."}]}
    assert call("remember", stdin=json.dumps(turn))["session"] == "friday"
    assert call("remember", "--session", "monday", stdin=json.dumps(turn["messages"]))["session"] == "monday"
    found = {session["session"]: session for session in call("sessions")["sessions"]}
    assert (found["friday"]["chat_type"], found["friday"]["sender_is_owner"]) == ("group", False)
    assert (found["monday"]["chat_type"], found["monday"]["sender_is_owner"]) == ("direct", True)


def test_quickstart_twice(tmp_path: Path) -> None:
    """It finds something in each language, says where the files are, keeps to its own agent, and can be repeated."""
    first = call("quickstart")
    assert list(first) == QUICKSTART
    assert first["agent"] == "quickstart"
    assert first["imported"]["turns_stored"] == 12
    assert all(page["hits"] for page in first["searches"])
    assert "oolong" in first["recall"]["text"]
    assert all(Path(path).is_file() for path in first["files"])
    edited = Path(first["workspace"]) / "memory" / "ferry.md"
    edited.write_text("The Petrel was sold.\n")
    second = call("quickstart")
    assert second["imported"]["turns_stored"] == 0
    assert edited.read_text() == "The Petrel was sold.\n"
    assert [path.name.rpartition("-")[0] for path in (tmp_path / "data" / "agents").iterdir()] == ["quickstart"]
    human = CliRunner().invoke(root, ["quickstart"])
    assert human.exit_code == 0
    assert "> search" in human.stdout
    assert "memory.sqlite" in human.stdout


def test_documents_of_the_doctor() -> None:
    """The report, a note or finding, a check: the fields of each, in order."""
    examined = call("doctor")
    assert list(examined) == EXAMINED
    assert [list(one) for one in examined["notes"]] == [FINDING]
    assert (examined["notes"][0]["code"], examined["status"]) == ("agent_absent", "clean")
    assert list(examined["checks"][0]) == ["name", "state", "reason"]
    assert next(iter(examined["versions"])) == "memory-sqlite"


def test_every_field_is_documented() -> None:
    """docs/json.md names every field of every document."""
    text = (resources.files("memory_sqlite") / "docs" / "json.md").read_text("utf-8")
    for names in (PAGE, HIT, PASSAGE, BLOCK, RECEIPT, IMPORTED, INDEXED, SESSION, STATUS, QUICKSTART, LAYERED, SPOKEN):
        for name in names[1:]:
            assert f"`{name}`" in text, name
    for command, names in (
        ("facts list", FACTS + ENDED[1:]),
        ("explain", EXPLANATION + TERM + CANDIDATE + TARGET),
        ("eval", EVALUATION + MEASURED),
        ("doctor", EXAMINED + FINDING),
        ("prune", PRUNED + EXPIRED),
        ("hold", HELD + HOLD),
        ("import jsonl", MERGED),
    ):
        section = text.split(f"## `{command}`", 1)[1].split("\n## ", 1)[0]
        for name in (*names[1:], *(ANSWERED if command == "eval" else ())):
            assert f"`{name}`" in section, (command, name)


def test_a_hit_for_people_has_rank_score_citation_and_time() -> None:
    """The human form: enough to judge and to cite; nothing stored can break the line."""
    hit = Hit(
        reference="r", path="sessions/t", start_line=3, end_line=3, excerpt="x", matches=(), score=0.829,
        source="sessions", layer="L0", citation="sessions/t#L3", provenance={}, time="2026-07-15T08:30:00.120Z",
        session="agent:main\n\x1b[2J", speaker="Mia",
    )  # fmt: skip
    assert heading(1, hit) == "1. 0.83  sessions/t#L3  2026-07-15 08:30Z  Mia in agent:main"
