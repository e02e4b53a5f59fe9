"""``memory-sqlite watch``: follow the notes until Ctrl-C."""

from __future__ import annotations

import queue
from datetime import datetime

import click

from memory_sqlite.cli import reports
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import Output
from memory_sqlite.model import IndexReport, to_json

_EXAMPLES = """
memory-sqlite --workspace ~/notes watch
memory-sqlite watch --json
"""
_LOOK_S = 0.5


@click.command(cls=Command, examples=_EXAMPLES)
@stated
def command(state: State) -> None:
    """Take changed notes into the search index as soon as they are written, one line a batch, until Ctrl-C.

    Searches see changes without this, too: they look before they answer. Watching saves them the work. With --json
    each event is one JSON document on a line of its own. Needs the extra: pip install "memory-sqlite[watch]".
    """
    output = state.output
    if not state.settings.enabled:
        output.event({"event": "disabled"})
        output.note("Memory is disabled (enabled = false).")
        return
    events: queue.SimpleQueue[IndexReport | str] = queue.SimpleQueue()
    with state.open() as memory, memory.watch(on_batch=events.put, on_warning=events.put) as watch:
        try:
            begun = False
            while watch.running:
                if not begun and watch.wait_ready(0):
                    begun = True
                    output.event({"event": "watching", "native": watch.native, "folders": watch.folders})
                    output.note(f"Watching {counted(watch.folders, 'folder')}; end with Ctrl-C.")
                try:
                    _show(output, events.get(timeout=_LOOK_S if begun else 0.05))
                except queue.Empty:
                    continue
        except KeyboardInterrupt:
            pass  # the way this command ends
    while not events.empty():
        _show(output, events.get())


def _show(output: Output, event: IndexReport | str) -> None:
    if isinstance(event, str):
        output.event({"event": "warning", "message": event})
        output.note(f"Warning: {event}")
        return
    output.event({"event": "batch", **to_json(event)})
    done = f"{event.added} added, {event.changed} changed, {event.removed} removed"
    output.line(f"{datetime.now():%H:%M:%S} notes: {done}; {counted(event.chunks, 'passage')} written.")
    output.flush()
    reports.problems(output, event.problems)
