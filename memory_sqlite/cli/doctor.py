"""``memory-sqlite doctor``: what is wrong, what it means, and what to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from memory_sqlite import errors
from memory_sqlite.cli.options import Command, State, stated
from memory_sqlite.cli.output import one_line
from memory_sqlite.cli.progress import Bars

if TYPE_CHECKING:
    from memory_sqlite.cli.output import Output

FINDINGS_EXIT: Final = 3
"""Exit code when there is an error or a warning."""

_EXAMPLES = """
memory-sqlite doctor
memory-sqlite doctor --fix
memory-sqlite doctor --deep --json
memory-sqlite doctor --salvage rescued
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.option("--fix", is_flag=True, help="Mend what can be mended without losing anything; files are set aside.")
@click.option(
    "--deep", is_flag=True, help="Ask the embedding provider too; read every note, transcript and encrypted page."
)
@click.option(
    "--salvage", metavar="OUT", type=click.Path(),
    help="Instead: read everything readable of a damaged store into OUT, a new data directory.",
)  # fmt: skip
@stated
def command(state: State, fix: bool, deep: bool, salvage: str | None) -> int:
    """Look everything over: files, keys, store, index, notes, machine. Works where a memory does not open.

    Exit code 0: nothing is wrong; 3: something is. Nothing is changed without --fix, and no text of a memory is shown.
    What --salvage reads it leaves as it is; it ends with 3 when something could not be read.
    """
    if salvage is not None:
        if fix or deep:
            raise click.UsageError("--salvage goes alone.")
        from memory_sqlite.cli.salvage import run

        return run(state, salvage)
    from memory_sqlite.clock import Clock
    from memory_sqlite.doctor import examination, unconfigured

    place: str | None = None
    try:
        settings = state.settings
    except (errors.InvalidConfiguration, errors.EncryptionUnavailable) as error:
        report = unconfigured(error)
    else:
        place = str(settings.data_dir)
        with Bars(state.output) as progress:
            report = examination(settings, Clock(), fix=fix, deep=deep, progress=progress)
    document = report.as_json()
    state.output.document({"ok": True, "data_dir": place, **document})
    if report.status == "disabled":
        state.output.line("disabled")
        return 0
    _lines(state.output, document)
    return FINDINGS_EXIT if report.findings else 0


def _lines(output: Output, document: Mapping[str, Any]) -> None:
    for one in (*document["findings"], *document["notes"]):
        evidence = ", ".join(f"{name} {one_line(str(value))}" for name, value in one["evidence"].items())
        output.line(f"{one['severity']}: {one['code']}" + (f" ({evidence})" if evidence else ""))
        output.line(f"  {one['meaning']}")
        for name in one["names"]:
            output.line(f"    {one_line(name)}")
        if one["severity"] == "info" and one["fix"].startswith("Nothing"):
            continue  # as it may be
        output.line(f"  {one['fix']}")
        if one["command"]:
            output.line(f"  $ {one['command']}")
    for done in document["mendings"]:
        output.line(f"{done['outcome']}: {done['code']}" + (f" ({done['reason']})" if done["reason"] else ""))
    if document["quarantine"] is not None:
        output.line(f"set aside in: {one_line(document['quarantine'])}")
    for check in document["checks"]:
        if check["state"] in ("skipped", "off", "failed"):
            output.line(f"{check['state']}: {check['name']} ({one_line(check['reason'])})")
    number = len(document["findings"])
    made = sum(check["state"] in ("ok", "findings") for check in document["checks"])
    what = "nothing is wrong" if not number else "1 finding" if number == 1 else f"{number} findings"
    output.line(f"{what}; {made} checks made")
