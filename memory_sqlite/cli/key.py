"""``memory-sqlite key status``, ``encrypt``, ``decrypt``, ``rotate`` and ``change-passphrase``: encryption at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from memory_sqlite import errors
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import TEXT, Command, State, add_common, stated
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.cli.status import size
from memory_sqlite.model import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_sqlite.rekeying import KeyReport
    from memory_sqlite.rekeying.reports import BackupKeys

_STATUS: Final = """
memory-sqlite key status
memory-sqlite key status --backup ~/backups/monday --json
"""
_ENCRYPT: Final = """
export MEMORY_KEY="$(pass show memory)" MEMORY_SQLITE_ENCRYPTION_KEY_ENV=MEMORY_KEY
memory-sqlite key encrypt --dry-run
memory-sqlite key encrypt
"""
_DECRYPT: Final = """
memory-sqlite key decrypt --dry-run
memory-sqlite key decrypt --wait 30
"""
_ROTATE: Final = """
memory-sqlite key rotate --backup ~/backups/monday
memory-sqlite key rotate --cipher sqlcipher --json
"""
_CHANGE: Final = """
memory-sqlite key change-passphrase --new-key-file ~/.config/memory.key
NEW="correct horse battery" memory-sqlite key change-passphrase --new-key-env NEW --new-passphrase
"""
_EVERY: Final = (
    click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
    click.option(
        "--wait", "wait_s", metavar="SECONDS", type=click.FloatRange(0, 86_400), default=0.0,
        help="How long to wait for whoever has the data directory open.",
    ),
    click.option(
        "--backup", "backup_paths", metavar="DIR", type=click.Path(), multiple=True,
        help="A backup to say of which key it needs (repeatable).",
    ),
)  # fmt: skip


def _every(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_EVERY):
        function = option(function)
    return function


@click.group(no_args_is_help=False)
def command() -> None:
    """Encrypt a data directory, and change its keys. Every command can be killed, and run again to go on."""


add_common(command)


@command.command("status", cls=Command, examples=_STATUS)
@_EVERY[2]
@stated
def status(state: State, backup_paths: Sequence[str]) -> None:
    """Say whether the data directory is encrypted, with which key, and whether the configured one opens it.

    Changes nothing and needs no key. Ids name keys without being any.
    """
    from memory_sqlite import rekeying

    output = state.output
    if not _enabled(state):
        return
    found = rekeying.status(state.settings, backup_paths=backup_paths)
    output.document({"ok": True, **to_json(found)})
    output.line(f"{found.state}" + (f", cipher {found.cipher}, data key {found.key_id}" if found.key_id else ""))
    if found.user_key is not None:
        output.line(f"wrapped under user key {found.user_key} ({found.kdf})")
    if found.opens is not None:
        output.line("the configured key opens it" if found.opens else "the configured key does not open it")
    if found.change is not None:
        output.line(f"a change is under way: from {_named(found.change['from'])} to {_named(found.change['to'])}")
    for file in found.files:
        output.line(f"  {one_line(file.name)}: {file.state}, {size(file.bytes)}")
    _backups(output, found.backups)
    if found.problem is not None:
        output.note(f"opening is refused: {found.problem}; {errors.catalogue()[found.problem].default_hint}")


@command.command("encrypt", cls=Command, examples=_ENCRYPT)
@_every
@stated
def encrypt(state: State, dry_run: bool, wait_s: float, backup_paths: Sequence[str]) -> None:
    """Encrypt every store and search index of the data directory with the configured key.

    Needs as much free disk as the largest agent takes, and nobody else who has the directory open. Each copy is
    verified before it takes its original's place. Notes in the workspace are yours and stay as they are.
    """
    from memory_sqlite import rekeying

    _change(
        state,
        lambda bars: rekeying.encrypt(
            state.settings, wait_s=wait_s, dry_run=dry_run, backup_paths=backup_paths, progress=bars
        ),
    )


@command.command("decrypt", cls=Command, examples=_DECRYPT)
@_every
@stated
def decrypt(state: State, dry_run: bool, wait_s: float, backup_paths: Sequence[str]) -> None:
    """Put every store and search index in clear again; the key must be configured once more for it.

    Remove the key from the settings afterwards: a key for files in clear is an error.
    """
    from memory_sqlite import rekeying

    _change(
        state,
        lambda bars: rekeying.decrypt(
            state.settings, wait_s=wait_s, dry_run=dry_run, backup_paths=backup_paths, progress=bars
        ),
    )


@command.command("rotate", cls=Command, examples=_ROTATE)
@click.option("--cipher", type=click.Choice(("aegis", "sqlcipher")), help="Cipher of the new files; default: as now.")
@_every
@stated
def rotate(state: State, cipher: Any, dry_run: bool, wait_s: float, backup_paths: Sequence[str]) -> None:
    """Encrypt everything anew with a new random data key; your own key stays.

    For when somebody may have had keyring.json together with your key. Search indexes and their vectors come along.
    """
    from memory_sqlite import rekeying

    _change(
        state,
        lambda bars: rekeying.rotate(
            state.settings, cipher=cipher, wait_s=wait_s, dry_run=dry_run, backup_paths=backup_paths, progress=bars
        ),
    )


@command.command("change-passphrase", cls=Command, examples=_CHANGE)
@click.option("--new-key-env", metavar="NAME", type=TEXT, help="Variable that holds the new key.")
@click.option("--new-key-file", metavar="FILE", type=click.Path(), help="File that holds the new key.")
@click.option("--new-key-command", metavar="COMMAND", type=TEXT, help="Command that prints the new key.")
@click.option("--new-passphrase", is_flag=True, help="The new key is a passphrase: at least 8 bytes, stretched.")
@_every
@stated
def change_passphrase(
    state: State,
    new_key_env: str | None,
    new_key_file: str | None,
    new_key_command: str | None,
    new_passphrase: bool,
    dry_run: bool,
    wait_s: float,
    backup_paths: Sequence[str],
) -> None:
    """Protect the same data with another key of yours; takes a moment, whatever the size.

    The configured key must open it. Name the new one in the settings afterwards. Backups keep the key they were made
    with, and whoever had the old key and the old keyring.json still has the data: rotate for that.
    """
    from memory_sqlite import rekeying
    from memory_sqlite.crypto import secret

    new = secret.named(new_key_env, new_key_file, new_key_command, passphrase=new_passphrase, prefix="--new-key-")
    if new is None:
        raise click.UsageError("name the new key: --new-key-env, --new-key-file or --new-key-command")
    _change(
        state,
        lambda bars: rekeying.change_passphrase(
            state.settings, new, wait_s=wait_s, dry_run=dry_run, backup_paths=backup_paths
        ),
    )


def _enabled(state: State) -> bool:
    if not state.settings.enabled:
        state.output.document({"ok": True, "status": "disabled"})
        state.output.note("Memory is disabled (enabled = false).")
    return state.settings.enabled


def _change(state: State, call: Callable[[Bars], KeyReport]) -> None:
    if not _enabled(state):
        return
    output = state.output
    with Bars(output) as bars:
        report = call(bars)
    output.document({"ok": True, **to_json(report)})
    if report.status == "nothing":
        output.line("Nothing to do: it is so already.")
    elif report.action == "change-passphrase":
        verb = "Would wrap" if report.status == "planned" else "Wrapped"
        output.line(f"{verb} {_named(report.target)} under user key {report.user_key}.")
        if report.status == "done":
            output.note("Name the new key in the settings now; the old one does not open this directory any more.")
    else:
        verb = "Would go on" if report.resumed and report.status == "planned" else "Would change"
        verb = verb if report.status == "planned" else "Went on and changed" if report.resumed else "Changed"
        output.line(
            f"{verb} {counted(len(report.agents), 'agent')} from {_named(report.source)} to {_named(report.target)}"
            + (f" ({report.done_before} done before)." if report.done_before else ".")
        )
    _agents(output, report)
    _backups(output, report.backups)
    if report.action == "decrypt" and report.status == "done":
        output.note("Everything is in clear now: remove the key from the settings.")


def _agents(output: Output, report: KeyReport) -> None:
    for agent in report.agents:
        rows = "" if agent.rows is None else f", {counted(agent.rows, 'row')} verified"
        output.line(f"  {one_line(agent.directory)}: {size(agent.bytes)}{rows}")
        if agent.index_dropped is not None:
            output.note(f"  its search index is built anew by the next open: {agent.index_dropped}")


def _backups(output: Output, backups: Sequence[BackupKeys]) -> None:
    for backup in backups:
        output.line(f"backup {one_line(backup.path)} needs {backup.needs}")


def _named(key_id: str | None) -> str:
    return "clear" if key_id is None else "a new data key" if key_id == "new" else f"data key {key_id}"
