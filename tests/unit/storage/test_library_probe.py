"""Which SQLite is there: an unsuitable one is named at once; two copies or no cipher name the pip command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory, errors, library
from memory_sqlite.config import Settings

KEY = {"MEMORY_KEY": "k" * 32}
PIP = "pip uninstall -y apsw && pip install --force-reinstall apsw-sqlite3mc"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An invented site-packages directory that apsw seems to lie in."""
    site = tmp_path / "site-packages"
    (site / "apsw").mkdir(parents=True)
    monkeypatch.setattr(apsw, "__file__", str(site / "apsw" / "__init__.py"))
    return site


def test_the_library_of_this_environment_is_suitable() -> None:
    library.require()
    assert library.describe()["sqlite"] == apsw.sqlite_lib_version()
    assert bool(library.cipher()) == hasattr(apsw, "mc_version")


@pytest.mark.parametrize("version", ["3.44.2", "3.9.0", "2.8.17"])
def test_an_old_sqlite_is_refused_by_its_version(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(errors.SqliteUnsuitable, match=version) as caught:
        library.require()
    assert caught.value.hint.startswith("pip install")


def test_a_sqlite_without_fts5_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "compile_options", tuple(o for o in apsw.compile_options if "FTS5" not in o))
    with pytest.raises(errors.SqliteUnsuitable, match="without FTS5"):
        library.require()


def test_an_apsw_that_cannot_register_fts5_functions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        """A connection class of an apsw before 3.47."""

    monkeypatch.setattr(apsw, "Connection", Old)
    with pytest.raises(errors.SqliteUnsuitable, match=r"3\.47"):
        library.require()


def test_a_command_on_an_old_sqlite_ends_with_the_catalogue_code() -> None:
    """It is probed when the storage is imported, before any file is looked at."""
    code = (
        "import apsw, sys\n"
        "apsw.sqlite_lib_version = lambda: '3.40.1'\n"
        "sys.argv = ['memory-sqlite', 'search', 'x', '--json']\n"
        "from memory_sqlite.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == errors.SqliteUnsuitable.exit_code
    assert '"sqlite_unsuitable"' in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["apsw-3.54.1.0.dist-info"], ("apsw",)),
        (["apsw_sqlite3mc-3.54.0.0.dist-info"], ("apsw-sqlite3mc",)),
        (["apsw-3.54.1.0.dist-info", "apsw_sqlite3mc-3.54.0.0.dist-info"], ("apsw", "apsw-sqlite3mc")),
        (["apsw-3.40.0.0-py3.11.egg-info", "click-8.1.0.dist-info", "apsw_tools-1.dist-info"], ("apsw",)),
        ([], ()),
    ],
)
def test_distributions_are_read_from_the_names_beside_the_package(
    names: list[str], found: tuple[str, ...], place: Path
) -> None:
    for name in names:
        (place / name).mkdir()
    assert library.distributions() == found


def test_two_distributions_are_reported_and_do_not_stop_anything(place: Path, tmp_path: Path) -> None:
    """A host may have brought plain apsw: without a key everything runs, and status says what is wrong."""
    for name in ("apsw-3.54.1.0.dist-info", "apsw_sqlite3mc-3.54.0.0.dist-info"):
        (place / name).mkdir()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        problem = memory.status()["library"]["problem"]
        assert "both installed" in problem
        assert problem.endswith(PIP)


def test_a_key_with_two_distributions_names_the_pip_command(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apsw-3.54.1.0.dist-info", "apsw_sqlite3mc-3.54.0.0.dist-info"):
        (place / name).mkdir()
    monkeypatch.setattr(apsw, "mc_version", "SQLite3 Multiple Ciphers 2.6.1", raising=False)
    monkeypatch.setenv(*next(iter(KEY.items())))
    with pytest.raises(errors.EncryptionUnavailable, match="both installed") as caught:
        Settings(encryption_key_env="MEMORY_KEY")
    assert caught.value.hint == PIP


def test_a_key_without_a_cipher_names_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(apsw, "mc_version", raising=False)  # plain apsw has none
    monkeypatch.setenv(*next(iter(KEY.items())))
    with pytest.raises(errors.EncryptionUnavailable, match="cannot encrypt") as caught:
        Settings(data_dir=tmp_path / "data", encryption_key_env="MEMORY_KEY")
    assert caught.value.hint == PIP
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("gone", ["apsw", "apsw.unicode"])
def test_a_command_without_its_sqlite_names_the_pip_command(gone: str) -> None:
    """What is left when one of two distributions was uninstalled: the other's files went with it."""
    code = (
        "import sys\n"
        f"sys.modules[{gone!r}] = None\n"
        "sys.argv = ['memory-sqlite', 'search', 'x', '--json']\n"
        "from memory_sqlite.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == errors.SqliteUnsuitable.exit_code
    assert '"sqlite_unsuitable"' in done.stdout
    assert errors.SqliteUnsuitable.default_hint in done.stdout


def test_a_command_without_a_key_does_not_look_beside_the_package(tmp_path: Path) -> None:
    """The listing is for ``status`` and for those who configured a key; a search never pays for it."""
    code = (
        "import sys\n"
        "from memory_sqlite import Memory, library\n"
        "library.distributions = None\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    memory.search('x')\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SQLITE_")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
