"""What a killed export leaves is a copy of what was said: the next one of that name takes it away."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sqlite.clock import Clock
from memory_sqlite.interop import output

LEFT = ".out.7.0123456789ab.partial"
OTHERS = (".out.7.0123456789ab.partial.txt", ".out.mine.partial", ".other.7.0123456789ab.partial", "out.partial")


@pytest.mark.parametrize("left", ["file", "folder"])
@pytest.mark.parametrize("new", ["file", "folder"])
def test_what_the_killed_left_goes_and_nothing_else(tmp_path: Path, left: str, new: str) -> None:
    if left == "file":
        (tmp_path / LEFT).write_bytes(b"said")
    else:
        (tmp_path / LEFT).mkdir()
        (tmp_path / LEFT / "said").write_bytes(b"said")
    for name in OTHERS:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".out.8.0123456789ab.partial").symlink_to(tmp_path / OTHERS[0])
    if new == "file":
        with output.new_file(tmp_path / "out", Clock(), overwrite=False) as file:
            file.write(b"x")
    else:
        with output.new_folder(tmp_path / "out", Clock()) as folder, folder.file("x") as file:
            file.write(b"x")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"out", ".out.8.0123456789ab.partial", *OTHERS}
    assert all((tmp_path / name).read_bytes() == b"mine" for name in OTHERS)


@pytest.mark.parametrize("living", ["file", "folder"])
def test_one_whose_maker_lives_stays(tmp_path: Path, living: str) -> None:
    """Two exports of one name at once: neither takes the other's file away."""
    out = tmp_path / "out"
    if living == "file":
        with output.new_file(out, Clock(), overwrite=True) as first:
            with output.new_file(out, Clock(), overwrite=True) as second:
                second.write(b"second")
            first.write(b"first")
        assert out.read_bytes() == b"first"
    else:
        with output.new_folder(out, Clock()) as folder:
            with pytest.raises(ZeroDivisionError), output.new_folder(out, Clock()):
                raise ZeroDivisionError
            with folder.file("said") as file:
                file.write(b"first")
        assert (out / "said").read_bytes() == b"first"
