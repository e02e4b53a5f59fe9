"""Asking: a query goes to a process of its own and comes back as columns and rows, or as one typed error.

Why a process: what one query may hold is bounded by SQLite for a whole process, and a step that hangs inside SQLite (a
pattern against a long text) is ended by nothing but a kill. It costs 0.2 s for the first query; the process is kept for
the next. Thread-safe. Called by the door and the command line; the other end is ``serving``.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.command import worker_command
from memory_sqlite.processes.frames import FrameReader, FrameTooLarge, WireError
from memory_sqlite.query import wire
from memory_sqlite.query.running import Row, Summary
from memory_sqlite.values import dataclass

OnColumns = Callable[[tuple[str, ...]], None]
OnRows = Callable[[list[Row]], None]
Progress = Callable[[str, int, int | None], None]
_MODULE: Final = "memory_sqlite.workers.query"
_NOWHERE: Final = os.sep


@dataclass(frozen=True, slots=True)
class Listening:
    """What hears of an answer while it comes."""

    on_columns: OnColumns
    on_rows: OnRows
    abort: threading.Event | None = None
    progress: Progress | None = None


class Asker:
    """Queries over one store (or over files alone), each in a process; idle ones are kept. End it with ``close``."""

    def __init__(self, store: Path | None, key: FileKey | None) -> None:
        self.store = store
        self._key = key
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._count = 0
        self._closed = False

    def ask(self, asked: wire.Request, listening: Listening) -> Summary:
        """Ask, and wait for the end. What the listeners raise ends the query and is raised here.

        Raises what ``running.run`` raises, ``Overloaded``, ``MemoryClosed``, ``WorkerLost``.
        """
        with self._lock:
            if self._closed:
                raise errors.MemoryClosed("the memory was closed")
            if self._count >= limits.QUERY_PROCESSES_MAX:
                raise errors.Overloaded(f"{self._count} queries are running already")
            self._count += 1
            process = self._idle.pop() if self._idle else None
            was_idle = process is not None
        try:
            if process is not None and not process.is_alive():
                process.end()
                process = None
            process = process or _Process(self._key)
            with self._lock:
                self._busy.add(process)
                if self._closed:
                    raise errors.MemoryClosed("the memory was closed")
            try:
                return process.ask(asked, listening)
            except errors.WorkerLost:
                if not process.is_silent or not was_idle or self._closed:
                    raise
            process = self._again(process)  # it was about to end for want of requests
            return process.ask(asked, listening)
        except errors.WorkerLost as error:
            if self._closed:
                raise errors.MemoryClosed("the memory was closed while the query ran") from error
            raise
        finally:
            with self._lock:
                self._count -= 1
                kept = process is not None and process.is_free and not self._closed
                if process is not None:
                    self._busy.discard(process)
                    if kept:
                        self._idle.append(process)
            if process is not None and not kept:
                process.end()

    def _again(self, gone: _Process) -> _Process:
        gone.end()
        process = _Process(self._key)
        with self._lock:
            self._busy.discard(gone)
            self._busy.add(process)
        return process

    def close(self) -> None:
        """End the processes; a query that runs fails with ``MemoryClosed``."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for process in idle:
            process.end()
        for process in busy:
            process.kill()  # its caller ends it


class _Process:
    """One query process, used by one thread at a time."""

    def __init__(self, key: FileKey | None) -> None:
        command = worker_command(_MODULE)
        if command is None:
            raise errors.WorkerLost("queries need a process of their own, which this Python cannot start")
        self.is_free = True
        self.is_silent = True
        try:
            self._process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a traceback may hold the text of a memory
                env=dict(command.environment),
                cwd=_NOWHERE,
                bufsize=0,
                close_fds=True,
                process_group=0,  # Ctrl-C in a terminal is the parent's to understand
            )
        except OSError as error:
            raise errors.WorkerLost(f"the query process could not be started ({error.strerror})") from error
        assert self._process.stdin is not None and self._process.stdout is not None, "both are pipes"
        self._input, self._output = self._process.stdin, self._process.stdout
        self._reader = FrameReader(self._output.fileno())
        self._greeted = False
        self._write(frames.pack(envelopes.setup(wire.WORKER, key)))

    def is_alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def ask(self, asked: wire.Request, listening: Listening) -> Summary:
        """One query. Afterwards ``is_free``: it can be asked again, ``is_silent``: nothing was heard of it."""
        self.is_free, self.is_silent = False, True
        try:
            data = frames.pack(*wire.request(asked))
        except FrameTooLarge as error:
            self.is_free = True
            raise errors.QueryInvalid("the SQL and its parameters are too large") from error
        except (TypeError, ValueError) as error:
            self.is_free = True
            raise errors.QueryInvalid("a parameter is of a kind SQLite does not know") from error
        self._write(data)
        return self._listen(asked, listening)

    @contextmanager
    def _hearing(self, listening: Listening) -> Iterator[None]:
        """The pipe's errors as ours. What a listener raises is never within: it may be an ``OSError`` too."""
        try:
            yield
        except (EOFError, OSError, WireError) as error:
            if listening.abort is not None and listening.abort.is_set():
                raise errors.Cancelled("the query was cancelled") from error
            raise errors.WorkerLost("the query process ended in the middle of a query") from error

    def _listen(self, asked: wire.Request, listening: Listening) -> Summary:
        waited, cancelled_at, asked_at = 0.0, None, time.monotonic()
        kept: list[bytes] = []
        while True:
            began = time.monotonic()
            with self._hearing(listening):
                frame = self._reader.read(limits.ABORT_POLL_S if listening.abort is not None else 1.0)
            now = time.monotonic()
            if self._greeted:  # what it takes to start does not count
                waited += now - began
            if cancelled_at is None and listening.abort is not None and listening.abort.is_set():
                cancelled_at = now
                self._write(frames.pack({"say": "cancel"}))
            if cancelled_at is not None and now > cancelled_at + limits.WORKER_KILL_GRACE_S:
                raise errors.Cancelled("the query was cancelled")
            if frame is None:
                if not self._greeted and now > asked_at + limits.WORKER_START_S:
                    raise errors.WorkerLost("the query process did not start in time")
                if waited > asked.timeout_s + limits.QUERY_KILL_GRACE_S:
                    raise errors.QueryLimit("time", "the query took longer than it may, and its process was ended")
                continue
            if not self._greeted:
                with self._hearing(listening):
                    envelopes.check_greeting(frame, "hello", wire.WORKER)
                self._greeted = True
                continue
            self.is_silent = False
            header = frame.header
            say = header.get("say")
            if say == "rows":
                kept.append(frame.blob)
                if header.get("last") is True:
                    with self._hearing(listening):
                        rows = wire.rows_of(b"".join(kept))
                    kept.clear()
                    listening.on_rows(rows)
            elif say == "columns":
                listening.on_columns(tuple(header["columns"]))
            elif say == "progress":
                if listening.progress is not None:
                    listening.progress("read", int(header["done"]), None)
            else:
                with self._hearing(listening):
                    return self._last(header)

    def _last(self, header: dict[str, Any]) -> Summary:
        self.is_free = True
        say = header.get("say")
        if say == "end":
            return wire.summary_of(header)
        if say == "error":
            raise wire.error_of(header)
        if say == "defect":
            raise errors.WorkerLost(f"the query failed within its process ({header.get('exception')})")
        self.is_free = False
        raise WireError("a frame is none of an answer")

    def _write(self, data: bytes) -> None:
        try:
            frames.write(self._input.fileno(), data)
        except (OSError, ValueError):
            pass  # it is dead; reading from it tells

    def kill(self) -> None:
        """End it without asking; whoever waits for it hears of it."""
        self._process.kill()

    def end(self) -> None:
        """End it and wait for it."""
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._output.close()
