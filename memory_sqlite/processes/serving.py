"""The life of a worker: greet, answer one request at a time, stop when told, end with the parent.

The main thread works. A second thread reads the pipe all the time, so that a large frame never waits for a busy worker,
a cancel arrives while a statement runs, and the end of the pipe (the parent is gone, however it went) ends the process
at once, whatever the main thread is doing. Called by the entry points in ``workers/``; the other end is ``child``.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import apsw

from memory_sqlite import errors
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.limits import WORKER_IDLE_S, WORKER_INTERRUPT_EVERY_S, WORKER_PARENT_CHECK_S
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.envelopes import Cancel, Reply, Request
from memory_sqlite.processes.frames import FrameReader, FrameTooLarge, WireError
from memory_sqlite.processes.gone import Gone

EXIT_PARENT_GONE: Final = 0
EXIT_PROTOCOL: Final = 76
"""sysexits' EX_PROTOCOL: the parent said something that was not agreed."""
_IDLE_LOOK_S: Final = WORKER_IDLE_S / 10


class Call:
    """One request while it is worked on: asked by the main thread, cancelled by the reading one."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.deadline = None if request.deadline_s is None else time.monotonic() + request.deadline_s
        self._cancelled = False
        self._connection: apsw.Connection | None = None

    def cancelled(self) -> bool:
        """Whether to stop: loops in Python look here."""
        return self._cancelled

    @contextmanager
    def interruptible(self, connection: apsw.Connection) -> Iterator[apsw.Connection]:
        """Statements of this connection are interrupted when the request is cancelled."""
        self._connection = connection
        try:
            yield connection
        finally:
            self._connection = None

    def cancel(self) -> None:
        """Stop, as soon as may be; said again until it has ended."""
        self._cancelled = True
        connection = self._connection
        if connection is not None:
            try:
                connection.interrupt()
            except apsw.ConnectionClosedError:
                pass  # it was closed meanwhile, so nothing runs on it


Answer = tuple[dict[str, Any], bytes]
Handler = Callable[[Call], Answer]
"""What answers one kind of request: the JSON body and the bytes of the reply."""


class Worker:
    """One worker process: its kinds, its pipe, the request it works on."""

    def __init__(
        self,
        name: str,
        handlers: Mapping[str, Handler],
        on_idle: Callable[[], None],
        ahead: Callable[[], bool],
        on_key: Callable[[FileKey | None], None],
    ) -> None:
        self._name = name
        self._handlers = handlers
        self._on_idle = on_idle
        self._ahead = ahead
        self._on_key = on_key
        self._requests: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._current: Call | None = None
        self._parent = os.getppid()
        self._reader = FrameReader(0)
        self._output = _own_output()

    def run(self) -> NoReturn:
        """Greet and answer until the parent is gone."""
        # Ctrl-C in a terminal is the parent's to understand
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            greeting = self._reader.read()
            assert greeting is not None, "without a timeout there is a frame"
            self._on_key(envelopes.key_of_setup(greeting))
            envelopes.check_greeting(greeting, "setup", self._name)
        except EOFError:
            os._exit(EXIT_PARENT_GONE)
        except WireError:
            os._exit(EXIT_PROTOCOL)
        threading.Thread(target=self._listen, name="parent", daemon=True).start()
        self._write(frames.pack(envelopes.hello(self._name)))
        more = False
        while True:
            try:
                call = self._requests.get_nowait() if more else self._requests.get(timeout=_IDLE_LOOK_S)
            except queue.Empty:
                if more:
                    more = self._ahead()
                else:
                    self._on_idle()
                continue
            more = True  # perhaps: one look tells
            reply = self._answer(call)
            try:
                data = frames.pack(envelopes.reply(reply), reply.blob)
            except FrameTooLarge:
                data = frames.pack(envelopes.reply(Reply(reply.id, reply.kind, "large", {})))
            except (ValueError, TypeError) as error:  # not JSON
                data = frames.pack(envelopes.reply(_defect(call, error)))
            # first nothing to cancel any more, then the answer: the next request may come before this line is left
            self._current = None
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            frames.write(self._output, data)
        except OSError:
            os._exit(EXIT_PARENT_GONE)

    def _answer(self, call: Call) -> Reply:
        request = call.request
        handler = self._handlers.get(request.kind)
        try:
            if handler is None:
                raise WireError("the kind is not known to this worker")
            if call.cancelled():
                raise errors.Cancelled("the request was cancelled")
            body, blob = handler(call)
            return Reply(request.id, request.kind, "ok", body, blob)
        except Gone:
            return Reply(request.id, request.kind, "gone", {})
        except Exception as error:
            # an interrupted virtual table may say anything at all
            said = errors.Cancelled("the request was cancelled") if call.cancelled() else error
            if isinstance(said, errors.MemorySqliteError):
                return Reply(request.id, request.kind, "error", {"code": said.code, "message": said.message})
            return _defect(call, error)

    # --- the reading thread ----------------------------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            while True:
                call = self._current
                frame = self._reader.read(self._patience(call))
                if frame is None:
                    self._look(call)
                    continue
                said = envelopes.from_parent(frame)
                if isinstance(said, Request):
                    if self._current is not None:
                        raise WireError("a request while another one is worked on")
                    self._current = Call(said)
                    self._requests.put(self._current)
                elif isinstance(said, Cancel):
                    call = self._current
                    # one that arrives after its request was answered is late, and no fault
                    if call is not None and call.request.id == said.id:
                        call.cancel()
        except EOFError:
            os._exit(EXIT_PARENT_GONE)
        except WireError:
            os._exit(EXIT_PROTOCOL)

    def _patience(self, call: Call | None) -> float:
        """Seconds until there is something else to do than to read."""
        if call is None or call is not self._current:
            return WORKER_PARENT_CHECK_S
        if call.cancelled():
            return WORKER_INTERRUPT_EVERY_S
        if call.deadline is None:
            return WORKER_PARENT_CHECK_S
        return max(0.0, min(WORKER_PARENT_CHECK_S, call.deadline - time.monotonic()))

    def _look(self, call: Call | None) -> None:
        if os.getppid() != self._parent:
            os._exit(EXIT_PARENT_GONE)
        if call is None or call is not self._current:
            return
        if call.cancelled() or (call.deadline is not None and time.monotonic() >= call.deadline):
            call.cancel()


def _defect(call: Call, error: Exception) -> Reply:
    # a message could hold the text of a memory: the name of the exception has to do
    return Reply(call.request.id, call.request.kind, "defect", {"exception": type(error).__name__})


def _own_output() -> int:
    """The pipe to the parent under another number; what anybody prints goes where errors go, not among the frames."""
    output = os.dup(1)
    os.dup2(2, 1)
    return output


def serve(
    name: str,
    handlers: Mapping[str, Handler],
    on_idle: Callable[[], None] = lambda: None,
    ahead: Callable[[], bool] = lambda: False,
    on_key: Callable[[FileKey | None], None] = lambda key: None,
) -> NoReturn:
    """Be a worker until the parent is gone. ``on_idle`` is called now and then while nothing is asked.

    ``ahead`` is called after an answer, when nobody asks, and again while it says that there is more: each time it does
    a little of what later requests would have to wait for. It raises nothing. ``on_key`` gets the key of files, once,
    before anything is asked.
    """
    Worker(name, handlers, on_idle, ahead, on_key).run()
