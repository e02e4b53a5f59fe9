"""What becomes of a failure: its exit code and what is said, as a line for people or as one JSON document.

The table in ``docs/operations.md`` lists the catalogue of ``memory_sqlite.errors`` and the codes below; a test compares
them. No text of a memory or of a query is ever part of a message (rule 10 of the design). Called by the root group.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

import click

from memory_sqlite import errors
from memory_sqlite.cli.output import Output, OutputFailed

OWN_CODES: Final = {
    "usage": (2, "The command line is wrong: an unknown option, a missing argument."),
    "internal": (70, "A defect of memory-sqlite; set MEMORY_SQLITE_DEBUG=1 to see where."),
    "output_failed": (74, "Standard output could not be written: the disk it goes to is full, for example."),
    "interrupted": (130, "Ctrl-C (SIGINT); what was acknowledged is kept, the rest was rolled back."),
    "broken_pipe": (141, "The reader of the output went away, as `head` does; nothing is printed."),
    "terminated": (143, "SIGTERM; what was acknowledged is kept, the rest was rolled back."),
}
"""Codes of the command line itself: exit code and meaning. 70 is sysexits' EX_SOFTWARE; above 128 is 128 + signal."""


class Terminated(BaseException):
    """SIGTERM arrived. Not an ``Exception``, so that nobody mistakes it for a failed operation."""


def end_on_sigterm() -> None:
    """Turn SIGTERM into an exception, so that files are closed and transactions rolled back on the way out."""

    def handler(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends at once
        raise Terminated

    signal.signal(signal.SIGTERM, handler)


def run(command: Callable[[], object], output: Output) -> int:
    """Run a command and return its exit code; every failure has been shown."""
    try:
        code = _guarded(command, output)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        return OWN_CODES["broken_pipe"][0]
    except (OutputFailed, OSError):
        _discard_stdout()
        output.complain("memory-sqlite: standard output could not be written")
        return OWN_CODES["output_failed"][0]
    return code


def _guarded(command: Callable[[], object], output: Output) -> int:
    try:
        result = command()
        return result if isinstance(result, int) else 0
    except (BrokenPipeError, OutputFailed):
        raise
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "memory-sqlite"
        return _own(output, "usage", error.format_message(), f"Run `{path} --help`.")
    except click.ClickException as error:
        return _own(output, "usage", error.format_message())
    except errors.MemorySqliteError as error:
        show(output, error.code, error.message, error.hint, error.retryable)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _own(output, "interrupted", "interrupted", retryable=True)
    except Terminated:
        return _own(output, "terminated", "terminated", retryable=True)
    except Exception as error:
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "apsw":
            lost = errors.SqliteUnsuitable("apsw is not there, or only a part of it")
            show(output, lost.code, lost.message, lost.hint, lost.retryable)
            return lost.exit_code
        if os.environ.get("MEMORY_SQLITE_DEBUG"):
            import traceback

            traceback.print_exc()
        return _own(
            output, "internal", f"unexpected {type(error).__name__} at {_place(error)}", OWN_CODES["internal"][1]
        )


def _own(output: Output, code: str, message: str, hint: str = "", *, retryable: bool = False) -> int:
    show(output, code, message, hint, retryable)
    return OWN_CODES[code][0]


def show(output: Output, code: str, message: str, hint: str, retryable: bool) -> None:
    """Say what failed: the JSON document when there is none yet, else lines on the error stream."""
    if output.json and not output.written:
        error = {"code": code, "message": message, "hint": hint, "retryable": retryable}
        output.document({"ok": False, "error": error})
        return
    output.complain(f"memory-sqlite: {message}")
    if hint:
        output.complain(f"  {hint}")


def _place(error: BaseException) -> str:
    """Module and line where an unexpected exception came from; never its message, which may quote stored text."""
    trace, place = error.__traceback__, "unknown place"
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", "?"))
        if module.startswith("memory_sqlite"):
            place = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _discard_stdout() -> None:
    """Point stdout at nowhere, or the interpreter complains about the pipe once more when it exits."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # not a real file descriptor (a test's stream): nothing will complain
