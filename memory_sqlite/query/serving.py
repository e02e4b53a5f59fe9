"""A query process's side: one request after the other, rows as they come, until the parent is gone.

The main thread runs the query. A second one reads the pipe all the time, so that a cancel arrives while a statement
runs, and the end of the pipe ends the process at once. The memory of the whole process is bounded, which is why a query
has one. Called by ``workers/query.py``; the other end is ``asking``.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any, Final, NoReturn

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.frames import FrameReader, WireError
from memory_sqlite.query import wire
from memory_sqlite.query.reading import Reading
from memory_sqlite.query.running import Row, run

_EXIT_PARENT_GONE: Final = 0
_EXIT_PROTOCOL: Final = 76
"""sysexits' EX_PROTOCOL, as the other workers end."""
_STARTED_WITH: Final[dict[str, int]] = {}
"""Address space of this process when its first query came."""


class _Serving:
    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[wire.Request, Reading]] = queue.SimpleQueue()
        self._current: Reading | None = None
        self._reader = FrameReader(0)
        self._output = os.dup(1)
        os.dup2(2, 1)  # what anybody prints goes where errors go, not among the frames

    def run(self) -> NoReturn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the parent's to understand
        try:
            greeting = self._reader.read()
            assert greeting is not None, "without a timeout there is a frame"
            key = envelopes.key_of_setup(greeting)
            envelopes.check_greeting(greeting, "setup", wire.WORKER)
        except EOFError:
            os._exit(_EXIT_PARENT_GONE)
        except WireError:
            os._exit(_EXIT_PROTOCOL)
        threading.Thread(target=self._listen, name="parent", daemon=True).start()
        self._say(envelopes.hello(wire.WORKER))
        while True:
            try:
                asked, reading = self._requests.get(timeout=limits.QUERY_IDLE_S)
            except queue.Empty:
                os._exit(_EXIT_PARENT_GONE)
            self._answer(asked, reading, key)

    def _answer(self, asked: wire.Request, reading: Reading, key: FileKey | None) -> None:
        def on_rows(batch: list[Row], _size: int) -> None:
            began = time.monotonic()
            for header, blob in wire.rows(batch):
                self._say(header, blob)
            reading.waited(time.monotonic() - began)

        try:
            _bound_memory(asked.memory_bytes)
            os.chdir(asked.directory)
            summary = run(
                asked.asked,
                wire.store_of(asked),
                key,
                reading,
                lambda names: self._say({"say": "columns", "columns": names}),
                on_rows,
            )
            last = wire.end(summary)
        except errors.MemorySqliteError as error:
            last = wire.failure(error)
        except MemoryError:
            last = wire.failure(errors.QueryLimit("memory", "the query needed more memory than it may have"))
        except Exception as error:
            last = {"say": "defect", "exception": type(error).__name__}  # a message could hold the text of a memory
        self._current = None  # nothing to cancel any more; the next request may come before the next line is left
        self._say(last)

    def _tell(self, done: int) -> None:
        self._say({"say": "progress", "done": done})

    def _say(self, header: dict[str, Any], blob: bytes = b"") -> None:
        try:
            frames.write(self._output, frames.pack(header, blob))
        except OSError:
            os._exit(_EXIT_PARENT_GONE)

    def _listen(self) -> None:
        try:
            while True:
                frame = self._reader.read()
                assert frame is not None, "without a timeout there is a frame"
                if frame.header.get("say") != "cancel":
                    asked = wire.request_of(frame)
                    # made here and not by the main thread: a cancel that follows at once finds it
                    self._current = Reading(asked.timeout_s, self._tell, redact=asked.asked.redact)
                    self._requests.put((asked, self._current))
                elif (reading := self._current) is not None:
                    reading.cancel()  # one that comes after its query has ended is late, and no fault
        except EOFError:
            os._exit(_EXIT_PARENT_GONE)
        except WireError:
            os._exit(_EXIT_PROTOCOL)


def _bound_memory(size: int) -> None:
    """What SQLite holds, exactly; what the process takes in all, as a second fence for what Python holds."""
    apsw.hard_heap_limit(size)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return  # not Linux: SQLite's own bound has to do
    most = _STARTED_WITH.setdefault("bytes", pages * resource.getpagesize()) + size + limits.QUERY_PYTHON_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def serve() -> NoReturn:
    """Be a query process until the parent is gone or nothing was asked for a minute."""
    _Serving().run()
