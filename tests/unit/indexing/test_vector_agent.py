"""Who fills vectors, and when: ``index`` to the end, a serving memory beside what it serves, nobody else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from memory_sqlite import Memory, errors, limits
from memory_sqlite.agent import embedding
from memory_sqlite.cli.app import root
from memory_sqlite.doctor import verify
from memory_sqlite.generations import vector_rows
from memory_sqlite.model import VectorReport

LONG = 60.0
"""Seconds that a test waits for an event before it fails: never reached when all is well."""


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[VectorReport], bool]], VectorReport]:
    """Waits until a pass of filing has ended with a report that fits; reports are kept until somebody waits."""
    ended: list[VectorReport] = []
    heard = threading.Condition()
    real = embedding.Embedding.fill

    def fill(self: embedding.Embedding, **asked: Any) -> VectorReport:
        report = real(self, **asked)
        with heard:
            ended.append(report)
            heard.notify_all()
        return report

    monkeypatch.setattr(embedding.Embedding, "fill", fill)

    def wait(fits: Callable[[VectorReport], bool]) -> VectorReport:
        with heard:
            assert heard.wait_for(lambda: any(map(fits, ended)), LONG), ended
            found = next(report for report in ended if fits(report))
            del ended[: ended.index(found) + 1]
            return found

    return wait


def say(memory: Memory, text: str, session: str = "s") -> None:
    memory.remember(session=session, messages=[{"role": "user", "content": text}])


def vectors(memory: Memory) -> dict[str, Any]:
    said: dict[str, Any] = memory.status()["vectors"]
    return said


def counts(memory: Memory) -> tuple[str, int, int]:
    said = vectors(memory)
    return said["state"], said["filed"], said["missing"]


def test_index_fills_to_the_end_and_status_says_so(opening: Any, plugin: Any) -> None:
    """The report tells provider, model, dimensions and what was done; status tells the same, also when only reading."""
    with opening() as memory:
        say(memory, "granite")
        assert counts(memory) == ("none", 0, 2)
        assert vectors(memory)["run"] == "Run `memory-sqlite index`."
        heard: list[tuple[str, int, int | None]] = []
        report = memory.index(progress=lambda *said: heard.append(said)).vectors
        assert report == VectorReport("complete", "hash", "one", 4, embedded=2)
        assert ("vectors", 2, 2) in heard
        assert counts(memory) == ("complete", 2, 0)
        say(memory, "marble")
        assert counts(memory) == ("partial", 2, 2)
    with opening(read_only=True) as memory:
        said = vectors(memory)
        assert (said["provider"], said["model"], said["dimensions"]) == ("hash", "one", 4)
        assert (said["state"], said["filed"], said["missing"]) == ("partial", 2, 2)


def test_only_index_and_serving_make_a_provider(opening: Any, plugin: Any) -> None:
    """Remembering, reading and looking load no model, and nothing waits for one."""
    with opening() as memory:
        say(memory, "granite")
        memory.get("MEMORY.md")
        memory.status()
        assert plugin.opened == 0
        memory.index()
        assert plugin.opened == 1
    assert plugin.provider.closed.is_set()


def test_without_a_provider_there_is_nothing_to_tell(opening: Any) -> None:
    """The report has no vectors, and status says that they are off."""
    with opening(provider=None) as memory:
        say(memory, "granite")
        assert memory.index().vectors is None
        assert vectors(memory)["state"] == "off"


def test_the_command_says_off_in_one_word(tmp_path: Path) -> None:
    """Where no provider is set, ``status`` does not spread out what is not there; the document has every field."""
    place = str(tmp_path / "data")
    Memory.open(place).close()
    lines = CliRunner().invoke(root, ["status", "--data-dir", place]).stdout.splitlines()
    assert "vectors: off" in lines
    document = json.loads(CliRunner().invoke(root, ["status", "--data-dir", place, "--json"]).stdout)
    assert document["vectors"]["missing"] == 0


def test_text_is_searched_while_its_vectors_are_made(opening: Any, plugin: Any) -> None:
    """Other threads remember and search while ``index`` embeds: it does not hold the memory's lock."""
    began, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        assert go_on.wait(LONG)

    plugin.provider.before = hold
    with opening() as memory:
        say(memory, "granite")
        indexing = threading.Thread(target=memory.index)
        indexing.start()
        assert began.wait(LONG)
        say(memory, "marble", session="t")
        assert memory.search("marble").hits
        go_on.set()
        indexing.join(LONG)
        assert not indexing.is_alive()
        assert counts(memory) == ("complete", 4, 0)


def test_a_serving_memory_fills_what_comes(opening: Any, plugin: Any, passes: Any, workspace: Path) -> None:
    """At the start what is missing, then each turn and each note that a search took in."""
    with opening() as memory:
        say(memory, "granite")
    with opening(serving=True) as memory:
        passes(lambda report: report.state == "complete" and report.embedded == 2)
        say(memory, "marble")
        passes(lambda report: report.state == "complete" and report.embedded > 0)
        assert counts(memory) == ("complete", 4, 0)
        (workspace / "memory" / "slate.md").write_text("slate roof\n")
        assert memory.search("slate roof").hits
        passes(lambda report: report.state == "complete" and report.embedded == 1)
        assert counts(memory) == ("complete", 5, 0)
        assert vectors(memory)["service"]["state"] == "ready"


def test_a_watch_fills_what_it_takes_in(opening: Any, plugin: Any, passes: Any, workspace: Path) -> None:
    """Also of a memory that does not serve: a watch goes on, so vectors follow."""
    pytest.importorskip("watchfiles")
    with opening() as memory, memory.watch() as watch:
        assert watch.wait_ready(LONG)
        (workspace / "memory" / "slate.md").write_text("slate roof\n")
        passes(lambda report: report.state == "complete" and report.embedded == 1)
        assert counts(memory) == ("complete", 1, 0)


def test_closing_does_not_wait_for_a_provider_that_hangs(
    opening: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory closes, and what the provider answers afterwards is thrown away."""
    monkeypatch.setattr(limits, "EMBEDDING_CLOSE_S", 0.0)
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        assert go_on.wait(LONG)
        ended.set()

    plugin.provider.before = hang
    memory = opening(serving=True)
    filer = memory._opened.filer
    say(memory, "granite")
    assert began.wait(LONG)
    memory.close()
    go_on.set()
    assert ended.wait(LONG)
    filer._thread.join(LONG)
    assert not filer._thread.is_alive()
    with opening(read_only=True) as again:
        assert counts(again)[1:] == (0, 2)


def test_index_is_not_kept_waiting_by_what_fills_beside_it(opening: Any, plugin: Any, passes: Any) -> None:
    """The pass beside what is served ends between two batches; ``index`` does the rest itself."""
    plugin.use(type(plugin.provider.model)(bounds=type(plugin.provider.limits)(1_600, 1, 10_000)))
    with opening() as memory:
        for number in range(6):
            say(memory, f"granite {number}")
    began, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        assert go_on.wait(LONG)
        plugin.provider.before = None

    plugin.provider.before = hold
    with opening(serving=True) as memory:
        assert began.wait(LONG)
        reports: list[Any] = []
        indexing = threading.Thread(target=lambda: reports.append(memory.index().vectors))
        indexing.start()
        assert memory._opened.embedding._wanted.wait(LONG)
        go_on.set()
        indexing.join(LONG)
        assert reports[0].state == "complete"
        assert reports[0].embedded > 0
        beside = passes(lambda report: report.state == "partial")
        assert beside.embedded + reports[0].embedded == counts(memory)[1]


def test_a_provider_that_is_down_costs_vectors_alone(opening: Any, plugin: Any) -> None:
    """Text is indexed and found; the report and the status say what is wrong, and the next ``index`` goes on."""

    def down() -> None:
        raise errors.EmbeddingFailed("the embedding provider is down")

    with opening() as memory:
        say(memory, "granite")
        plugin.provider.before = down
        report = memory.index()
        assert report.status == "ok"
        assert report.vectors is not None
        assert (report.vectors.state, report.vectors.missing) == ("failed", 2)
        assert report.vectors.reason == "the embedding provider is down"
        assert memory.search("granite").hits
        assert vectors(memory)["service"]["error"] == "the embedding provider is down"
    plugin.use(plugin.provider.model)
    with opening() as memory:
        report = memory.index()
        assert report.vectors is not None and report.vectors.state == "complete"


def test_what_waits_is_counted_also_when_the_provider_cannot_be_had(opening: Any, plugin: Any) -> None:
    """It does not load, is not installed, or its package is gone: the report and the status count what has no vector
    all the same, before and after some have one."""

    def down(timeout_s: float) -> None:
        raise errors.EmbeddingFailed("the model's file is gone")

    plugin.provider.load = down
    for provider, why in (("hash", "the model's file is gone"), ("gone", "no provider that is installed")):
        with opening(provider=provider) as memory:
            say(memory, f"granite of {provider}")
            said = counts(memory)
            report = memory.index().vectors
            assert report is not None and report.characters
            assert (report.state, report.missing) == ("failed", said[2])
            assert why in str(report.reason)
            assert counts(memory) == said == ("none", 0, said[2]) and said[2] >= 2
    plugin.use(plugin.provider.model)
    with opening() as memory:
        memory.index()
    plugin.provider.load = down
    with opening() as memory:
        say(memory, "marble", session="t")
        state, filed, left = counts(memory)
        assert state == "partial" and filed and 0 < left < filed
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.missing) == ("failed", left)
        assert counts(memory) == (state, filed, left)


def test_what_cannot_be_counted_is_null_and_not_none(opening: Any, plugin: Any, tmp_path: Path) -> None:
    """Without an index that can be read, or without its table of vectors."""
    with opening() as memory:
        say(memory, "granite")
        memory.index()
        memory._opened.keeper.writer().execute("DROP TABLE vectors")
        assert counts(memory) == ("unavailable", None, None)
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.missing, report.characters) == ("failed", None, None)
        directory = memory._opened.store.directory
    (file,) = directory.glob("index-*.sqlite")
    file.unlink()
    with opening(read_only=True) as memory:
        said = vectors(memory)
        assert (said["state"], said["missing"], said["characters"]) == ("unavailable", None, None)
        assert "memory-sqlite index" in said["run"]
        assert memory.status()["index"]["state"] == "unavailable"


def test_a_refused_text_is_counted_and_its_words_are_found(opening: Any, plugin: Any, workspace: Path) -> None:
    """The rest is complete; nothing is tried again and again."""
    for name in ("granite", "marble", "refuse slate"):
        (workspace / "memory" / f"{name[:6]}.md").write_text(f"{name}\n")
    with opening() as memory:
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.embedded, report.refused, report.missing) == ("complete", 2, 1, 1)
        assert memory.search("slate").hits
        asked = len(plugin.provider.model.texts)
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.refused) == ("complete", 1)
        assert len(plugin.provider.model.texts) == asked


def test_a_full_disk_costs_vectors_alone(opening: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is rolled back whole, the report says why, and the next ``index`` goes on."""

    def full(*_: object) -> int:
        raise apsw.FullError("an injected fault")

    with opening() as memory:
        say(memory, "granite")
        with monkeypatch.context() as patched:
            patched.setattr(vector_rows, "put", full)
            report = memory.index()
        assert report.status == "ok" and report.vectors is not None
        assert report.vectors.state == "failed" and "disk is full" in str(report.vectors.reason)
        assert vectors(memory)["filed"] == 0
        report = memory.index()
        assert report.vectors is not None and report.vectors.state == "complete"


@pytest.mark.parametrize("broken", [[float("nan"), 0.0, 0.0, 0.0], [0.0] * 4, [1.0] * 3, []])
def test_case_C024_vectors_that_are_none_are_never_filed(opening: Any, plugin: Any, broken: list[float]) -> None:
    """Not finite, zero, of another size, empty: the words are found, the state is told, nothing is in the table."""
    plugin.provider.embed_documents = lambda texts, timeout_s: [broken for _ in texts]
    with opening() as memory:
        say(memory, "basalt")
        report = memory.index().vectors
        assert report is not None
        assert (report.state, report.missing) == ("failed", 2)
        assert memory.search("basalt").hits
        assert vectors(memory)["filed"] == 0
        assert all(finding.severity == "info" for finding in verify(memory._opened))


@pytest.mark.parametrize("provider", ["hash", None, "gone"])
def test_case_C026_a_changed_model_hides_no_words(opening: Any, plugin: Any, provider: str | None) -> None:
    """Indexed with one model, asked with another that has indexed nothing, with none, with an unknown one."""
    with opening() as memory:
        say(memory, "The helper is called Rowan.")
        memory.index()
    plugin.use(type(plugin.provider.model)("two", 6))
    with opening(provider=provider) as memory:
        assert memory.search("Rowan").hits
        if provider == "gone":
            report = memory.index().vectors
            assert report is not None and report.state == "failed"


def test_a_changed_model_fills_anew_and_the_old_vectors_stay_until_then(opening: Any, plugin: Any) -> None:
    """Status names the old space beside the one that is being filled; afterwards there is one."""
    with opening() as memory:
        say(memory, "granite")
        memory.index()
    seen: list[Any] = []
    new = plugin.use(type(plugin.provider.model)("two", 6))
    with opening() as memory:
        new.before = lambda: seen.append(vectors(memory))
        report = memory.index().vectors
        assert report is not None and report.state == "complete"
        assert (seen[0]["model"], seen[0]["state"]) == ("two", "filling")
        assert [(one["model"], one["state"], one["filed"]) for one in seen[0]["others"]] == [("one", "complete", 2)]
        assert vectors(memory)["others"] == []
        assert verify(memory._opened) == []


@pytest.mark.parametrize("damage", ["DELETE FROM vectors WHERE id % 2", "DELETE FROM vectors"])
def test_case_C028_lost_vectors_are_told_and_filled_again(
    opening: Any, plugin: Any, workspace: Path, damage: str
) -> None:
    """Somebody deleted half of them, or all: words are found, status counts, and ``index`` is the repair."""
    (workspace / "memory" / "a.md").write_text("basalt quay\n")
    (workspace / "memory" / "b.md").write_text("kettle parts\n")
    with opening() as memory:
        memory.index()
        memory._opened.keeper.writer().execute(damage)
        left = 1 if "%" in damage else 0
        assert memory.search("basalt").hits[0].path == "memory/a.md"
        assert counts(memory) == ("partial", left, 2 - left)
        assert [finding.code for finding in verify(memory._opened)] == ["vectors_missing"]
        memory.index()
        assert counts(memory) == ("complete", 2, 0)
        assert verify(memory._opened) == []


def test_case_C028_a_lost_table_is_told_and_built_again(opening: Any, plugin: Any, workspace: Path) -> None:
    """Without its tables: ``index`` says what to run, status and doctor see it, a full build has them again."""
    (workspace / "memory" / "a.md").write_text("basalt quay\n")
    with opening() as memory:
        memory.index()
        memory._opened.keeper.writer().execute("DROP TABLE vectors")
        report = memory.index().vectors
        assert report is not None and report.state == "failed"
        assert "--full" in str(report.reason)
        assert vectors(memory)["state"] == "unavailable"
        assert [finding.code for finding in verify(memory._opened)] == ["index_damaged"]
        report = memory.index(full=True).vectors
        assert report is not None
        assert (report.state, report.embedded + report.reused) == ("complete", 1)
        assert verify(memory._opened) == []


def test_doctor_finds_vectors_that_do_not_belong(opening: Any, plugin: Any, workspace: Path) -> None:
    """Of a chunk that is gone, of another text, of another size: each is counted."""
    for name in ("a", "b", "c"):
        (workspace / "memory" / f"{name}.md").write_text(f"{name} granite\n")
    with opening() as memory:
        memory.index()
        index = memory._opened.keeper.writer()
        index.execute("UPDATE vectors SET chunk_id = 999 WHERE id = (SELECT min(id) FROM vectors)")
        index.execute("UPDATE vectors SET input_hash = x'00' WHERE id = (SELECT min(id) + 1 FROM vectors)")
        index.execute("UPDATE vectors SET vector = x'00' WHERE id = (SELECT max(id) FROM vectors)")
        found = {finding.code: finding for finding in verify(memory._opened)}
        evidence = dict(found["vectors_inconsistent"].evidence)
        assert evidence.pop("file")
        assert evidence == {"vectors": 3, "without_chunk": 1, "of_another_text": 1, "unsound": 1}
        memory.index(full=True)
        assert verify(memory._opened) == []
