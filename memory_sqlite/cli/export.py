"""``memory-sqlite export``: take everything along, in forms that people, hosts and other products can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import TEXT, Command, State, stated
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.cli.progress import Bars
from memory_sqlite.cli.source_key import key_options, read_key
from memory_sqlite.model import to_json

if TYPE_CHECKING:
    from memory_sqlite.interop.export_reports import LayeredExportReport, TranscriptExportReport
    from memory_sqlite.interop.jsonl_reports import ExportReport

_EXAMPLES = """
memory-sqlite export memory.jsonl
memory-sqlite export --agent ann ann.jsonl.gz
memory-sqlite export --as transcripts transcripts
memory-sqlite export --as transcripts --session friday friday.jsonl
memory-sqlite export --as layered old-product --key-env OPENCLAW_MEMORY_KEY
memory-sqlite import memory.jsonl --agent copy
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("path", type=click.Path())
@click.option(
    "--as", "form", type=click.Choice(["jsonl", "transcripts", "layered"]), default="jsonl", show_default=True,
    help="One file with everything; transcripts, a file for each session; the layered-memory product's directory.",
)  # fmt: skip
@click.option("--session", metavar="KEY", type=TEXT, help="With --as transcripts: this session alone, to one file.")
@click.option("--force", is_flag=True, help="Write over a file of that name.")
@key_options
@stated
def command(state: State, path: str, form: str, session: str | None, force: bool, **keys: str | None) -> None:
    """Write everything that was said and remembered to PATH.

    As jsonl it is one file (gzip where its name ends in .gz), one line a row, with what was superseded, pinned and
    forgotten, and a checksum at the end: `memory-sqlite import` reads it back. As transcripts or layered it is a new
    folder, and what that form cannot hold is counted. Only the last can be encrypted: name where the key for it is.
    Only you may read what is written. Notes are files already, and the search index is made anew: neither is in it.
    """
    output = state.output
    if session is not None and form != "transcripts":
        raise click.UsageError("--session goes with --as transcripts.")
    if force and form != "jsonl" and session is None:
        raise click.UsageError("--force writes over a file; a folder must be new or empty.")
    secret = read_key(keys["key_env"], keys["key_file"], keys["key_command"])
    if secret is not None and form != "layered":
        raise click.UsageError("Only --as layered can be encrypted; keep other exports where only you can read them.")
    report: ExportReport | LayeredExportReport | TranscriptExportReport
    with Bars(output) as progress, state.open(read_only=True) as memory:
        if form == "layered":
            report = layered = memory.export_layered(path, secret=secret, progress=progress)
        elif form == "transcripts":
            report = said = memory.export_transcripts(path, session=session, overwrite=force, progress=progress)
        else:
            report = whole = memory.export(path, overwrite=force, progress=progress)
    output.document({"ok": True, **to_json(report)})
    if report.status == "disabled":
        output.note("Memory is disabled (enabled = false).")
    elif form == "layered":
        _tell_layered(output, path, layered)
    elif form == "transcripts":
        _tell_transcripts(output, path, said)
    else:
        _tell(output, path, whole)


def _tell(output: Output, path: str, report: ExportReport) -> None:
    counts = report.counts
    output.line(
        f"Exported {counted(counts['session'], 'session')}, {counted(counts['turn'], 'turn')},"
        f" {counted(counts['message'], 'message')} and {counted(counts['record'], 'record')}"
        f" to {one_line(path)} ({report.bytes:,} bytes)."
    )


def _tell_layered(output: Output, path: str, report: LayeredExportReport) -> None:
    counts = report.counts
    output.line(
        f"Exported {counted(counts['L0'], 'conversation')}, {counted(counts['L1'], 'episode')},"
        f" {counted(counts['L2'], 'scenario')} and {counted(counts['L3'], 'fact')} to {one_line(path)}"
        f" ({counted(report.files, 'file')}, {'encrypted' if report.encrypted else 'in clear'})."
    )
    if report.left_out:
        output.note(f"That form cannot hold: {_kinds(report.left_out)}.")
    if report.moved:
        output.note(f"{counted(report.moved, 'record')} moved to another line: their citations changed.")


def _tell_transcripts(output: Output, path: str, report: TranscriptExportReport) -> None:
    output.line(
        f"Exported {counted(report.messages, 'message')} of {counted(report.sessions, 'session')} to {one_line(path)}"
        f" ({counted(report.lines, 'line')}, {report.bytes:,} bytes)."
    )
    changed = {"masked": report.masked, "shortened": report.shortened, "without base64": report.without_data}
    if any(changed.values()):
        output.note(f"Not as they came in: {_kinds(changed)}.")


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)
