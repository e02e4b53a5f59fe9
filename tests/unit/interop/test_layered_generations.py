"""Layered-memory directories of every layout, clear and encrypted, as the tests' own writer makes them: all comes in,
the right key is told from a wrong one before anything is stored, and the originals stay what they were."""

from __future__ import annotations

import hashlib
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop.layered_key import adopt_session_key

OLD: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("layered_writer.py"))))
DM = "agent:main:wecom:dm:u-1001"
ROOM = "agent:main:wecom:group:g-1"
OTHER = "another-secret-with-at-least-32-bytes"


def bytes_of(root: Path) -> dict[str, str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lived_in(root: Path, layout: str, secret: str | None = None) -> Any:
    """Two sessions with all layers and facts of the whole agent, as far as the layout knows them."""
    old = OLD.Writer(root, layout, secret)
    old.turn(DM, ["My granite desk is in Bergen.", "Noted."], run="r1", sender="u-1001")
    old.turn(ROOM, ["We meet at the 花岗 gate.", "Fine."], sender="stranger")
    old.turn(DM, ["What about the crane?", "It is green."], run="r2", at="2026-07-16T01:00:00.000Z", day="2026-07-16")
    old.record("L1", DM, "My granite desk is in Bergen.", run="r1", sender="u-1001")
    old.record("L1", ROOM, "We meet at the 花岗 gate.")
    if layout != "G0":
        old.record("L2", DM, "会话场景：granite。", run="r1")
        old.record("L3", DM, "My granite desk", run="r1", keywords=["granite", "𠮷", "\udfb7x"])
    if layout == "G2":
        old.record("L3", DM, "I prefer the crane", shared=True)
    return old


def opened(tmp_path: Path, source: Path, **more: Any) -> Memory:
    adopt_session_key(source, tmp_path / "new")
    settings = Settings(data_dir=tmp_path / "new", compatibility="layered-memory", **more)
    return Memory.open(settings=settings, clock=FixedClock(1_785_000_000_000))


@pytest.mark.parametrize(
    ("layout", "secret"), [("G0", None), ("G1", None), ("G2", None), ("G1", OLD.SECRET), ("G2", OLD.SECRET)]
)
def test_every_layout_comes_in_whole(tmp_path: Path, layout: str, secret: str | None) -> None:
    """Turns with both voices, records of each layer, ids, times and runs; not a byte of the source changes."""
    source = tmp_path / "old"
    lived_in(source, layout, secret)
    before = bytes_of(source)
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source, secret=secret)
        assert (report.status, report.refused, report.problems) == ("ok", 0, ())
        assert (report.turns_stored, report.messages, report.sessions) == (3, 6, 2)
        facts = {"G0": 0, "G1": 1, "G2": 2}[layout]
        assert (report.episodes, report.scenarios, report.facts) == (2, int(layout != "G0"), facts)
        again = memory.import_layered(source, secret=secret)
        assert (again.turns_stored, again.messages, again.episodes, again.facts, again.refused) == (0, 0, 0, 0, 0)
        said = {row["session"]: (row["turns"], row["messages"]) for row in memory.sessions()}
        assert said == {DM: (2, 4), ROOM: (1, 2)}
        if layout != "G0":
            assert (
                memory.remember(session=DM, run_id="r1", messages=[{"role": "user", "content": "x"}]).status
                == "duplicate"
            )
        assert memory.search("granite", session=DM).hits
        token = OLD.token_of(DM)
        if layout == "G2":
            assert {row["token"] for row in memory.sessions()} == {token, OLD.token_of(ROOM)}
            assert "I prefer the crane" in memory.get("agent-profiles/2026-07-15.jsonl").text
            cited = memory.get(f"sessions/{token}/memories/2026-07-15.jsonl#L1")
            assert cited.time == "2026-07-15T08:30:00.123Z" and "granite desk" in cited.text
    assert bytes_of(source) == before


def test_messages_of_the_oldest_layout_become_turns(tmp_path: Path) -> None:
    """One line a message and all sessions in one file: what a person says begins a turn, answers belong to it."""
    old = OLD.Writer(tmp_path / "old", "G0")
    said = [("a", "user", "one"), ("b", "user", "other"), ("a", "assistant", "two"), ("a", "tool", "three"),
            ("b", "assistant", "reply"), ("a", "user", "four"), ("c", "assistant", "alone")]  # fmt: skip
    for number, (session, role, text) in enumerate(said):
        record = {"id": str(number), "role": role, "content": text, "sessionKey": session}
        old.append("conversations", "2026-05-01", {**record, "timestamp": 1_777_600_000_000 + number})
    with opened(tmp_path, tmp_path / "old") as memory:
        assert memory.import_layered(tmp_path / "old").turns_stored == 4
        assert {row["session"]: (row["turns"], row["messages"]) for row in memory.sessions()} == {
            "a": (2, 4), "b": (1, 2), "c": (1, 1),
        }  # fmt: skip
        assert memory.import_layered(tmp_path / "old").turns_stored == 0


def test_a_turn_of_the_oldest_layout_is_not_held_back_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound what is held comes out, and the rest of a turn is one of its own: nothing is lost."""
    monkeypatch.setattr("memory_sqlite.limits.LAYERED_OPEN_MESSAGES_MAX", 2)
    old = OLD.Writer(tmp_path / "old", "G0")
    for number, role in enumerate(("user", "assistant", "tool")):
        old.append("conversations", "2026-05-01", {"id": str(number), "role": role, "content": role, "sessionKey": "a"})
    with opened(tmp_path, tmp_path / "old") as memory:
        report = memory.import_layered(tmp_path / "old")
        assert (report.turns_stored, report.messages) == (2, 3)


def test_a_file_that_cannot_be_read_costs_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the key is being looked for: another file proves it."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2", OLD.SECRET)
    old.record("L1", DM, "first granite", day="2026-07-01")
    old.record("L1", DM, "second granite", day="2026-07-02")
    (source / ".encryption-check").unlink()
    real = Path.open

    def refuse(path: Path, *given: Any, **more: Any) -> Any:
        if path.name == "2026-07-01.jsonl":
            raise PermissionError(13, "Permission denied")
        return real(path, *given, **more)

    with opened(tmp_path, source) as memory:
        monkeypatch.setattr(Path, "open", refuse)
        report = memory.import_layered(source, secret=OLD.SECRET)
        assert (report.episodes, report.refused) == (1, 1)
        assert [problem.reason for problem in report.problems] == ["cannot be read: Permission denied"]


# --- the key, as its product checks it ------------------------------------------------------------------------------


def outcome(tmp_path: Path, source: Path, secret: str | None) -> str:
    """``ok``, or the code of the error; with an error nothing was stored."""
    with opened(tmp_path, source) as memory:
        try:
            memory.import_layered(source, secret=secret)
        except errors.MemorySqliteError as error:
            assert memory.sessions() == []
            return error.code
    return "ok"


@pytest.mark.parametrize(
    ("written", "check", "given", "expected"),
    [
        ("clear", "kept", None, "ok"),
        ("clear", "gone", None, "ok"),
        ("clear", "kept", OLD.SECRET, "store_not_encrypted"),
        ("clear", "gone", OLD.SECRET, "store_not_encrypted"),
        ("clear", "damaged", None, "unknown_format"),
        ("clear", "damaged", OLD.SECRET, "encryption_key_wrong"),
        ("sealed", "kept", OLD.SECRET, "ok"),
        ("sealed", "gone", OLD.SECRET, "ok"),
        ("sealed", "clear", OLD.SECRET, "ok"),
        ("sealed", "kept", None, "encryption_key_required"),
        ("sealed", "gone", None, "encryption_key_required"),
        ("sealed", "kept", OTHER, "encryption_key_wrong"),
        ("sealed", "gone", OTHER, "encryption_key_wrong"),
        ("sealed", "clear", OTHER, "encryption_key_wrong"),
        ("sealed", "damaged", OLD.SECRET, "encryption_key_wrong"),
        ("sealed", "kept", "x" * 31, "invalid_argument"),
    ],
)
def test_the_key_is_checked_before_the_first_row(
    tmp_path: Path, written: str, check: str, given: str | None, expected: str
) -> None:
    """The table of states of that product: blocks 28 to 30 of its tests among them."""
    source = tmp_path / "old"
    lived_in(source, "G2", OLD.SECRET if written == "sealed" else None)
    file = source / ".encryption-check"
    if check == "gone":
        file.unlink()
    elif check == "damaged":
        file.write_text('{"value":"openclaw-mem')
    elif check == "clear":
        file.write_text('{"value":"openclaw-memory-v1","encrypted":false}\n')
    before = bytes_of(source)
    assert outcome(tmp_path, source, given) == expected
    assert bytes_of(source) == before


def test_a_key_for_a_directory_without_records_is_no_mistake(tmp_path: Path) -> None:
    """There is nothing that it would have to open (block 28)."""
    old = OLD.Writer(tmp_path / "old", "G2")
    (old.home / "sessions").mkdir(parents=True)
    assert outcome(tmp_path, tmp_path / "old", OLD.SECRET) == "ok"


def test_a_backup_in_clear_beside_a_key_is_seen(tmp_path: Path) -> None:
    """Any record counts, even in .legacy-backup; and one line that opens proves the key."""
    old = OLD.Writer(tmp_path / "old", "G2")
    record = {"id": "1", "level": "L1", "content": "x", "sessionKey": DM}
    old.append(".legacy-backup/memories", "2026-07-01", record)
    assert outcome(tmp_path, tmp_path / "old", OLD.SECRET) == "store_not_encrypted"
    old.secret = OLD.SECRET
    old.record("L1", DM, "sealed granite")
    assert outcome(tmp_path, tmp_path / "old", OLD.SECRET) == "ok"


def test_lines_that_do_not_open_cost_themselves(tmp_path: Path) -> None:
    """Among sealed lines: one in clear, one altered, one of another key, a torn one; each told with file and line."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2", OLD.SECRET)
    old.record("L1", DM, "first granite")
    folder = old.folder(DM, "L1")
    clear = {"id": "9_a", "level": "L1", "content": "forged", "sessionKey": DM, "keywords": []}
    old.append(folder, "2026-07-15", OLD.dump(clear) + "\n")
    altered = json.loads(OLD.seal(OLD.dump(clear), OLD.SECRET, b"n" * 12))
    old.append(folder, "2026-07-15", OLD.dump({**altered, "iv": altered["tag"][:16]}) + "\n")
    old.append(folder, "2026-07-15", OLD.seal(OLD.dump(clear), OTHER, b"m" * 12) + "\n")
    old.record("L1", DM, "second granite")
    old.append(folder, "2026-07-15", '{"v":1,"iv":"AAEC')
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source, secret=OLD.SECRET)
        assert (report.status, report.episodes, report.refused) == ("partial", 2, 4)
        name = f"agents/{OLD.directory_of('main')}/{folder}/2026-07-15.jsonl"
        assert [(problem.path, problem.line) for problem in report.problems] == [(name, line) for line in (2, 3, 4, 6)]
        assert "second granite" in memory.get(f"sessions/{OLD.token_of(DM)}/memories/2026-07-15.jsonl#L5").text


def test_the_oldest_layout_beside_an_encrypted_one_is_in_clear_rightly(tmp_path: Path) -> None:
    """No later version took its files over or encrypted them."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2", OLD.SECRET)
    old.record("L1", DM, "sealed granite")
    OLD.Writer(source, "G0").turn(DM, ["older words"])
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source, secret=OLD.SECRET)
        assert (report.status, report.turns_stored, report.episodes) == ("ok", 1, 1)


# --- what else must not happen --------------------------------------------------------------------------------------


def test_a_dry_run_says_what_the_real_one_does(tmp_path: Path) -> None:
    """The same counts and problems, and nothing stored; also where some of it is here already."""
    source = tmp_path / "old"
    old = lived_in(source, "G2", OLD.SECRET)
    with opened(tmp_path, source) as memory:
        memory.import_layered(source, secret=OLD.SECRET)
        old.turn(DM, ["And the new crane?"], day="2026-07-17")
        old.record("L1", DM, "And the new crane?", day="2026-07-17")
        old.append(old.folder(DM, "L1"), "2026-07-17", "torn")
        before = memory.status()["records"], memory.sessions()
        tried = memory.import_layered(source, secret=OLD.SECRET, dry_run=True)
        assert (memory.status()["records"], memory.sessions()) == before
        assert memory.search("new crane", sources=("memory",), min_score=0.9).hits == ()
        real = memory.import_layered(source, secret=OLD.SECRET)
        for name in ("status", "turns_stored", "turns_known", "messages", "episodes", "facts", "refused", "problems"):
            assert getattr(tried, name) == getattr(real, name), name
        assert tried.dry_run and not real.dry_run
        assert (real.turns_stored, real.episodes, real.refused) == (1, 1, 1)


def test_backups_come_only_when_they_are_asked_for(tmp_path: Path) -> None:
    """They hold copies of what went into the sessions, and what retention has taken from there since."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2")
    kept = old.record("L1", DM, "kept granite")
    for number, text in ((kept, "kept granite"), ("1_old", "expired granite")):
        record = {"id": number, "level": "L1", "content": text, "sessionKey": DM, "createdAt": "2026-07-01T00:00:00Z"}
        old.append(".legacy-backup/memories", "2026-07-01", record)
    with opened(tmp_path, source) as memory:
        assert memory.import_layered(source).episodes == 1
        again = memory.import_layered(source, backups=True)
        assert (again.episodes, again.refused) == (1, 0)
        assert memory.get("record:1_old").path == f"sessions/{OLD.token_of(DM)}/memories/2026-07-01.jsonl"


def test_a_lost_isolation_key_is_told_because_tokens_change(tmp_path: Path) -> None:
    source = tmp_path / "old"
    lived_in(source, "G2")
    (source / ".isolation-key").unlink()
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source)
        assert (report.turns_stored, report.episodes, report.refused) == (3, 2, 0)
        assert [problem.reason for problem in report.problems] == [
            "its .isolation-key is missing: session tokens change"
        ]


def test_a_migration_that_crashed_leaves_the_citation_of_the_session(tmp_path: Path) -> None:
    """A record in both places: that of the session is cited, and comes first."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2")
    old.record("L1", DM, "other")
    number = old.record("L1", DM, "moved granite")
    record = {"id": number, "level": "L1", "content": "moved granite", "sessionKey": DM, "keywords": []}
    old.append("memories", "2026-07-15", record)
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source)
        assert (report.status, report.episodes, report.problems) == ("ok", 2, ())
        assert memory.get(f"record:{number}").from_line == 2


def test_one_id_hides_no_other_words(tmp_path: Path) -> None:
    """A second record or turn under a known id is not taken for the first: it is told."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2")
    number = old.record("L1", DM, "granite")
    at = old.folder(DM, "L1")
    for session, text in ((DM, "granite"), (DM, "basalt"), (ROOM, "granite")):
        record = {"id": number, "level": "L1", "content": text, "sessionKey": session, "keywords": []}
        old.append(at, "2026-07-15", record)
    old.turn(DM, ["granite"], run="r1")
    old.turn(DM, ["basalt"], run="r1")
    old.turn(DM, ["granite"], run="r1")
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source)
        assert (report.episodes, report.turns_stored, report.turns_known, report.refused) == (1, 1, 1, 3)
        assert [problem.line for problem in report.problems] == [2, 3, 4]


def test_hostile_lines_and_names_cost_themselves(tmp_path: Path) -> None:
    """Ten megabytes, deep JSON, NaN, huge numbers, lone surrogates, paths for names, times beyond time."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2")
    at = old.folder(DM, "L1")
    base = {"level": "L1", "sessionKey": DM, "keywords": []}
    lines = [
        OLD.dump({**base, "id": "big", "content": "granite " * 1_300_000}),
        '{"id":"deep","sessionKey":"s","content":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"id":"nan","level":"L1","sessionKey":"s","content":"nan granite","keywords":[NaN],"createdAt":Infinity}',
        '{"id":"digits","sessionKey":"s","createdAt":' + "9" * 5_000 + "}",
        '{"id":"lone","level":"L1","sessionKey":"s","content":"lone \\ud83d","keywords":["\\ud83d"]}',
        OLD.dump({**base, "id": "../../etc", "content": "path granite", "sessionKey": "../../../etc/passwd"}),
        OLD.dump({**base, "id": "x" * 600, "content": "long id"}),
        OLD.dump({**base, "id": "far", "content": "far granite", "createdAt": "99999-01-01T00:00:00Z"}),
        OLD.dump({**base, "id": "early", "content": "early granite", "createdAt": "0001-01-01T00:00:00Z"}),
        OLD.dump({**base, "id": "of-other", "agentId": "other", "content": "stranger"}),
        OLD.dump([1]), "null", '"text"', "{}",
    ]  # fmt: skip
    for line in lines:
        old.append(at, "2026-07-15", line + "\n")
    old.append(at, "2026-13-45", OLD.dump({**base, "id": "month 13", "content": "odd day granite"}) + "\n")
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source)
        assert report.episodes == 7 and report.shortened == 1
        bad = [problem.line for problem in report.problems if problem.path.endswith("2026-07-15.jsonl")]
        assert sorted(bad) == [2, 4, 7, 10, 11, 12, 13, 14]
        assert not [problem for problem in report.problems if "granite" in problem.reason]
        assert len(memory.get("record:big").text.encode()) < 70_000
        assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_links_pipes_and_compressed_files_are_not_opened(tmp_path: Path) -> None:
    """A link to a file or folder elsewhere, a pipe that would block, a bomb: each is told and nothing of it is read."""
    import gzip
    import os

    source = tmp_path / "old"
    old = OLD.Writer(source, "G2")
    old.record("L1", DM, "own granite")
    folder = old.home / old.folder(DM, "L1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "2026-07-01.jsonl").write_text(OLD.dump({"id": "o", "content": "outside", "sessionKey": DM}) + "\n")
    (folder / "2026-07-02.jsonl").symlink_to(outside / "2026-07-01.jsonl")
    os.mkfifo(folder / "2026-07-03.jsonl")
    (folder / "2026-07-04.jsonl").write_bytes(gzip.compress(b"0" * 1_000_000))
    (folder / "\u0662\u0660\u0662\u0666-07-05.jsonl").write_text("digits of another script are no day\n")
    (old.home / "scenarios").symlink_to(outside)
    with opened(tmp_path, source) as memory:
        report = memory.import_layered(source)
        assert report.episodes == 1
        told = {(problem.path.rpartition("/")[2], problem.reason) for problem in report.problems}
        assert told == {
            ("scenarios", "a link, not followed"),
            ("2026-07-02.jsonl", "a link, not followed"),
            ("2026-07-03.jsonl", "not a regular file"),
            ("2026-07-04.jsonl", "compressed, which that product never writes"),
        }


def test_what_was_interrupted_is_gone_on_with(tmp_path: Path) -> None:
    """An import that ends in the middle leaves whole batches; the next one adds the rest and nothing twice."""
    source = tmp_path / "old"
    old = OLD.Writer(source, "G2")
    for number in range(450):
        old.turn(DM, [f"granite {number}"], run=f"r{number}")

    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "importing":
            assert total == 450
            raise KeyboardInterrupt

    with opened(tmp_path, source) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.import_layered(source, progress=stop)
        assert memory.status()["turns"] == 200
        report = memory.import_layered(source)
        assert (report.turns_stored, report.turns_known) == (250, 200)
        assert memory.status()["messages"] == 450


def test_a_folder_that_cannot_be_listed_stops_the_import_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a memory is not taken for all of it."""
    source = tmp_path / "old"
    lived_in(source, "G2")
    listed = Path.iterdir

    def refuse(path: Path) -> Any:
        if path.name == "memories":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    with opened(tmp_path, source) as memory:
        monkeypatch.setattr(Path, "iterdir", refuse)
        with pytest.raises(errors.InvalidArgument, match="cannot be listed"):
            memory.import_layered(source)
        monkeypatch.undo()
        assert memory.sessions() == []
