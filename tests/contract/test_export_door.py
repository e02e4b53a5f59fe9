"""Exports and imports of everything: what is in the file, who may read it, whose word holds where memories differ."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from memory_sqlite import AsyncMemory, Memory, errors
from memory_sqlite.cli.app import root
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_format
from memory_sqlite.transcripts import turns

ROOT = Path(__file__).parents[2]
OWNER: dict[str, Any] = {"chat_type": "direct", "kind": "interactive", "sender_is_owner": True}


def opened(tmp_path: Path, agent: str = "alpha", data: str = "data", **more: Any) -> Memory:
    clock = more.pop("clock", None)
    return Memory.open(settings=Settings(data_dir=tmp_path / data, agent=agent, **more), clock=clock)


def say(memory: Memory, text: str, session: str = "s", **more: Any) -> None:
    memory.remember(session=session, messages=[{"role": "user", "content": text}], **{**OWNER, **more})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def of_kind(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in lines(path) if line["kind"] == kind]


def store(memory: Memory) -> apsw.Connection:
    return apsw.Connection(memory.status()["store"])


@pytest.fixture
def alpha(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    """Six turns of one session, a minute apart, with a scenario over five of them."""
    with opened(tmp_path, clock=clock) as memory:
        for number in range(6):
            clock.advance(60_000)
            say(memory, f"I like pebble{number} very much.", run_id=f"r{number}")
        yield memory


# --- the format ------------------------------------------------------------------------------------------------------

ELSEWHERE = {
    "sessions": {"id", "kind"},
    "turns": {"id", "session_id"},
    "accepted_runs": {"turn_id"},
    "accepted_advancements": {"turn_id"},
    "messages": {"id", "session_id", "turn_id", "text_digest"},
    "message_entries": {"session_id", "message_id", "entry_id", "way"},
    "records": {"id", "kind", "session_id", "turn_id"},
    "record_sources": {"record_id", "turn_id"},
    "tombstones": {"id", "kind"},
    "turn_outbox": {"seq"},
    "recalls": {"id"},
    "recall_hits": {"recall_id", "rank", "reference", "path", "start_line", "end_line", "score"},
    "transcript_generations": {"session_id", "number"},
    "session_names": {"session_id", "name"},
    "session_holds": {"session_id", "kind"},
}
"""Columns that stand under another name, inside another line, or are made anew."""
LINES = {
    "sessions": "session", "turns": "turn", "messages": "message", "records": "record", "tombstones": "tombstone",
    "turn_outbox": "outbox", "recalls": "recall", "accepted_runs": "accepted_run",
    "accepted_advancements": "accepted_advancement", "record_sources": "record_source", "message_entries": "message",
    "recall_hits": "recall", "transcript_generations": "session", "session_names": "session",
    "session_holds": "hold",
}  # fmt: skip
NOT_TAKEN = {
    "store_info", "forgettings", "forgetting_targets", "change_log", "generations", "import_cursors", "session_imports"
}  # fmt: skip
"""The store's own housekeeping, as docs/export-format.md says."""


def test_every_column_of_the_store_is_exported_or_left_out_on_purpose() -> None:
    """A column that a later schema adds must be taken into the format, or be named here and on the page."""
    schema = (ROOT / "migrations" / "schema.sql").read_text(encoding="utf-8")
    tables = dict(re.findall(r"^CREATE TABLE (\w+) \(\n(.*?)^\)", schema, re.M | re.S))
    assert set(tables) == set(LINES) | NOT_TAKEN
    for table, kind in LINES.items():
        columns = set(re.findall(r"^  ([a-z]\w*)\s+(?:INTEGER|TEXT|BLOB|REAL)", tables[table], re.M))
        assert columns - ELSEWHERE[table] <= set(jsonl_format.FIELDS[kind]), table


def test_the_page_describes_every_field() -> None:
    """docs/export-format.md has a section for each kind and a row for each of its fields, and no other."""
    page = (ROOT / "memory_sqlite" / "docs" / "export-format.md").read_text(encoding="utf-8")
    fields: dict[str, Any] = {"header": jsonl_format.HEADER, **jsonl_format.FIELDS, "end": jsonl_format.END}
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", page, re.M | re.S))
    assert list(sections) == list(fields)
    for kind, section in sections.items():
        named = [name for row in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", row)]
        assert named == list(fields[kind]), kind
    assert all(f"`{table}`" in page for table in NOT_TAKEN)
    assert f'"version":{jsonl_format.VERSION}' in page


def test_rows_name_each_other_by_names_and_not_by_row_ids(alpha: Memory, tmp_path: Path) -> None:
    """So that a file can be merged into a store that has other rows: there the same lines get other numbers."""
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta") as beta:
        say(beta, "I like basalt.", session="other")
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert report.status == "ok"
        beta.export(tmp_path / "b.jsonl")
    own = {json.dumps(line) for line in lines(tmp_path / "a.jsonl")[1:-1]}
    assert own < {json.dumps(line) for line in lines(tmp_path / "b.jsonl")}


# --- the file --------------------------------------------------------------------------------------------------------


def test_only_the_owner_may_read_the_file_and_nothing_is_written_over(alpha: Memory, tmp_path: Path) -> None:
    """Mode 0600 whatever the umask; a file that is there stays, unless the caller says otherwise; no leftovers."""
    target = tmp_path / "out" / "a.jsonl"
    target.parent.mkdir()
    umask = os.umask(0)
    try:
        alpha.export(target)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    target.write_text("mine")
    with pytest.raises(errors.OutputExists):
        alpha.export(target)
    assert target.read_text() == "mine"
    assert alpha.export(target, overwrite=True).bytes == target.stat().st_size
    with pytest.raises(errors.OutputExists):
        alpha.export(target.parent, overwrite=True)
    with pytest.raises(errors.InvalidArgument):
        alpha.export(tmp_path / "nowhere" / "a.jsonl")
    assert [path.name for path in target.parent.iterdir()] == ["a.jsonl"]


def test_an_export_that_fails_leaves_no_file(alpha: Memory, tmp_path: Path) -> None:
    """Whatever stops it, the name is not taken and what was there before is there still."""
    target = tmp_path / "out" / "a.jsonl"
    target.parent.mkdir()
    target.write_text("before")
    for number in range(300):
        say(alpha, f"I like gravel{number}.", session="long")

    def stop(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        alpha.export(target, overwrite=True, progress=stop)
    assert target.read_text() == "before"
    assert [path.name for path in target.parent.iterdir()] == ["a.jsonl"]


def test_gzip_by_its_name_gives_the_same_lines_and_the_same_bytes(
    alpha: Memory, tmp_path: Path, clock: FixedClock
) -> None:
    """``.gz`` packs; the packed file holds neither a name nor a time, and is recognised by what it is."""
    alpha.export(tmp_path / "a.jsonl")
    alpha.export(tmp_path / "a.jsonl.gz")
    alpha.export(tmp_path / "b.jsonl.gz")
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "a.jsonl").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    (tmp_path / "a.jsonl.gz").rename(tmp_path / "renamed")
    with opened(tmp_path, "beta") as beta:
        assert beta.import_jsonl(tmp_path / "renamed").added["turn"] == 6


def test_an_export_shows_one_moment(alpha: Memory, tmp_path: Path) -> None:
    """What is remembered while it is written is not in it, not even in part."""
    for number in range(300):
        say(alpha, f"I like gravel{number}.", session="long")

    def remember(stage: str, done: int, total: int | None) -> None:
        say(alpha, f"I like marble at {done}.", session="late")

    report = alpha.export(tmp_path / "a.jsonl", progress=remember)
    assert report.lines > 1_000, "progress was told in the middle"
    assert "marble" not in (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert alpha.search("marble", session="late").hits


def test_no_export_while_a_forgetting_is_under_way(alpha: Memory, tmp_path: Path) -> None:
    """What is listed to be forgotten must not leave in a file; a later call can succeed."""
    with store(alpha) as connection:
        connection.execute("INSERT INTO forgetting_targets VALUES ('turn', 1)")
    with pytest.raises(errors.StoreBusy):
        alpha.export(tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()
    with store(alpha) as connection:
        connection.execute("DELETE FROM forgetting_targets")
    assert alpha.export(tmp_path / "a.jsonl").status == "ok"


# --- two memories ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "named",
    [
        {"sessions": ["s"]},
        {"since": "2026-07-15T08:32:30Z", "until": "2026-07-15T08:33:30Z"},
        {"references": ["first message"]},
        {"records": ["first record"]},
    ],
    ids=["session", "stretch", "reference", "record"],
)
def test_what_was_forgotten_here_does_not_come_back(alpha: Memory, tmp_path: Path, named: dict[str, Any]) -> None:
    """An export made before the forgetting brings nothing of it back, whatever the forgetting named, nor a scenario
    that covers it; the rest is recognised."""
    alpha.export(tmp_path / "a.jsonl")
    if named.get("references"):
        named = {"references": [alpha.search("pebble2", sources=("sessions",)).hits[0].reference]}
    if named.get("records"):
        named = {"records": [of_kind(tmp_path / "a.jsonl", "record")[0]["record_id"]]}
    forgotten = alpha.forget(**named)
    assert forgotten.turns > 0
    before = alpha.status()
    report = alpha.import_jsonl(tmp_path / "a.jsonl")
    after = alpha.status()
    assert sum(report.added.values()) == 0
    assert report.forgotten["turn"] == forgotten.turns
    assert report.forgotten["message"] == forgotten.messages
    for name in ("sessions", "turns", "messages", "records", "superseded"):
        assert after[name] == before[name], name


def test_a_forgotten_turn_takes_its_scenario_into_another_store_no_more(alpha: Memory, tmp_path: Path) -> None:
    """Another agent takes the tombstones in, and then meets the older export: the turn, and the scenario that tells of
    it, stay away; what rests on other turns comes."""
    alpha.export(tmp_path / "old.jsonl")
    alpha.forget(references=[alpha.search("pebble2", sources=("sessions",)).hits[0].reference])
    alpha.export(tmp_path / "new.jsonl")
    with opened(tmp_path, "beta") as beta:
        beta.import_jsonl(tmp_path / "new.jsonl")
        report = beta.import_jsonl(tmp_path / "old.jsonl")
        assert (report.forgotten["turn"], report.added["turn"], report.present["turn"]) == (1, 0, 5)
        assert report.forgotten["record"] >= 2
        assert not [hit for hit in beta.search("pebble2").hits if "pebble2" in hit.excerpt]
        beta.export(tmp_path / "b.jsonl")
    assert "pebble2" not in (tmp_path / "b.jsonl").read_text(encoding="utf-8")


def test_tombstones_of_the_file_say_nothing_against_its_own_rows(tmp_path: Path, clock: FixedClock) -> None:
    """Somebody went on in a session that had been forgotten: what was said since is exported and comes, also twice."""
    with opened(tmp_path, clock=clock) as alpha:
        say(alpha, "I like chalk.", session="again")
        alpha.forget(sessions=["again"])
        clock.advance(1_000)
        say(alpha, "I like slate.", session="again")
        alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta", clock=clock) as beta:
        assert beta.import_jsonl(tmp_path / "a.jsonl").added["turn"] == 1
        assert sum(beta.import_jsonl(tmp_path / "a.jsonl").added.values()) == 0
        beta.forget(sessions=["again"])
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert (report.forgotten["session"], report.forgotten["turn"], report.added["turn"]) == (1, 1, 0)


def test_what_differs_is_told_and_kept_as_it_is_here(alpha: Memory, tmp_path: Path) -> None:
    """Two memories that went different ways under the same names: nothing of what is here changes, nothing is doubled,
    and the lines that differ are named."""
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta") as beta:
        say(beta, "I like basalt.")
        say(beta, "I like granite.", session="room", chat_type="group", sender_is_owner=False)
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert report.status == "partial"
        assert (report.conflicts["turn"], report.present["session"]) == (1, 1)
        numbers = [problem.line for problem in report.problems]
        assert [lines(tmp_path / "a.jsonl")[number - 1]["kind"] for number in numbers if number][:1] == ["turn"]
        assert all("pebble" not in problem.reason for problem in report.problems)
        beta.export(tmp_path / "b.jsonl")
    messages = of_kind(tmp_path / "b.jsonl", "message")
    assert [line["text"] for line in messages if (line["session"], line["turn"]) == ("s", 1)] == ["I like basalt."]


def test_a_session_of_another_kind_of_chat_is_left_whole(alpha: Memory, tmp_path: Path) -> None:
    """What was said in private must not move into a room of the same name: the session is a conflict with all of it."""
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta") as beta:
        say(beta, "I like basalt.", chat_type="group", sender_is_owner=False)
        before = beta.status()["records"]
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert (report.conflicts["session"], report.conflicts["turn"], report.conflicts["message"]) == (1, 6, 6)
        assert sum(report.added.values()) == 0
        assert beta.status()["records"] == before


def test_a_later_export_adds_what_is_new(alpha: Memory, tmp_path: Path, clock: FixedClock) -> None:
    """The session goes on where it came from; the second file adds those turns alone, and ordinals go on."""
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta", clock=clock) as beta:
        beta.import_jsonl(tmp_path / "a.jsonl")
        clock.advance(60_000)
        say(alpha, "I like pebble6 very much.", run_id="r6")
        alpha.export(tmp_path / "b.jsonl")
        report = beta.import_jsonl(tmp_path / "b.jsonl")
        assert (report.status, report.added["turn"], report.present["turn"]) == ("ok", 1, 6)
        receipt = beta.remember(session="s", run_id="r6", messages=[{"role": "user", "content": "I like pebble6."}])
        assert receipt.status == "duplicate"
        say(beta, "I like pebble7.", run_id="r7")
        assert beta.sessions()[0]["turns"] == 8


def test_a_fact_that_was_replaced_there_since_is_replaced_here_too(
    alpha: Memory, tmp_path: Path, clock: FixedClock
) -> None:
    """Of the old fact and the new one only the new is in force, whichever line comes first; an ended fact ends; and the
    old export does not bring the old state back."""
    alpha.remember_facts([{"content": "The crane is serviced in May.", "name": "crane"}], session="s")
    alpha.remember_facts([{"content": "The gate is green.", "name": "gate"}], session="s")
    alpha.export(tmp_path / "old.jsonl")
    with opened(tmp_path, "beta", clock=clock) as beta:
        beta.import_jsonl(tmp_path / "old.jsonl")
        clock.advance(60_000)
        alpha.remember_facts([{"content": "The crane is serviced in June.", "name": "crane"}], session="s")
        gone = [f"record:{line['record_id']}" for line in of_kind(tmp_path / "old.jsonl", "record") if
                line["content"] == "The gate is green."]  # fmt: skip
        assert alpha.end_facts(gone)
        alpha.export(tmp_path / "new.jsonl")
        report = beta.import_jsonl(tmp_path / "new.jsonl")
        assert (report.status, report.updated["record"], report.added["record"]) == ("ok", 2, 1)
        beta.export(tmp_path / "b.jsonl")
        assert lines(tmp_path / "new.jsonl")[1:-1] == lines(tmp_path / "b.jsonl")[1:-1]
        found = beta.search("crane gate serviced green", session="s", layers=["L3"]).hits
        assert [hit.excerpt for hit in found] == ["The crane is serviced in June."]
        back = beta.import_jsonl(tmp_path / "old.jsonl")
        assert (sum(back.added.values()), sum(back.updated.values()), back.conflicts["record"]) == (0, 0, 2)
        beta.export(tmp_path / "c.jsonl")
    assert lines(tmp_path / "b.jsonl")[1:-1] == lines(tmp_path / "c.jsonl")[1:-1]


def test_a_turn_that_was_recognised_by_its_run_later_is_filled_in(alpha: Memory, tmp_path: Path) -> None:
    """An imported turn that its host then told of live has a run id from then on: no conflict, here neither."""
    (tmp_path / "chat.jsonl").write_text('{"role":"user","content":"I like slate.","id":"m1"}\n')
    alpha.import_transcripts([tmp_path / "chat.jsonl"], session="t", format="generic")
    alpha.export(tmp_path / "old.jsonl")
    told = {"session": "t", "run_id": "late", "messages": [{"role": "user", "content": "I like slate.", "id": "m1"}]}
    with opened(tmp_path, "beta") as beta:
        beta.import_jsonl(tmp_path / "old.jsonl")
        assert alpha.remember(**told).status == "duplicate"
        alpha.export(tmp_path / "new.jsonl")
        report = beta.import_jsonl(tmp_path / "new.jsonl")
        assert report.updated["turn"] == 1
        beta.export(tmp_path / "b.jsonl")
        assert beta.remember(**told).status == "duplicate"
        assert sum(beta.import_jsonl(tmp_path / "old.jsonl").conflicts.values()) == report.conflicts["message"]
    assert of_kind(tmp_path / "new.jsonl", "turn") == of_kind(tmp_path / "b.jsonl", "turn")


# --- keys ------------------------------------------------------------------------------------------------------------


def test_under_another_key_tokens_are_new_and_what_cannot_be_carried_is_counted(
    alpha: Memory, tmp_path: Path, clock: FixedClock
) -> None:
    """Accepted runs are made anew from their ids, so that a replay adds nothing; tombstones by keyed digest are counted
    as left, those of a session that is still there are made anew."""
    alpha.forget(references=[alpha.search("pebble2", sources=("sessions",)).hits[0].reference])
    say(alpha, "I like chalk.", session="again")
    alpha.forget(sessions=["again"])
    clock.advance(1_000)
    say(alpha, "I like slate.", session="again")
    alpha.export(tmp_path / "a.jsonl")
    plain = [line for line in of_kind(tmp_path / "a.jsonl", "tombstone") if line["of"] or
             line["subject_kind"] in ("record", "span")]  # fmt: skip
    total = len(of_kind(tmp_path / "a.jsonl", "tombstone"))
    with opened(tmp_path, "beta", data="elsewhere", clock=clock) as beta:
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert (report.same_key, report.status) == (False, "partial")
        assert (report.added["tombstone"], report.left["tombstone"]) == (len(plain), total - len(plain))
        assert report.left["accepted_run"] == 1, "the run of the forgotten turn"
        tokens = {line["token"] for line in of_kind(tmp_path / "a.jsonl", "session")}
        assert not tokens & {session["token"] for session in beta.sessions()}
        again = beta.remember(session="s", run_id="r3", messages=[{"role": "user", "content": "I like pebble3."}])
        assert again.status == "duplicate"
        second = beta.import_jsonl(tmp_path / "a.jsonl")
        assert sum(second.added.values()) == 0
        clock.advance(1_000)
        beta.forget(sessions=["again"])
        assert beta.import_jsonl(tmp_path / "a.jsonl").forgotten["session"] == 1


def test_under_another_key_somebody_who_was_forgotten_and_speaks_again_stays_forgotten(
    tmp_path: Path, clock: FixedClock
) -> None:
    """The tombstone of a person whose name is still in use is made anew: an old transcript of theirs brings nothing."""
    old = {"role": "user", "content": "I like chalk.", "sender": "mika", "at": clock.now_ms(), "id": "old-1"}
    with opened(tmp_path, clock=clock) as alpha:
        alpha.remember(session="room", chat_type="group", messages=[old])
        clock.advance(3_600_000)
        alpha.forget(participants=["mika"])
        clock.advance(3_600_000)
        new = {"role": "user", "content": "I like slate.", "sender": "mika", "id": "new-1"}
        alpha.remember(session="room", chat_type="group", messages=[new])
        alpha.export(tmp_path / "a.jsonl")
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n")
    with opened(tmp_path, "beta", data="elsewhere", clock=clock) as beta:
        assert beta.import_jsonl(tmp_path / "a.jsonl").added["message"] == 1
        report = beta.import_transcripts([tmp_path / "old.jsonl"], session="room", format="generic")
        assert (report.forgotten, report.turns_stored) == (1, 0)


def test_with_the_key_brought_over_everything_is_kept(alpha: Memory, tmp_path: Path) -> None:
    """A new data directory that was given the old session.key first: the same bytes come out again."""
    alpha.forget(references=[alpha.search("pebble2", sources=("sessions",)).hits[0].reference])
    alpha.export(tmp_path / "a.jsonl")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "session.key").write_bytes((tmp_path / "data" / "session.key").read_bytes())
    (tmp_path / "elsewhere" / "session.key").chmod(0o600)
    with opened(tmp_path, "alpha", data="elsewhere") as moved:
        report = moved.import_jsonl(tmp_path / "a.jsonl")
        assert (report.same_key, sum(report.left.values())) == (True, 0)
        moved.export(tmp_path / "b.jsonl")
    assert lines(tmp_path / "a.jsonl")[1:-1] == lines(tmp_path / "b.jsonl")[1:-1]


# --- secrets, hosts' rows --------------------------------------------------------------------------------------------


def test_secrets_are_masked_where_masking_is_on(tmp_path: Path) -> None:
    """A store without masking exports what it has; one with masking takes it masked, in text, raw record and facts,
    and recognises it the second time."""
    secret = "sk-ant-api03-" + "Ab3dE5" * 12
    with opened(tmp_path, redact_secrets=False) as alpha:
        say(alpha, f"I like the key {secret} very much.")
        alpha.export(tmp_path / "a.jsonl")
    assert secret in (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    with opened(tmp_path, "beta") as beta:
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert report.redactions > 0
        beta.export(tmp_path / "b.jsonl")
        again = beta.import_jsonl(tmp_path / "a.jsonl")
        assert (sum(again.added.values()), again.status, again.redactions) == (0, "ok", 0)
    text = (tmp_path / "b.jsonl").read_text(encoding="utf-8")
    assert secret not in text
    assert "[secret:" in text


def plant_rows_of_hosts(memory: Memory) -> None:
    """Rows that only a host makes: a waiting turn, a recall, a further name, a rewritten transcript."""
    with store(memory) as connection:
        connection.execute(
            "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state, admission,"
            " terminal, facts, heartbeat, attempts, reason, at, messages) VALUES ('turn-9', 'e', 'o', 's', 'id',"
            """ 'ready', '{"anchor":{"a":1},"role":"user"}', '{"x":null}', '{"provider":"p"}', 1, 2, 'slow', """
            """ 1784104200000,"""
            """ '[{"role":"user","content":"caf\u00e9 \\ud800"}]')"""
        )
        message = connection.execute("SELECT id FROM messages ORDER BY id LIMIT 1").get
        record = connection.execute("SELECT record_id FROM records ORDER BY id LIMIT 1").get
        token = connection.execute("SELECT token FROM sessions").get
        connection.execute("INSERT INTO recalls (query_digest, way, at) VALUES (?, 'cli', 1784104200001)", (b"q" * 16,))
        connection.executemany(
            "INSERT INTO recall_hits VALUES (last_insert_rowid(), ?, ?, ?, 1, 3, 0.25)",
            [
                (1, f"message:{message}", f"sessions/{token}"),
                (3, f"record:{record}", "m"),
                (4, "note:MEMORY.md#L1", "n"),
            ],
        )
        connection.execute("INSERT INTO session_names SELECT 'host-id', id FROM sessions")
        connection.execute("INSERT INTO transcript_generations SELECT id, 4 FROM sessions")


def test_rows_that_hosts_made_come_along(alpha: Memory, tmp_path: Path) -> None:
    """Waiting turns byte for byte, recalls with what they name, further names, rewritten transcripts; twice is once."""
    plant_rows_of_hosts(alpha)
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta") as beta:
        say(beta, "I like basalt.", session="other")
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        assert (report.status, report.added["outbox"], report.added["recall"]) == ("ok", 1, 1)
        again = beta.import_jsonl(tmp_path / "a.jsonl")
        assert (again.status, sum(again.added.values())) == ("ok", 0)
        beta.export(tmp_path / "b.jsonl")
        with store(alpha) as theirs, store(beta) as ours:
            sql = "SELECT admission, terminal, facts, messages FROM turn_outbox"
            assert ours.execute(sql).fetchall() == theirs.execute(sql).fetchall()
    for kind in ("outbox", "recall"):
        assert of_kind(tmp_path / "a.jsonl", kind) == of_kind(tmp_path / "b.jsonl", kind)
    (session,) = of_kind(tmp_path / "a.jsonl", "session")
    assert (session["names"], session["rewritten"]) == (["host-id"], 4)
    assert session in of_kind(tmp_path / "b.jsonl", "session")


def test_committed_turns_stay_committed(alpha: Memory, tmp_path: Path) -> None:
    """The keys a turn was committed under, and those of turns that are gone, come along whatever the session key; a
    turn whose key another turn has here is a conflict."""
    with store(alpha) as connection:
        turns.advance(connection, "key-1", "key-1", 1)
        turns.advance(connection, "key-2", "key-2", 1)
        turns.advance(connection, "key-of-a-turn-that-is-gone", "-", None)
    alpha.export(tmp_path / "a.jsonl")
    assert of_kind(tmp_path / "a.jsonl", "turn")[0]["advancement_key"] == "key-1"
    for data in ("data", "elsewhere"):
        with opened(tmp_path, "beta", data=data) as beta:
            report = beta.import_jsonl(tmp_path / "a.jsonl")
            assert report.added["accepted_advancement"] == 1
            with store(beta) as connection:
                for key in ("key-1", "key-2", "key-of-a-turn-that-is-gone"):
                    assert turns.is_advanced(connection, key)
            assert sum(beta.import_jsonl(tmp_path / "a.jsonl").added.values()) == 0
    with opened(tmp_path, "gamma") as gamma:
        say(gamma, "I like basalt.", session="other")
        with store(gamma) as connection:
            turns.advance(connection, "key-2", "key-2", 1)
        report = gamma.import_jsonl(tmp_path / "a.jsonl")
        assert (report.conflicts["turn"], report.conflicts["message"], report.added["turn"]) == (1, 1, 5)


def test_recalls_of_what_was_forgotten_here_lose_those_hits(alpha: Memory, tmp_path: Path) -> None:
    """A reference to something forgotten says that it was there; the path of a transcript follows its token."""
    plant_rows_of_hosts(alpha)
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta", data="elsewhere") as beta:
        beta.import_jsonl(tmp_path / "a.jsonl")
        beta.export(tmp_path / "b.jsonl")
        ((hit, *_),) = [line["hits"] for line in of_kind(tmp_path / "b.jsonl", "recall")]
        assert hit["path"] == f"sessions/{beta.sessions()[0]['token']}"
        beta.forget(sessions=["s"])
        report = beta.import_jsonl(tmp_path / "a.jsonl")
        beta.export(tmp_path / "c.jsonl")
    assert report.forgotten["session"] == 1
    assert {hit["reference"] for line in of_kind(tmp_path / "c.jsonl", "recall") for hit in line["hits"]} == {
        "note:MEMORY.md#L1"
    }


# --- dry run, doors --------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_the_import_does_and_stores_nothing(alpha: Memory, tmp_path: Path) -> None:
    """The same counts as the real run; the store is byte for byte what it was by its own export."""
    alpha.export(tmp_path / "a.jsonl")
    with opened(tmp_path, "beta") as beta:
        say(beta, "I like basalt.")
        beta.export(tmp_path / "before.jsonl")
        tried = beta.import_jsonl(tmp_path / "a.jsonl", dry_run=True)
        beta.export(tmp_path / "after.jsonl")
        done = beta.import_jsonl(tmp_path / "a.jsonl")
    assert lines(tmp_path / "before.jsonl")[1:-1] == lines(tmp_path / "after.jsonl")[1:-1]
    assert (tried.dry_run, done.dry_run) == (True, False)
    for name in ("status", "added", "updated", "present", "conflicts", "forgotten", "left", "moved", "problems"):
        assert getattr(tried, name) == getattr(done, name), name
    assert sum(done.added.values()) > 0


def test_the_async_door_does_the_same(alpha: Memory, tmp_path: Path) -> None:
    """Export and import from an event loop."""
    alpha.export(tmp_path / "a.jsonl")

    async def work() -> tuple[int, int]:
        async with await AsyncMemory.open(settings=Settings(data_dir=tmp_path / "data", agent="beta")) as beta:
            report = await beta.import_jsonl(tmp_path / "a.jsonl")
            exported = await beta.export(tmp_path / "b.jsonl")
            return report.added["turn"], exported.counts["turn"]

    assert asyncio.run(work()) == (6, 6)


def test_the_command_line_tells_an_export_by_its_first_line(
    alpha: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``import PATH`` reads an export as such whatever its name, and a transcript as a transcript."""
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))
    target = tmp_path / "looks-like-nothing"

    def call(*words: str, code: int = 0) -> dict[str, Any]:
        result = CliRunner().invoke(root, [*words, "--json"])
        assert result.exit_code == code, result.output
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    exported = call("export", str(target), "--agent", "alpha")
    assert exported["counts"]["turn"] == 6
    assert call("export", str(target), "--agent", "alpha", code=73)["error"]["code"] == "output_exists"
    assert call("export", str(target), "--agent", "alpha", "--force")["status"] == "ok"
    assert call("export", str(tmp_path / "x"), "--agent", "nobody", code=4)["error"]["code"] == "unknown_agent"
    assert call("import", str(target), "--dry-run", "--agent", "beta")["added"]["turn"] == 6
    assert call("import", str(target), "--agent", "beta")["added"]["turn"] == 6
    assert call("import", "jsonl", str(target), "--agent", "beta")["added"]["turn"] == 0
    assert call("import", "transcripts", str(target), "--agent", "beta")["present"]["turn"] == 6
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"role":"user","content":"I like basalt."}\n')
    assert call("import", str(chat), "--agent", "beta")["turns_stored"] == 1
    assert call("import", "jsonl", str(chat), "--agent", "beta", code=65)["error"]["code"] == "unknown_format"
    assert "neither a command nor a file" in CliRunner().invoke(root, ["import", "absent.jsonl"]).stderr
    (tmp_path / "cut").write_bytes(target.read_bytes()[:-5])
    cut = call("import", str(tmp_path / "cut"), "--agent", "beta", code=65)
    assert cut["error"]["code"] == "export_invalid"
    human = CliRunner().invoke(root, ["import", str(target), "--agent", "gamma"])
    assert human.stdout.startswith("Added 1 session, 6 turns, 6 messages and ")
