"""Out to the layered-memory product: what lies there is what it writes, read back it is the same, and what it cannot
hold is counted."""

from __future__ import annotations

import errno
import inspect
import json
import re
import runpy
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import Memory, errors
from memory_sqlite.cli.app import root
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop import layered_export, layered_lines
from memory_sqlite.interop.layered_key import adopt_session_key

OLD: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("layered_writer.py"))))
DM = "agent:main:wecom:dm:u-1001"
ROOM = "agent:main:wecom:group:g-1"


def opened(tmp_path: Path, name: str = "new", source: Path | None = None, **more: Any) -> Memory:
    if source is not None:
        adopt_session_key(source, tmp_path / name)
    more = {"compatibility": "layered-memory", **more}
    return Memory.open(settings=Settings(data_dir=tmp_path / name, **more), clock=FixedClock(1_785_000_000_000))


def lines_of(place: Path, secret: str | None = None) -> dict[str, list[str]]:
    """Every day file's lines, decrypted."""
    return {
        path.relative_to(place).as_posix(): [
            OLD.unseal(line, secret) if secret else line for line in path.read_text("utf-8").split("\n")[:-1]
        ]
        for path in sorted(place.rglob("*.jsonl"))
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """All layers, two sessions, an agent's facts, a surrogate cut in two, turns with and without a run."""
    old = OLD.Writer(tmp_path / "old", "G2")
    old.turn(DM, ["My granite desk is in Bergen. ", "Noted.\u2028 Fine."], run="r1", sender="u-1001")
    old.turn(DM, ["And the crane?"], at="2026-07-16T23:59:59.999Z", day="2026-07-16")
    old.turn(ROOM, ["We meet at the 花岗 gate."], sender="stranger")
    old.record("L1", DM, "My granite desk is in Bergen.", run="r1", sender="u-1001", keywords=["𠮷", "\udfb7x"])
    old.record("L1", DM, "And the crane?", at="2026-07-16T23:59:59.999Z", day="2026-07-16")
    old.record("L2", DM, "会话场景：granite。", run="r1")
    old.record("L3", DM, "My granite desk", run="r1")
    old.record("L1", ROOM, "We meet at the 花岗 gate.", sender="stranger")
    old.record("L3", DM, "I prefer the crane", shared=True)
    old.record("L3", ROOM, "We prefer the gate", shared=True)
    return tmp_path / "old"


@pytest.mark.parametrize("secret", [None, OLD.SECRET], ids=["clear", "encrypted"])
def test_in_and_out_again_gives_the_same_lines(tmp_path: Path, source: Path, secret: str | None) -> None:
    """Byte for byte what that product wrote: keys in its order, ids, times, runs, senders, days, lines, its key."""
    with opened(tmp_path, source=source) as memory:
        assert memory.import_layered(source).status == "ok"
        report = memory.export_layered(tmp_path / "out", secret=secret)
        assert (report.status, report.encrypted, report.files) == ("ok", secret is not None, 11)
        assert report.counts == {"L0": 3, "L1": 3, "L2": 1, "L3": 3} and report.moved == 0
        assert report.left_out == {}
    assert lines_of(tmp_path / "out", secret) == lines_of(source)
    assert (tmp_path / "out" / ".isolation-key").read_bytes() == OLD.KEY
    check = (tmp_path / "out" / ".encryption-check").read_text()
    said = OLD.unseal(check, secret) if secret else check[:-1]
    assert check.endswith("\n") and said == OLD.dump({"value": "openclaw-memory-v1", "encrypted": secret is not None})
    for path in (tmp_path / "out").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    with opened(tmp_path, "back", tmp_path / "out") as memory:
        assert memory.import_layered(tmp_path / "out", secret=secret).status == "ok"
        memory.export_layered(tmp_path / "again")
    assert lines_of(tmp_path / "again") == lines_of(source)


def test_every_encrypted_line_has_a_nonce_of_its_own(tmp_path: Path, source: Path) -> None:
    """One nonce twice under one key would give both texts away; nothing is readable but names."""
    with opened(tmp_path, source=source) as memory:
        memory.import_layered(source)
        memory.export_layered(tmp_path / "out", secret=OLD.SECRET)
    nonces = []
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file() and path.name != ".isolation-key":
            content = path.read_text("utf-8")
            nonces += [json.loads(line)["iv"] for line in content.splitlines()]
            assert "granite" not in content and "sessionKey" not in content
    assert len(nonces) == 11 and len(set(nonces)) == 11
    with opened(tmp_path, "back", tmp_path / "out") as memory, pytest.raises(errors.EncryptionKeyRequired):
        memory.import_layered(tmp_path / "out")


def test_a_place_that_is_empty_is_kept_empty(tmp_path: Path) -> None:
    """What is gone leaves a line that says nothing, so that the citations of what follows stay; it is no record."""
    old = OLD.Writer(tmp_path / "old", "G2")
    ids = [old.record("L1", DM, f"granite {number}") for number in range(5)]
    with opened(tmp_path, source=tmp_path / "old") as memory:
        memory.import_layered(tmp_path / "old")
        memory.forget(records=[ids[0], ids[2], ids[3]])
        report = memory.export_layered(tmp_path / "out")
        assert report.counts["L1"] == 2 and report.moved == 0 and report.left_out == {"tombstones": 3}
    (lines,) = lines_of(tmp_path / "out").values()
    assert [json.loads(line).get("id", json.loads(line)["type"]) for line in lines] == [
        "removed", ids[1], "removed", "removed", ids[4],
    ]  # fmt: skip
    assert "granite 2" not in "".join(lines)
    with opened(tmp_path, "back", tmp_path / "out") as memory:
        report = memory.import_layered(tmp_path / "out")
        assert (report.status, report.episodes, report.refused) == ("ok", 2, 0)
        assert memory.get(f"record:{ids[4]}").from_line == 5


def test_a_gap_beyond_reason_is_closed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = OLD.Writer(tmp_path / "old", "G2")
    ids = [old.record("L1", DM, f"granite {number}") for number in range(6)]
    with opened(tmp_path, source=tmp_path / "old") as memory:
        memory.import_layered(tmp_path / "old")
        memory.forget(records=ids[:4])
        monkeypatch.setattr("memory_sqlite.limits.LAYERED_GAP_MAX", 3)
        report = memory.export_layered(tmp_path / "out")
    assert report.moved == 2
    (lines,) = lines_of(tmp_path / "out").values()
    assert [json.loads(line).get("id") for line in lines] == [None, None, None, ids[4], ids[5]]


def test_what_that_format_cannot_hold_is_counted(tmp_path: Path) -> None:
    """A memory of our own: superseded facts do not come back to life there, the rest of what is lost is told."""
    owner: dict[str, Any] = {"chat_type": "direct", "kind": "interactive", "sender_is_owner": True}
    with opened(tmp_path, compatibility="standard") as memory:
        for number, said in enumerate(("I live in Oslo.", "I live in Bergen.")):
            answer = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
            message = {"role": "user", "content": said, "id": f"m{number}", "name": "Ada", "at": 1_784_000_000 + number}
            memory.remember(session="s", messages=[message, answer], run_id=f"r{number}", project="granite", **owner)
        twice = [
            {"role": "user", "content": "one more"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "and two"},
        ]
        memory.remember(session="s", messages=twice, run_id="both", **owner)
        memory.remember_facts(
            [{"content": "The gate opens at 7.", "name": "gate", "pinned": True}], session="s", **owner
        )
        memory.forget(participants=["nobody@example"])
        report = memory.export_layered(tmp_path / "out")
        left = dict(report.left_out)
        assert left["superseded_records"] == 1 and left["messages_without_words"] == 2
        assert left["runs_of_several_turns"] == 1 and left["message_ids"] == 2 and left["message_names"] == 2
        assert left["session_owners"] == 1 and left["session_projects"] == 1 and left["triggers"] == 1
        assert left["importance"] >= 1 and left["slots"] >= 1
    facts = [
        json.loads(line)["content"]
        for name, lines in lines_of(tmp_path / "out").items()
        if "profiles" in name
        for line in lines
        if "content" in line
    ]
    assert "I live in Bergen" in " ".join(facts) and "Oslo" not in " ".join(facts)
    with opened(tmp_path, "back", tmp_path / "out") as memory:
        back = memory.import_layered(tmp_path / "out")
        assert back.status == "ok" and back.turns_stored == 4  # the second turn of a run is not lost for its name
        assert memory.sessions()[0]["messages"] == 5


def test_every_kind_of_loss_is_documented() -> None:
    """What ``left_out`` may count is in the table of docs/compatible-mode.md, and nothing else is."""
    source = inspect.getsource(layered_lines)
    kinds = {*re.findall(r'lost\["(\w+)"\]', source), *layered_lines._LOST}
    text = (resources.files("memory_sqlite") / "docs" / "compatible-mode.md").read_text("utf-8")
    table = text.partition("| `left_out` | what |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == kinds


def test_times_before_1970_do_not_stop_an_export(tmp_path: Path) -> None:
    """Days are told apart on both sides of the epoch."""
    old = OLD.Writer(tmp_path / "old", "G2")
    days = [
        ("1970-01-01", "1970-01-01T00:00:00.001Z"),
        ("1969-12-31", "1969-12-31T23:59:59.999Z"),
        ("0900-02-03", "0900-02-03T00:00:00.000Z"),
    ]
    for day, at in days * 2:
        old.turn(DM, [f"granite {day}"], day=day, at=at)
    with opened(tmp_path, source=tmp_path / "old") as memory:
        assert memory.import_layered(tmp_path / "old").turns_stored == 6
        memory.export_layered(tmp_path / "out")
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "old")


# --- where it is written --------------------------------------------------------------------------------------------


def test_an_export_takes_an_empty_place_and_no_other(tmp_path: Path, source: Path) -> None:
    """Nothing that is there is changed or mixed with it; an empty folder is as good as none."""
    with opened(tmp_path, source=source) as memory:
        memory.import_layered(source)
        (tmp_path / "empty").mkdir()
        assert memory.export_layered(tmp_path / "empty").status == "ok"
        for name in ("empty", "old"):
            with pytest.raises(errors.OutputExists):
                memory.export_layered(tmp_path / name)
        (tmp_path / "file").write_text("mine")
        (tmp_path / "link").symlink_to(tmp_path / "empty")
        for name in ("file", "link"):
            with pytest.raises(errors.OutputExists):
                memory.export_layered(tmp_path / name)
        with pytest.raises(errors.InvalidArgument):
            memory.export_layered(tmp_path / "nowhere" / "out")
        with pytest.raises(errors.InvalidArgument, match="32 bytes"):
            memory.export_layered(tmp_path / "short", secret="short")
        assert (tmp_path / "file").read_text() == "mine" and not (tmp_path / "short").exists()


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file does not fit any more: no folder, no part of one, and the error says why."""
    real = layered_export.output.os.fsync
    with opened(tmp_path, source=source) as memory:
        memory.import_layered(source)
        for fails_at in range(12):
            calls = iter(range(100))

            def fsync(descriptor: int, calls: Iterator[int] = calls, fails_at: int = fails_at) -> None:
                if next(calls) == fails_at:
                    raise OSError(errno.ENOSPC, "no room")
                real(descriptor)

            monkeypatch.setattr(layered_export.output.os, "fsync", fsync)
            with pytest.raises(errors.DiskFull):
                memory.export_layered(tmp_path / "out")
            monkeypatch.undo()
            assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_somebody_else_was_faster(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that was filled while the export was being written is not touched."""
    with opened(tmp_path, source=source) as memory:
        memory.import_layered(source)
        monkeypatch.setattr(layered_export, "_EVERY", 1)

        def fill(stage: str, done: int, total: int | None) -> None:
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / "mine").write_text("mine")

        with pytest.raises(errors.OutputExists):
            memory.export_layered(tmp_path / "out", progress=fill)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_the_command_line_exports_and_says_what_is_left_out(tmp_path: Path, source: Path) -> None:
    data = ["--data-dir", str(tmp_path / "new")]
    with opened(tmp_path, source=source) as memory:
        memory.import_layered(source)
    result = CliRunner().invoke(root, [*data, "export", "--as", "layered", str(tmp_path / "out")])
    assert result.exit_code == 0 and "3 conversations, 3 episodes, 1 scenario and 3 facts" in result.output
    document = json.loads(
        CliRunner().invoke(root, [*data, "export", "--as", "layered", str(tmp_path / "two"), "--json"]).output
    )
    assert document["counts"] == {"L0": 3, "L1": 3, "L2": 1, "L3": 3} and document["left_out"] == {}
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "two") == lines_of(source)
    for wrong in (["--session", "x", "three"], ["--as", "layered", "--force", "three"]):
        assert CliRunner().invoke(root, [*data, "export", *wrong]).exit_code == 2
