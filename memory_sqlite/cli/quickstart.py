"""``memory-sqlite quickstart``: a sample memory, searched in three languages.

It uses an agent and a workspace of its own, so that nothing of the user's is mixed with it or changed. Running it again
finds everything already known; notes that were edited in the meantime are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Final

import click

from memory_sqlite.cli import hits, reports
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line, plain
from memory_sqlite.cli.progress import Bars
from memory_sqlite.model import IndexReport, to_json

NAME: Final = "memory-sqlite"
AGENT: Final = "quickstart"
SESSION: Final = "quickstart-sample"
WORKSPACE: Final = "quickstart-notes"
QUERIES: Final = ("ERR_CARRIER_LOST amplifier", "奶奶喜欢喝什么茶", "灯台祭りはいつですか")
QUESTION: Final = "How do I like my tea in the morning?"

_EXAMPLES = """
memory-sqlite quickstart
memory-sqlite quickstart --data-dir ./try-memory
"""


@click.command(cls=Command, examples=_EXAMPLES)
@stated
def command(state: State) -> None:
    """Make a sample memory and search it in English, Chinese and Japanese.

    Notes and a conversation of an invented radio station are stored under the agent "quickstart", apart from your own.
    It can be run again at any time.
    """
    for name in ("agent", "workspace"):
        if name in state.given:
            raise click.UsageError(f"quickstart has its own {name}; leave out --{name}.")
    from memory_sqlite.memory import Memory

    output = state.output
    settings = replace(state.settings, agent=AGENT, workspace=None, extra_paths=())
    if not settings.enabled:
        output.document({"ok": True, **to_json(IndexReport("disabled", None))})
        output.note("Memory is disabled (enabled = false); nothing was made.")
        return
    # opened once without notes: a directory that may not be used is refused before anything is written into it
    with Memory.open(settings=settings):
        pass
    workspace = settings.data_dir / WORKSPACE
    samples = resources.files("memory_sqlite") / "samples"
    _copy_notes(samples / "notes", workspace)
    with Memory.open(settings=replace(settings, workspace=workspace)) as memory, Bars(output) as progress:
        with resources.as_file(samples / "transcript.jsonl") as transcript:
            imported = memory.import_transcripts(
                [transcript],
                session=SESSION,
                chat_type="direct",
                kind="interactive",
                sender_is_owner=True,
                progress=progress,
            )
        indexed = memory.index(progress=progress)
        pages = [memory.search(query, max_results=3) for query in QUERIES]
        block = memory.recall(QUESTION)
        status = memory.status()
    files = sorted(str(path) for path in _files(settings.data_dir))
    output.document(
        {
            "ok": True,
            "agent": AGENT,
            "data_dir": str(settings.data_dir),
            "workspace": str(workspace),
            "files": files,
            "imported": to_json(imported),
            "indexed": to_json(indexed),
            "searches": [to_json(page) for page in pages],
            "recall": to_json(block),
            "status": to_json(status),
        }
    )
    if output.json:
        return
    reports.imported(output, imported)
    output.line(f"Indexed {hits.counted(indexed.added + indexed.changed + indexed.unchanged, 'document')}.")
    for page in pages:
        output.line()
        output.line(f"> search {page.query}")
        hits.show(output, page.hits)
    output.line()
    output.line(f"> recall {QUESTION}")
    output.line(plain(block.text) if block.text else "(nothing)")
    output.line()
    output.line("The files:")
    for path in files:
        output.line(f"  {one_line(path, 400)}")
    _say_next(state, workspace)


def _say_next(state: State, workspace: Path) -> None:
    given = f" --data-dir {quote(one_line(str(state.settings.data_dir), 400))}" if "data_dir" in state.given else ""
    program = _program()
    command_line = f"{program} --agent {AGENT}{given}"
    state.output.line()
    state.output.line("Go on:")
    state.output.line(f"  {command_line} search lighthouse key")
    state.output.line(f"  {command_line} get memory/people.md")
    state.output.line(f"  {command_line} index      # after editing a note in {one_line(str(workspace), 400)}")
    state.output.line(f"  {program} --help")


def _program() -> str:
    """This program as the person can call it again: by its name where the shell finds it, else as it was called."""
    called = sys.argv[0]
    if Path(called).name != NAME or which(NAME) is not None:
        return NAME
    return quote(one_line(called, 400))


def _copy_notes(source: Traversable, target: Path) -> None:
    """Copy the sample's notes; a note that is already there belongs to the user."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in source.iterdir():
        place = target / entry.name
        if entry.is_dir():
            _copy_notes(entry, place)
            continue
        try:
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as stream:
            stream.write(entry.read_bytes())


def _files(data_dir: Path) -> Iterator[Path]:
    """What lies on disk for this agent: key, store, index and notes."""
    from memory_sqlite import paths

    yield data_dir / paths.SESSION_KEY_FILE
    for base in (paths.agent_directory(data_dir, AGENT), data_dir / WORKSPACE):
        yield from (path for path in base.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm")))
