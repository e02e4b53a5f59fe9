"""What all commands share: the global options, the texts people type, and the state of one run.

Global options are accepted before and after the command's name; the later one wins. Called by every command module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from memory_sqlite import errors, limits
from memory_sqlite.cli.output import Output

if TYPE_CHECKING:
    from memory_sqlite.config import Origin, Settings
    from memory_sqlite.memory import Memory, Progress


_Command = TypeVar("_Command", bound=click.Command)


class State:
    """One run: the global options as given, the output, and the settings once they are needed."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.given: dict[str, Any] = {}
        self._loaded: tuple[Settings, dict[str, Origin]] | None = None

    def load(self) -> tuple[Settings, dict[str, Origin]]:
        """Settings and origins, read once. Raises ``InvalidConfiguration`` and ``EncryptionUnavailable``."""
        if self._loaded is None:
            from memory_sqlite import config

            arguments = {name: self.given.get(name) for name in ("data_dir", "agent", "workspace")}
            self._loaded = config.load(file=self.given.get("config"), arguments=arguments)
        return self._loaded

    @property
    def settings(self) -> Settings:
        return self.load()[0]

    def open(
        self,
        *,
        read_only: bool = False,
        settings: Settings | None = None,
        progress: Progress | None = None,
        serving: bool = False,
    ) -> Memory:
        """The memory these options name. Reading creates nothing and raises ``UnknownAgent`` where there is none."""
        settings = settings or self.settings
        from memory_sqlite.memory import Memory

        return Memory.open(settings=settings, read_only=read_only, serving=serving, progress=progress)

    def open_to_ask(self) -> Memory:
        """For search and recall: as ``open(read_only=True)``, but able to take changed notes into the index first.

        A store that cannot be written, or not now, is read as it is.
        """
        from memory_sqlite import paths

        if not self.settings.enabled:
            return self.open()
        directory = paths.agent_directory(self.settings.data_dir, self.settings.agent)
        if (directory / paths.STORE_FILE).is_file():  # opening for writing would make what is not there
            try:
                return self.open()
            except (errors.StoreReadOnly, errors.StoreBusy, errors.DiskFull):
                pass
        return self.open(read_only=True)


if TYPE_CHECKING:
    _TextBase = click.ParamType[str]
else:
    _TextBase = click.ParamType  # generic only in recent versions of click


class Text(_TextBase):
    """Text a person typed, as valid Unicode.

    Under a locale that is not UTF-8 Python hands over undecoded bytes as surrogates; they are UTF-8 all the same.
    """

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return typed_text(str(value))


TEXT: Final = Text()


def typed_text(value: str) -> str:
    """A command-line argument as valid Unicode text; what is not UTF-8 becomes U+FFFD."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(value).decode("utf-8", "replace")
    return value


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    state = ctx.find_object(State)
    if state is not None and value not in (None, False) and param.name is not None:
        if param.name == "json":
            state.output.json = True
        else:
            state.given[param.name] = value
    return value


def _common_options() -> list[click.Option]:
    def option(*names: str, **more: Any) -> click.Option:
        return click.Option(list(names), expose_value=False, callback=_keep, **more)

    return [
        option("--data-dir", metavar="DIR", type=click.Path(), help="Directory of all memories."),
        option("--agent", metavar="ID", type=TEXT, help="Whose memory (default: main)."),
        option("--workspace", metavar="DIR", type=click.Path(), help="Directory with MEMORY.md, USER.md and memory/."),
        option("--config", metavar="FILE", type=click.Path(), help="Configuration file to read."),
        option("--json", is_flag=True, help="Print one JSON document and nothing else."),
    ]


def add_common(command: _Command) -> _Command:
    """Give a command the global options."""
    command.params.extend(_common_options())
    return command


class Command(click.Command):
    """A command with the global options and examples under its help."""

    def __init__(self, *args: Any, examples: str = "", **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = examples
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        add_common(self)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they are written."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"  {line.strip()}\n")


def stated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hand the run's ``State`` to a command function as its first argument."""
    return click.make_pass_decorator(State)(function)


def read_stdin(what: str) -> bytes:
    """Everything on standard input, bounded. Raises ``InvalidArgument`` when there is nobody to read from."""
    if sys.stdin is None:
        raise errors.InvalidArgument(f"{what} should come from standard input, but it is closed")
    data = sys.stdin.buffer.read(limits.STDIN_MAX_BYTES + 1)
    if len(data) > limits.STDIN_MAX_BYTES:
        raise errors.InvalidArgument(
            f"{what} on standard input is larger than {limits.STDIN_MAX_BYTES} bytes",
            hint="Write it to a file and use `memory-sqlite import transcripts FILE`.",
        )
    return data


def query_text(words: tuple[str, ...]) -> str:
    """The query from its words; a lone ``-`` reads it from standard input."""
    if words == ("-",):
        return read_stdin("the query").decode("utf-8", "replace").removeprefix("\ufeff").strip()
    return " ".join(words)
