"""One worker process as its parent sees it: started, written to, read from, ended, waited for.

Lives here: the process and its pipes. Not here: what it is asked and when (``pool``). A thread of its own reads its
frames, so that a large answer never waits; large requests are written by a thread too.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from typing import Final

from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.limits import DIRECT_WRITE_MAX_BYTES, WORKER_KILL_GRACE_S
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.command import Command
from memory_sqlite.processes.envelopes import Reply
from memory_sqlite.processes.frames import FrameReader, WireError

_NOWHERE: Final = os.sep
"""The working directory of a worker: one that never has to be unmounted or removed."""


class Child:
    """A running worker. Start it, then ``listen``."""

    def __init__(self, command: Command, worker: str, key: FileKey | None = None) -> None:
        """Raises ``OSError`` when the system starts no process."""
        self._worker = worker
        self._writing = threading.Lock()
        self._closed = False
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
        assert self._process.stdin is not None and self._process.stdout is not None, "both are pipes"
        self._input = self._process.stdin
        self._output = self._process.stdout
        self.send(frames.pack(envelopes.setup(worker, key)))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def listen(
        self, on_hello: Callable[[], None], on_reply: Callable[[Reply], None], on_end: Callable[[int], None]
    ) -> None:
        """Begin to read. ``on_end`` comes last, with the exit status, when the process is gone and was waited for.

        ``on_reply`` may raise ``WireError``: a worker that answers wrongly is killed.
        """

        def read() -> None:
            reader = FrameReader(self._output.fileno())
            try:
                greeting = reader.read()
                assert greeting is not None, "without a timeout there is a frame"
                envelopes.check_greeting(greeting, "hello", self._worker)
                on_hello()
                while (frame := reader.read()) is not None:
                    self._check_was_asked()
                    on_reply(envelopes.from_worker(frame))
            except (EOFError, OSError, WireError):
                pass  # whichever it was, there is no talking to it any more
            finally:
                self.kill()
                status = self._process.wait()
                with self._writing:
                    self._closed = True
                    self._input.close()
                self._output.close()
                on_end(status)

        threading.Thread(target=read, name=f"memory-sqlite {self._worker} {self.pid}", daemon=True).start()

    def _check_was_asked(self) -> None:
        """Raises ``WireError`` for an answer to what was not read whole: whoever asked next would wait for ever. The
        last bytes may be read a moment before their writer knows."""
        if not self._writing.acquire(timeout=WORKER_KILL_GRACE_S):
            raise WireError("a reply to a request that was not read")
        self._writing.release()

    def send(self, data: bytes) -> None:
        """Write a frame to an idle worker without waiting. That it cannot be written is noticed by the reader."""
        if len(data) + self._unread() <= DIRECT_WRITE_MAX_BYTES:
            with self._writing:
                self._write(data)
            return
        self._writing.acquire()

        def write() -> None:
            try:
                self._write(data)
            finally:
                self._writing.release()

        threading.Thread(target=write, name=f"memory-sqlite write {self.pid}", daemon=True).start()

    def send_cancel(self, number: int) -> None:
        """Tell a working one to stop; not while it has not read its request, then it will be killed."""
        if self._writing.acquire(blocking=False):
            try:
                if self._takes_more():
                    self._write(frames.pack(envelopes.cancel(number)))
            finally:
                self._writing.release()

    def _unread(self) -> int:
        """Bytes that were written and not read yet; one that cannot tell has none."""
        try:
            return int.from_bytes(fcntl.ioctl(self._input.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)
        except (OSError, ValueError):
            return 0  # closed, or a system that does not say

    def _takes_more(self) -> bool:
        """Whether a few bytes more can be written without waiting."""
        if self._closed:
            return False
        poll = select.poll()
        poll.register(self._input.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    def _write(self, data: bytes) -> None:
        if self._closed:
            return
        try:
            frames.write(self._input.fileno(), data)
        except OSError:
            pass  # it is dead; the reading thread tells

    def end(self) -> None:
        """Close its input: it ends at once, whatever it is doing."""
        if self._writing.acquire(blocking=False):
            try:
                self._closed = True
                self._input.close()
            finally:
                self._writing.release()
        else:
            self.kill()

    def kill(self) -> None:
        """End it without asking."""
        self._process.kill()
