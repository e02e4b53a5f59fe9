"""Taking over the key of a layered-memory directory: tokens stay, and nothing is taken over silently or twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sqlite import errors
from memory_sqlite.cli.app import root
from memory_sqlite.interop.layered import adopt_session_key
from memory_sqlite.memory import Memory

KEY = bytes(range(32))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    old = tmp_path / "old"
    old.mkdir()
    (old / ".isolation-key").write_bytes(KEY)
    return old


def test_the_key_is_taken_over_once(tmp_path: Path, source: Path) -> None:
    for _ in range(2):
        adopt_session_key(source, tmp_path / "new")
    key = tmp_path / "new" / "session.key"
    assert key.read_bytes() == KEY and key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in source.iterdir()] == [".isolation-key"]


def test_a_data_directory_with_another_key_keeps_it(tmp_path: Path, source: Path) -> None:
    with Memory.open(tmp_path / "own"):
        pass
    before = (tmp_path / "own" / "session.key").read_bytes()
    with pytest.raises(errors.SessionKeyChanged):
        adopt_session_key(source, tmp_path / "own")
    assert (tmp_path / "own" / "session.key").read_bytes() == before


def test_a_lost_key_is_not_replaced(tmp_path: Path, source: Path) -> None:
    with Memory.open(tmp_path / "own"):
        pass
    (tmp_path / "own" / "session.key").unlink()
    with pytest.raises(errors.SessionKeyMissing):
        adopt_session_key(source, tmp_path / "own")


def test_the_directory_to_import_is_never_the_data_directory(source: Path) -> None:
    for place in (source, source / "below"):
        with pytest.raises(errors.LegacyLayout):
            adopt_session_key(source, place)
    assert [path.name for path in source.iterdir()] == [".isolation-key"]


@pytest.mark.parametrize("content", [b"short", b"x" * 33])
def test_a_key_of_another_length_is_refused(tmp_path: Path, source: Path, content: bytes) -> None:
    (source / ".isolation-key").write_bytes(content)
    with pytest.raises(errors.SessionKeyInvalid):
        adopt_session_key(source, tmp_path / "new")
    assert not (tmp_path / "new" / "session.key").exists()


def test_a_linked_key_is_not_followed(tmp_path: Path, source: Path) -> None:
    (source / ".isolation-key").rename(tmp_path / "elsewhere")
    (source / ".isolation-key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.SessionKeyInvalid):
        adopt_session_key(source, tmp_path / "new")


def test_the_oldest_layouts_have_no_key_to_take(tmp_path: Path) -> None:
    day = tmp_path / "g0" / "conversations" / "2026-05-01.jsonl"
    day.parent.mkdir(parents=True)
    day.write_text('{"id":"1","role":"user","content":"hello granite","timestamp":1777600000000,"sessionKey":"s"}\n')
    adopt_session_key(tmp_path / "g0", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with Memory.open(tmp_path / "new") as memory:
        assert memory.import_layered(tmp_path / "g0").turns_stored == 1


def test_the_command_takes_the_key_over_before_it_makes_a_store(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = source / "agents" / "main-0d6e4079e367" / "sessions" / "3fe711aae85a53cba26fec699ea91acd" / "memories"
    day.mkdir(parents=True)
    (day / "2026-07-15.jsonl").write_text('{"id":"1_a","level":"L1","content":"granite","sessionKey":"s1"}\n')
    with pytest.raises(SystemExit) as ended:
        root.main(["--json", "--data-dir", str(tmp_path / "new"), "import", "layered", str(source)])
    assert ended.value.code in (0, None), capsys.readouterr().out
    assert (tmp_path / "new" / "session.key").read_bytes() == KEY
