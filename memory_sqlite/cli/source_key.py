"""The key of another product's directory, named on the command line and read from there: never itself an argument.

Not here: reading and checking it (``crypto.secret``), what it opens. Called by import and export of that product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from memory_sqlite.cli.options import TEXT


def key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--key-env``, ``--key-file`` and ``--key-command``, of which one may be used."""
    for option in (
        click.option("--key-command", metavar="COMMAND", type=TEXT, help="Command that prints the directory's key."),
        click.option("--key-file", metavar="PATH", type=click.Path(), help="File that holds the directory's key."),
        click.option("--key-env", metavar="NAME", type=TEXT, help="Variable that holds the directory's key."),
    ):
        function = option(function)
    return function


def read_key(key_env: str | None, key_file: str | None, key_command: str | None) -> bytes | None:
    """The key that the options name, ``None`` where they name none.

    Raises ``InvalidConfiguration``, which names the option and never what it holds.
    """
    given = [
        (kind, name)
        for kind, name in (("env", key_env), ("file", key_file), ("command", key_command))
        if name is not None
    ]
    if len(given) > 1:
        raise click.UsageError("Only one of --key-env, --key-file and --key-command may be given.")
    if not given:
        return None
    from memory_sqlite.crypto.secret import Kind, Secret

    kinds: dict[str, Kind] = {"env": "env", "file": "file", "command": "command"}
    kind, name = given[0]
    return Secret(kinds[kind], name, field=f"--key-{kind}").read()
