"""Progress of long work: bars on a terminal, silence in pipes and with ``--json``.

Called by index, import and quickstart.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from memory_sqlite.cli.output import Output, one_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bars:
    """A context manager whose instance is the door's progress callback: ``(stage, done, total or None)``."""

    def __init__(self, output: Output) -> None:
        self._interactive = output.interactive
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        if self._interactive:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.start()
        return self

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if self._progress is None:
            return
        task = self._tasks.get(stage)
        if task is None:
            from rich.markup import escape

            task = self._tasks[stage] = self._progress.add_task(escape(one_line(stage, 40)), total=total)
        self._progress.update(task, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
