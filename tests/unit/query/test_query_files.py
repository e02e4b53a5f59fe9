"""Which files a pattern names, and which it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument
from memory_sqlite.query.files import named


def none() -> None:
    """Nothing to check."""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files, folders, links in and out, hidden ones."""
    root = tmp_path / "root"
    for name in ("a.jsonl", "b.txt", "deep/c.jsonl", "deep/er/d.jsonl", ".hidden/e.jsonl", "[x].jsonl", ".f.jsonl"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonl").write_text("{}\n")
    (root / "out.jsonl").symlink_to(outside / "secret.jsonl")
    (root / "in.jsonl").symlink_to(root / "a.jsonl")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "gone.jsonl").symlink_to(root / "nowhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(root))
    return root


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("root/*.jsonl", ["[x].jsonl", "a.jsonl", "in.jsonl"]),
        ("root/**/*.jsonl", ["[x].jsonl", "a.jsonl", "deep/c.jsonl", "deep/er/d.jsonl", "in.jsonl"]),
        ("root/**/**/d.jsonl", ["deep/er/d.jsonl"]),
        ("root/deep/**", ["deep/c.jsonl", "deep/er/d.jsonl"]),
        ("root/?.jsonl", ["a.jsonl"]),
        ("root/[ab].*", ["a.jsonl", "b.txt"]),
        ("root/[x].jsonl", ["[x].jsonl"]),
        ("root/.*/*.jsonl", [".hidden/e.jsonl"]),
        ("root/.*.jsonl", [".f.jsonl"]),
        ("~/a.jsonl", ["a.jsonl"]),
        ("~/d*/*.jsonl", ["deep/c.jsonl"]),
        ("root/out.jsonl", ["out.jsonl"]),
    ],
)
def test_patterns(tree: Path, pattern: str, found: list[str]) -> None:
    """Sorted; links out of the root and into folders are not followed, unless a link is named itself."""
    assert [str(path.relative_to(tree)) for path in named(pattern, none)] == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("root", "a folder"),
        ("root/nothing*.jsonl", "no file matches"),
        ("nowhere.jsonl", "no file matches"),
        ("root/deep/er*", "no file matches"),
        ("", "missing"),
        ("a\0b", "missing"),
        ("/dev/null", "not a regular file"),
        ("root/gone*.jsonl", "no file matches"),
    ],
)
def test_what_names_no_file(tree: Path, pattern: str, message: str) -> None:
    """The error says what is wrong and does not repeat the pattern."""
    with pytest.raises(InvalidArgument, match=message) as said:
        named(pattern, none)
    assert not pattern.strip() or pattern not in said.value.message


def test_files_come_in_the_order_of_their_names(tree: Path) -> None:
    """Compared as texts, as SQLite does: not folder by folder."""
    for name in ("deep.jsonl", "deep-b.jsonl", "deep c.jsonl"):
        (tree / name).write_text("{}\n")
    found = [str(path) for path in named("root/**/*.jsonl", none)]
    assert found == sorted(found) and found.index(f"{tree}/deep.jsonl") < found.index(f"{tree}/deep/c.jsonl")


@pytest.mark.parametrize("pattern", ["x" * 5_000, "y/" * 5_000 + "*", "x" * 300 + "*/*.jsonl", "a.jsonl/b"])
def test_names_that_no_file_can_have(tree: Path, pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="no file matches"):
        named(pattern, none)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has it")
def test_what_the_system_makes_up_is_no_file(tree: Path) -> None:
    """There the environment of other processes, and with it a key, could be read: by name, by pattern, by link."""
    (tree / "proc").symlink_to("/proc")
    for pattern in ("/proc/self/environ", "/proc/self/env*", "/proc/**/environ", "root/proc/self/environ", "/sys/**"):
        with pytest.raises(InvalidArgument):
            named(pattern, none)


def test_too_many_files(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUERY_FILES_MAX", 2)
    with pytest.raises(InvalidArgument, match="more than 2"):
        named("root/**/*.jsonl", none)


def test_the_time_of_the_query_bounds_the_walk(tree: Path) -> None:
    class OverError(Exception):
        pass

    def over() -> None:
        raise OverError

    with pytest.raises(OverError):
        named("root/**/*.jsonl", over)
