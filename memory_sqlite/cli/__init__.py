"""The command line: thin; every command reads its options, calls the door once and shows the result.

``app`` holds the group that loads commands on demand, ``options`` what all commands share, ``output`` what is printed,
``failures`` what becomes of an error; every other module is one command. Nothing below this package imports it.
"""

from __future__ import annotations


def main() -> None:
    """Entry point of ``memory-sqlite`` and of ``python -m memory_sqlite``; ends the process."""
    import gc

    # a command is over before there is much garbage: fewer collections save 8 of 165 ms of a cold search
    gc.set_threshold(50_000)
    try:
        from memory_sqlite.cli.failures import end_on_sigterm

        end_on_sigterm()
        from memory_sqlite.cli.app import root
    except KeyboardInterrupt:  # while still loading: the handlers of ``failures`` are not in charge yet
        raise SystemExit(130) from None
    root.main(prog_name="memory-sqlite")
