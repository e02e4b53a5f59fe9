"""What the installed tests share: a clean copy of the tree, its wheel and sdist, and clean environments with the wheel.

Everything is made once a session, in temporary directories, through the ordinary pip and index of the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PIP_CACHE = Path.home() / ".cache" / "pip"
"""pip's own downloads are shared, so that a run costs seconds; nothing of this project is in them."""
LEFT_OUT = {".git", ".venv", "build", "dist", "__pycache__"}


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip, and a home of its own for what runs in it."""

    directory: Path
    home: Path

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def site(self) -> Path:
        return next((self.directory / "lib").glob("python*")) / "site-packages"

    def run(self, *command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment outside of the tree; fails the test when it fails."""
        words = [str(self.directory / "bin" / command[0]), *(str(word) for word in command[1:])]
        done = subprocess.run(
            words,
            cwd=self.home,
            env=environment(self.home) | more,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done


def environment(home: Path) -> dict[str, str]:
    """The machine's variables with another home, and none that point Python or this program elsewhere."""
    left_out = ("MEMORY_SQLITE_", "XDG_", "PYTHON", "PYTEST_", "COV_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {"PIP_CACHE_DIR": str(PIP_CACHE)} | kept | {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}


def _tracked() -> list[str]:
    """The tree's files as git would hand them to somebody else; without git, all but build products."""
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [str(path) for path in found if not LEFT_OUT & set(path.parts) and ".egg-info" not in str(path)]


_LAUNCHER = (
    "import os, sys\n"
    "child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)\n"
    "_, status, usage = os.wait4(child, 0)\n"
    "with open(sys.argv[1], 'w') as out:\n"
    "    out.write(str(usage.ru_maxrss))\n"
    "sys.exit(os.waitstatus_to_exitcode(status))\n"
)


def with_peak(place: Path, *command: str | Path, env: Mapping[str, str] | None = None) -> tuple[str, int]:
    """Run a program; its standard output and its peak resident size in bytes.

    Through a small process in between: Linux counts the size of whoever starts a program as the program's own peak.
    """
    note = place / "peak"
    words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(note), *(str(word) for word in command)]
    done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, timeout=200, check=True)
    return done.stdout, int(note.read_text()) * (1 if sys.platform == "darwin" else 1024)


@pytest.fixture(scope="session")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as a clone has it: no caches, no build products."""
    copy = tmp_path_factory.mktemp("clone") / "memory-sqlite"
    for name in _tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return copy


@pytest.fixture(scope="session")
def dist(clean_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, and the wheel that was built from that sdist."""
    directory = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(directory), str(clean_copy)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return directory


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """The wheel."""
    return next(dist.glob("*.whl"))


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires without any extra, as pip would be told."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    return [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]


def installed(directory: Path, *commands: Sequence[str]) -> Environment:
    """A new environment in which these ``pip install`` argument lists were carried out in order."""
    venv.create(directory / "env", with_pip=False, symlinks=True)
    home = directory / "home"
    home.mkdir()
    made = Environment(directory / "env", home)
    for words in commands:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(made.python), "install", "-q", *words],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return made


@pytest.fixture(scope="session")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with what it requires, and nothing else."""
    return installed(tmp_path_factory.mktemp("base"), [str(wheel)])
