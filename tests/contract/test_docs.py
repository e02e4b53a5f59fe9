"""The pages under docs/ against the code: tables, rooms, formats, limits, and the blocks that can be executed."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.cli.app import COMMANDS
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.indexing import identity
from memory_sqlite.layers.slots import Kind
from memory_sqlite.search import rank, vocabulary
from memory_sqlite.sources.transcript_formats.detect import FORMATS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "memory_sqlite" / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_package_is_listed_and_every_listed_one_is_there() -> None:
    """``pip install .`` fails for a package that is listed and not there, and forgets one that is not listed."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    listed = tools["packages"]
    assert len(listed) == len(set(listed))
    top = {"memory_sqlite.migrations", "memory_sqlite.workers"}
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "memory_sqlite").rglob("__init__.py")}
    assert set(listed) == found | top


def test_every_table_of_the_store_is_described() -> None:
    """docs/file-format.md names each table of the schema, and no other."""
    schema = (ROOT / "migrations" / "schema.sql").read_text(encoding="utf-8")
    tables = set(re.findall(r"^CREATE TABLE (\w+)", schema, re.M))
    section = page("file-format.md").split("## The store", 1)[1].split("\n## ", 1)[0]
    described = {name for row in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert described == tables


def test_every_room_is_in_the_architecture() -> None:
    """docs/architecture.md has a row for each sub-package."""
    rooms = {path.parent.name for path in (ROOT / "memory_sqlite").glob("*/__init__.py")}
    rows = set(re.findall(r"`(\w+)/`", page("architecture.md").split("## Rooms", 1)[1].split("\n## ", 1)[0]))
    assert rooms <= rows


def test_every_link_between_pages_leads_somewhere() -> None:
    """Relative links, with their headings."""
    for source in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", source.read_text(encoding="utf-8")):
            assert (source.parent / target).is_file(), (source.name, target)


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {str(path.relative_to(ROOT)) for path in PAGES} <= set(re.findall(r"\]\(([^)#]+)\)", readme))


def test_commands_in_the_docs_exist() -> None:
    """Each ``memory-sqlite WORD`` names a command."""
    for source in (ROOT / "README.md", *PAGES):
        text = source.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.M | re.S)
        words = re.findall(r"`memory-sqlite ([a-z][a-z-]*)", text)
        for block in blocks:
            words += re.findall(r"^memory-sqlite(?: --[a-z-]+ \S+)* ([a-z][a-z-]*)", block, re.M)
        for word in words:
            assert word in COMMANDS, (source.name, word)


def test_the_door_is_described_whole() -> None:
    """docs/python.md names every method of ``Memory`` and each of its arguments."""
    text = page("python.md")
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if name.startswith("_") or name == "close":
            continue
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}(")), None)
        assert row is not None, f"docs/python.md lacks {name}"
        for argument in list(inspect.signature(method).parameters)[1:]:
            assert re.search(rf"\b{argument}\b", row), (name, argument)


def test_forgetting_is_described_whole() -> None:
    """docs/json.md names each field of the report."""
    section = page("json.md").split("## `forget`", 1)[1].split("\n## ", 1)[0]
    for field in dataclasses.fields(ForgetReport):
        assert f"`{field.name}`" in section, field.name


def test_formats_and_numbers_on_the_pages() -> None:
    """Bounds that the pages state are those of the code."""
    sources, searching = page("sources.md"), page("searching.md")
    assert all(f"| `{name}` |" in sources for name in FORMATS)
    assert limits.NOTE_MAX_BYTES == limits.TRANSCRIPT_LINE_MAX_BYTES == 16 * limits.MIB
    assert sources.count("16 MiB") == 2
    assert f"about {limits.CHUNK_TOKENS} tokens" in sources
    assert f"up to {limits.EPISODE_MAX_UNITS:,} characters" in sources
    assert f"(`extraction_interval`, {limits.EXTRACTION_INTERVAL[2]})" in sources
    assert limits.FACTS_PER_MESSAGE_MAX == 8
    assert "up to eight a message" in sources
    assert (limits.FRESHNESS_INTERVAL_S, limits.FRESHNESS_BUDGET_S) == (1.0, 0.5)
    assert f"{limits.QUERY_MAX_CHARS:,} characters and {limits.QUERY_MAX_TERMS} different words" in searching
    assert f"{limits.GET_MAX_CHARS:,} characters at once" in searching
    assert f"`max_read_lines`, {limits.MAX_READ_LINES[2]}" in searching
    assert (rank.RECENCY_BOOST, rank.IMPORTANCE_STEP, vocabulary.FUZZY_MIN_CHARS) == (1.03, 0.01, 4)
    assert f"({limits.DEFAULT_RESULTS}; at most {limits.OPERATOR_MAX_RESULTS} for the operator" in page("python.md")
    assert set(identity.expected()) == {"format", "tokenizer", "chunker"}
    assert set(Kind.__args__) == {"preference", "identity", "instruction"}


@pytest.mark.parametrize(
    "name",
    [
        "python.md",
        "contracts-legacy.md",
        "contracts-host.md",
        "contracts-flush.md",
        "contracts-gateway.md",
        "contracts-engine.md",
        "contracts-hosting.md",
    ],
)
def test_python_blocks_run(tmp_path: Path, name: str) -> None:
    for code in re.findall(r"^```python\n(.*?)^```$", page(name), re.M | re.S):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_the_annotated_note_of_the_docs(memory: Memory, workspace: Path) -> None:
    """The example of docs/sources.md does what the table below it says."""
    note = re.search(r"^```markdown\n(.*?)^```$", page("sources.md"), re.M | re.S)
    assert note is not None
    (workspace / "memory" / "house.md").write_text(note[1], encoding="utf-8")
    assert memory.index().problems == ()
    wifi = memory.search("wifi").hits[0]
    assert (wifi.importance, wifi.triggers, wifi.title) == (8, ("router", "wifi"), "The house")
    key = "github.com/northwind/harbor"
    assert all(hit.projects == (key,) for hit in memory.search("deploys router", projects=[key]).hits)
    assert not memory.search("deploys router", projects=["github.com/other/one"]).hits


def rules() -> list[tuple[int, str, str]]:
    """The rows of the table of rules: number, state, and what stands there for it."""
    text = page("architecture.md").split("## Rules of the nearest product", 1)[1]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [(int(row[0]), row[2], row[3]) for row in cells if row[0].isdigit()]


def defined(*folders: str) -> set[str]:
    """Every test in these folders."""
    tests = Path(__file__).parents[1]
    return {
        name
        for folder in folders or ("",)
        for path in (tests / folder).rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }


def test_every_rule_of_the_table_names_tests_that_exist() -> None:
    """The 102 rules: each has a row, and every test a row names is in the tree."""
    assert [number for number, _, _ in rules()] == list(range(1, 103))
    assert {state for _, state, _ in rules()} == {"met", "met differently", "not applicable"}
    named = {name for _, _, said in rules() for name in re.findall(r"`(test_\w+)", said) if not name.endswith("_")}
    files = {path.stem for path in Path(__file__).parents[1].rglob("test_*.py")}
    assert named - defined() - files == set()


def test_every_rule_that_is_met_has_a_test_of_its_number() -> None:
    """In the folders for it; and a test that carries a number is named by the row of that number."""
    numbered = {name for name in defined("concurrency", "faults", "contract") if name.startswith("test_inv_")}
    for number, state, said in rules():
        named = set(re.findall(r"`(test_\w+)", said))
        own = {name for name in numbered if f"inv_{number:03d}_" in name}
        if state == "not applicable":
            assert not own, number
        else:
            assert own & named, f"rule {number} names no test of its own"
            assert own <= named, f"rule {number} does not name {sorted(own - named)}"
    assert not {name for name in defined() - numbered if re.search(r"inv_\d", name)}, "numbered tests have their place"
