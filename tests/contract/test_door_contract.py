"""The Python door: its names, what a closed or disabled memory does, and many threads at once."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import AsyncMemory, Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.contract_methods import ContractMethods
from memory_sqlite.model import Hit, Page, Passage, RecallBlock, Receipt

PERSON = [{"role": "user", "content": "The granite key lies under the mat."}]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory with one turn in session ``s``."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as opened:
        opened.remember(session="s", messages=PERSON)
        yield opened


# --- names ---------------------------------------------------------------------------------------------------------

SIGNATURES = {
    "open": {"data_dir": None, "agent": None, "workspace": None},
    "remember": {"session": ..., "messages": ..., "run_id": None},
    "index": {"full": False},
    "reset": {},
    "search": {"query": ..., "session": None, "max_results": None, "min_score": 0.0, "sources": ("memory", "sessions")}
    | {"since": None, "until": None, "sort": "score"},
    "get": {"reference": ..., "session": None, "from_line": 1, "lines": None},
    "recall": {"query": ..., "session": None},
    "status": {},
    "sessions": {},
    "import_transcripts": {"paths": ...},
    "close": {},
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_names_and_defaults(name: str) -> None:
    """The issue's names and defaults; whatever else a method takes has a default."""
    parameters = inspect.signature(getattr(Memory, name)).parameters
    for argument, default in SIGNATURES[name].items():
        said = parameters[argument].default
        assert said is inspect.Parameter.empty if default is ... else said == default, argument
    extra = set(parameters) - set(SIGNATURES[name]) - {"self"}
    assert all(parameters[argument].default is not inspect.Parameter.empty for argument in extra)


CONTRACTS = {name for name in vars(ContractMethods) if not name.startswith("_")}
"""What they return has an event loop of its own kind: tests of the contracts hold them."""


def test_async_memory_has_the_same_methods() -> None:
    """What can be done with one can be done with the other."""
    public = {name for name, _ in inspect.getmembers(Memory, inspect.isroutine) if not name.startswith("_")}
    assert public - CONTRACTS <= {name for name, _ in inspect.getmembers(AsyncMemory, inspect.isroutine)}


def test_results_have_the_promised_fields() -> None:
    """The attributes that hosts read."""
    promised = {
        Hit: {
            "path",
            "start_line",
            "end_line",
            "excerpt",
            "matches",
            "score",
            "source",
            "layer",
            "reference",
            "citation",
        }
        | {"provenance", "time", "session", "message_id", "speaker"},
        Page: {"hits", "coverage", "stale", "warnings"},
        Passage: {"status", "text", "truncated", "next_from", "provenance"},
        RecallBlock: {"text", "hits"},
        Receipt: {"status"},
    }
    for kind, names in promised.items():
        assert names <= {field.name for field in fields(kind)}, kind


def test_the_example_of_the_readme(tmp_path: Path, workspace: Path) -> None:
    """Positional data directory, agent and workspace; everything the issue's example does, in its order."""
    (workspace / "memory" / "people.md").write_text("# People\n\nMika keeps the router VLAN plan.\n")
    with Memory.open(tmp_path / "data", "main", workspace) as memory:
        receipt = memory.remember(session="s1", run_id="r1", messages=[{"role": "user", "content": "I like oat milk."}])
        assert receipt.status == "stored"
        assert memory.index().status == "ok"
        page = memory.search("router VLAN", session=None, max_results=6, min_score=0.0, sources=("memory", "sessions"))
        hit = page.hits[0]
        assert (hit.path, hit.source, hit.layer) == ("memory/people.md", "memory", None)
        assert hit.citation.startswith("memory/people.md#L")
        assert 0 < hit.score <= 1
        assert "VLAN" in memory.get(hit.reference).text
        assert memory.get("memory/people.md", from_line=1, lines=20).text.startswith("# People\n")
        assert "oat milk" in memory.recall("what do I like to drink, oat milk?", session="s1").text
        assert memory.status()["agent"] == "main"


# --- closed and disabled -------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Memory], Any]] = {
    "remember": lambda memory: memory.remember(session="s", messages=PERSON),
    "import_transcripts": lambda memory: memory.import_transcripts(["nowhere.jsonl"]),
    "import_layered": lambda memory: memory.import_layered("nowhere"),
    "import_jsonl": lambda memory: memory.import_jsonl("nowhere.jsonl"),
    "export": lambda memory: memory.export("nowhere/at-all.jsonl"),
    "query": lambda memory: memory.query("SELECT 1"),
    "backup": lambda memory: memory.backup("nowhere/at-all"),
    "export_layered": lambda memory: memory.export_layered("nowhere/at-all"),
    "export_transcripts": lambda memory: memory.export_transcripts("nowhere/at-all"),
    "remember_facts": lambda memory: memory.remember_facts([{"content": "The key is granite."}], session="s"),
    "end_facts": lambda memory: memory.end_facts(["record:nothing"]),
    "facts": lambda memory: memory.facts("granite"),
    "index": lambda memory: memory.index(),
    "reset": lambda memory: memory.reset(),
    "forget": lambda memory: memory.forget(sessions=["nobody"], dry_run=True),
    "prune": lambda memory: memory.prune(dry_run=True),
    "hold": lambda memory: memory.hold("nobody"),
    "release": lambda memory: memory.release("nobody"),
    "holds": lambda memory: memory.holds(),
    "search": lambda memory: memory.search("granite"),
    "explain": lambda memory: memory.explain("granite", "MEMORY.md"),
    "get": lambda memory: memory.get("MEMORY.md"),
    "recall": lambda memory: memory.recall("granite"),
    "sessions": lambda memory: memory.sessions(),
    "status": lambda memory: memory.status(),
    "doctor": lambda memory: memory.doctor(fix=True, deep=True),
    "support_bundle": lambda memory: memory.support_bundle("nowhere/at-all.zip"),
    "watch": lambda memory: memory.watch(),
}
HANDLES = {"watch"}
"""What gives something to hold and close instead of an answer: when memory is disabled there is nothing to give."""


@pytest.mark.parametrize("name", CALLS)
def test_closed_memory_says_so(memory: Memory, name: str) -> None:
    """Every method of a closed memory raises ``MemoryClosed``; closing twice is safe."""
    memory.close()
    memory.close()
    with pytest.raises(errors.MemoryClosed):
        CALLS[name](memory)


def test_every_public_method_is_in_the_table() -> None:
    """A method that is added later must be tried on a closed and on a disabled memory too."""
    public = {name for name, _ in inspect.getmembers(Memory, inspect.isroutine) if not name.startswith("_")}
    assert public - {"open", "close"} - CONTRACTS == set(CALLS)


@pytest.mark.parametrize("name", sorted(set(CALLS) - HANDLES))
def test_disabled_memory_answers_and_makes_nothing(tmp_path: Path, name: str) -> None:
    """``enabled=false``: each method answers without an error and nothing is opened or created."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", enabled=False)) as memory:
        answer = CALLS[name](memory)
    said = getattr(answer, "status", None) or getattr(answer, "reason", None)
    assert said == "disabled" or answer in ([], {"agent": "main", "status": "disabled"}) or answer.disabled
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", sorted(HANDLES))
def test_disabled_memory_gives_no_handle(tmp_path: Path, name: str) -> None:
    """Nothing is opened or created, and the error names the setting."""
    disabled = Settings(data_dir=tmp_path / "data", enabled=False)
    with Memory.open(settings=disabled) as memory, pytest.raises(errors.InvalidConfiguration, match="enabled"):
        CALLS[name](memory)
    assert not (tmp_path / "data").exists()


# --- threads -------------------------------------------------------------------------------------------------------


def test_inv_096_two_memories_of_one_agent_each_keep_their_own_settings(tmp_path: Path) -> None:
    """Settings never change under an open memory: another one with others is another memory, over the same index; what
    one remembers the other finds, each as it was told to answer."""
    few = Settings(data_dir=tmp_path / "data", max_search_results=1)
    many = Settings(data_dir=tmp_path / "data", max_search_results=10)
    with Memory.open(settings=few) as one, Memory.open(settings=many) as other:
        for number, memory in enumerate((one, other, one)):
            memory.remember(session="s", messages=[{"role": "user", "content": f"granite {number}"}])
        assert (len(one.search("granite", session="s").hits), one.settings) == (1, few)
        assert (len(other.search("granite", session="s").hits), other.settings) == (3, many)
        assert one.status()["index"]["generation"] == other.status()["index"]["generation"] == 1


def test_inv_096_one_memory_from_many_threads(memory: Memory) -> None:
    """Writes take turns, reads go on beside them; every call ends right."""
    problems: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(15):
                memory.remember(
                    session=name, run_id=f"r{number}", messages=[{"role": "user", "content": f"{name}{number}"}]
                )
                assert memory.search(f"{name}{number}", sources=("sessions",), session=name).hits
                assert memory.status()["turns"] > 0
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(f"basalt{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    memory.index(full=True)
    for thread in threads:
        thread.join()
    assert problems == []
    assert memory.status()["turns"] == 61
    assert memory.status()["index"]["lag"] == 0
