"""A support bundle says how a memory is, and not a word of what is in it: planted markers are found nowhere."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from memory_sqlite import Memory, errors
from memory_sqlite.cli.app import root
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import bundle

FILES = [
    "README.txt", "about.json", "settings.json", "doctor.json", "status.json", "schema.json", "generations.json",
    "files.json",
]  # fmt: skip


def marker(what: str) -> str:
    """A word that nothing of ours has: a bundle with ``quokka`` in it tells of a person's things."""
    return f"quokka{what}"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A memory with a marker wherever a person can put a word, and with things that doctor and status tell of."""
    workspace = tmp_path / marker("workspace")
    notes = workspace / "memory" / marker("folder")
    notes.mkdir(parents=True)
    (notes / f"{marker('note')}.md").write_text(f"# {marker('heading')}\n\n{marker('text')}\n", "utf-8")
    (notes / f"{marker('broken')}.md").write_bytes(b"\xff\xfe\x00\xd8" * 3 + marker("bytes").encode())
    (notes / f"{marker('link')}.md").symlink_to(notes / f"{marker('note')}.md")
    extra = tmp_path / f"{marker('extra')}.md"
    extra.write_text(marker("more"), "utf-8")
    return Settings(
        data_dir=tmp_path / marker("data"),
        agent=marker("agent"),
        workspace=workspace,
        extra_paths=(extra,),
        embedding_provider="openai",
        embedding_base_url=f"http://127.0.0.1:9/{marker('url')}",
        embedding_model=marker("model"),
        embedding_api_key_env=f"{marker('variable').upper()}",
    )


@pytest.fixture
def filled(settings: Settings, tmp_path: Path) -> Settings:
    with Memory.open(settings=settings) as memory:
        memory.index()
        memory.remember(
            session=marker("session"),
            run_id=marker("run"),
            chat_type="group",
            project=marker("project"),
            messages=[
                {
                    "role": "user", "content": f"I like {marker('content')}.", "id": marker("id"),
                    "sender": marker("sender"), "name": marker("name"), marker("key"): marker("value"),
                },
                {"role": marker("role"), "content": marker("answer")},
            ],
        )  # fmt: skip
        fact = {"content": f"{marker('fact')} is here.", "name": marker("entity"), "scopes": [marker("scope")]}
        memory.remember_facts([fact], session=marker("session"))
        memory.remember(session=marker("gone"), messages=[{"role": "user", "content": marker("forgotten")}])
        memory.forget(sessions=[marker("gone")])
        memory.search(marker("query"), session=marker("session"))
        directory = memory._opened.store.directory  # type: ignore[union-attr]
    transcript = tmp_path / f"{marker('transcript')}.jsonl"
    transcript.write_text('{"type": "message", "' + marker("line") + '"\n', "utf-8")
    with Memory.open(settings=settings) as memory:
        memory.import_transcripts([transcript], format="openclaw", session=marker("imported"))
    (directory / f"{marker('foreign')}.sqlite").write_bytes(b"x")
    connection = apsw.Connection(str(directory / "memory.sqlite"))
    connection.execute(f"CREATE TABLE {marker('table')} ({marker('column')} TEXT) STRICT").fetchall()
    connection.close()
    return settings


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert not archive.comment and all(not entry.comment and not entry.extra for entry in archive.infolist())
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


def parsed(path: Path) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in contents(path).items() if name.endswith(".json")}


def assert_clean(path: Path, tmp_path: Path) -> None:
    """No marker, whole or in part, in any part; no path of the machine; and none in the archive's own bytes."""
    for name, text in contents(path).items():
        assert "quokka" not in text.lower(), name
        assert str(tmp_path) not in text and str(Path.home()) not in text, name
        assert "vlan" not in text.lower()
    assert b"quokka" not in path.read_bytes().lower()


def test_planted_markers_are_in_no_part(filled: Settings, tmp_path: Path) -> None:
    """Messages, sessions, senders, runs, notes, headings, folders, settings, foreign files and tables: none of it."""
    out = tmp_path / "bundle.zip"
    with Memory.open(settings=filled) as memory:
        report = memory.support_bundle(out)
    assert report.files == tuple(FILES) and report.bytes == out.stat().st_size
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert_clean(out, tmp_path)
    parts = parsed(out)
    assert not any("error" in part for part in parts.values() if isinstance(part, dict))
    assert parts["status.json"]["turns"] >= 1 and parts["status.json"]["workspace"] is True
    told = parts["status.json"]["index"]["problems"]
    assert told and all(len(problem["path"]) == 8 and problem["reason"] for problem in told)
    assert parts["schema.json"]["foreign_tables"] == 1 and parts["schema.json"]["rows"]["messages"] >= 2
    assert parts["files.json"]["other_files"] >= 1 and parts["files.json"]["files"]["memory.sqlite"]["mode"] == "0o600"
    assert parts["generations.json"][0]["state"] == "current"
    assert parts["doctor.json"]["findings"] and parts["doctor.json"]["agent"] == ""
    said = parts["settings.json"]
    assert (said["workspace"], said["embedding_model"], said["encryption_key_env"]) == ("set", "set", None)
    assert (said["max_read_lines"], said["compatibility"]) == (200, "standard")


def test_from_the_command_line(filled: Settings, tmp_path: Path) -> None:
    """The same from settings; never over a file that is there, unless it is said so."""
    out = tmp_path / "bundle.zip"
    place = ["--data-dir", str(filled.data_dir), "--agent", filled.agent]
    told = CliRunner().invoke(root, ["support-bundle", str(out), *place, "--json"])
    assert told.exit_code == 0 and list(json.loads(told.stdout)) == ["ok", "status", "path", "files", "bytes"]
    assert_clean(out, tmp_path)
    again = CliRunner().invoke(root, ["support-bundle", str(out), *place])
    assert again.exit_code == errors.OutputExists.exit_code
    assert CliRunner().invoke(root, ["support-bundle", str(out), "--force", *place]).exit_code == 0
    assert sorted(path.name for path in tmp_path.glob(".bundle*")) == []


@pytest.mark.parametrize("how", ["nothing", "damaged", "no_key", "disabled"])
def test_where_a_memory_does_not_open(filled: Settings, tmp_path: Path, how: str) -> None:
    """A bundle is wanted most then: every part is there, those that could not be looked at with an error's code."""
    directory = next((filled.data_dir / "agents").iterdir())
    settings = filled
    if how == "nothing":
        settings = Settings(data_dir=tmp_path / marker("empty"), agent=marker("nobody"))
    elif how == "damaged":
        (directory / "memory.sqlite").write_bytes(marker("rubbish").encode() * 1000)
    elif how == "no_key":
        (filled.data_dir / "session.key").write_bytes(b"short")
    else:
        settings = Settings(data_dir=filled.data_dir, agent=filled.agent, enabled=False)
    out = tmp_path / "bundle.zip"
    report = bundle.write(settings, Clock(), out)
    assert report.files == tuple(FILES)
    assert_clean(out, tmp_path)
    parts = parsed(out)
    assert "error" not in parts["about.json"] and "error" not in parts["settings.json"]
    if how == "disabled":
        assert parts["status.json"] == {"status": "disabled"}
    else:
        assert set(parts["status.json"]) == {"error"}
    assert "error" not in parts["doctor.json"]
    assert how != "nothing" or not (tmp_path / marker("empty")).exists()


def test_a_place_that_cannot_be_written(filled: Settings, tmp_path: Path) -> None:
    """An error by its name, and nothing is left beside it."""
    with pytest.raises(errors.StoreReadOnly):
        bundle.write(filled, Clock(), tmp_path / "absent" / "bundle.zip")
    assert not (tmp_path / "absent").exists()


def spoil(path: Path, table: str) -> None:
    """Overwrite the head of the first page of a table, the last byte of that of an index."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    root_page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    size = connection.pragma("page_size")
    connection.close()
    content = bytearray(path.read_bytes())
    if table.endswith("_x"):
        content[root_page * size - 1] ^= 1
    else:
        content[(root_page - 1) * size : (root_page - 1) * size + 8] = b"\xee" * 8
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["references", "page", "index"])
def test_faults_of_tables_that_are_not_ours_do_not_name_them(filled: Settings, tmp_path: Path, how: str) -> None:
    """A person called them so; that something is wrong with one of them is told."""
    directory = next((filled.data_dir / "agents").iterdir())
    path = directory / "memory.sqlite" if how != "index" else next(directory.glob("index-*.sqlite"))
    connection = apsw.Connection(str(path))
    connection.execute(f"CREATE TABLE {marker('parent')} (id INTEGER PRIMARY KEY)").fetchall()
    connection.execute(f"CREATE TABLE {marker('child')} (x REFERENCES {marker('parent')} (id))").fetchall()
    connection.execute(f"CREATE INDEX {marker('child')}_x ON {marker('child')} (x)").fetchall()
    connection.execute(f"INSERT INTO {marker('child')} VALUES (7)").fetchall()
    if how == "references":
        connection.execute("UPDATE generations SET identity = json_set(identity, '$.quokka', 1)").fetchall()
    connection.close()
    if how != "references":
        spoil(path, f"{marker('child')}{'_x' if how == 'index' else ''}")
    out = tmp_path / "bundle.zip"
    bundle.write(filled, Clock(), out)
    assert_clean(out, tmp_path)
    told = [one["evidence"] for one in parsed(out)["doctor.json"]["findings"]]
    assert any("1 not ours" in str(evidence) for evidence in told), told


def test_digests_tell_two_names_apart_and_say_neither() -> None:
    """The same name gives the same digest: two bundles of one memory can be compared."""
    one, other = bundle.digest(marker("one")), bundle.digest(marker("other"))
    assert one != other and one == bundle.digest(marker("one"))
    assert len(one) == 8 and set(one) <= set("0123456789abcdef")
