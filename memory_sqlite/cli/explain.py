"""``memory-sqlite explain``: how a search read its query, what it scored, and why something was found or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import TEXT, Command, State, query_text, stated
from memory_sqlite.cli.output import columns, one_line
from memory_sqlite.cli.search_options import asked, search_options
from memory_sqlite.model import to_json

if TYPE_CHECKING:
    from memory_sqlite.search.explanation import CandidateReading, Explanation, TargetReading, TermReading

SHOWN: Final = 20
"""More candidates than a screen holds are in the JSON document."""

_EXAMPLES = """
memory-sqlite explain "router vlna"
memory-sqlite explain "router VLAN" memory/people.md          why this note was found or not
memory-sqlite explain "harbour" message:42 --source sessions
memory-sqlite explain "router VLAN" MEMORY.md --session garden-club --reveal
"""


@click.command(cls=Command, examples=_EXAMPLES)
@click.argument("query", type=TEXT)
@click.argument("reference", required=False, type=TEXT)
@click.option("--session", metavar="KEY", type=TEXT, help="Ask as this session: only what it may see.")
@click.option("--reveal", is_flag=True, help="With --session: say also that the session may not see it.")
@search_options
@stated
def command(state: State, query: str, reference: str | None, **options: Any) -> None:
    """Say how a search for QUERY goes: its terms, its dates, its filters, what was scored, and how.

    REFERENCE is what a hit carries as `reference`, a citation or a path: then the answer begins with why that was found
    or not. The options are those of `search`. No text of a memory is shown.
    """
    with state.open_to_ask() as memory:
        explanation = memory.explain(query_text((query,)), reference, reveal=options["reveal"], **asked(options))
    output = state.output
    output.document({"ok": True, **to_json(explanation)})
    if explanation.disabled:
        output.note("Memory is disabled (enabled = false).")
        return
    for line in lines(explanation):
        output.line(line)
    if explanation.withheld:
        output.note(f"{counted(explanation.withheld, 'match', 'matches')} may not be seen by this session.")
    for warning in explanation.warnings:
        output.note(f"warning: {warning}")


def lines(explanation: Explanation) -> Iterator[str]:
    """The explanation for people: the thing asked about first, then the query, then what was scored."""
    if explanation.target is not None:
        yield from _target(explanation.target)
    yield f"clock   {explanation.now} ({explanation.zone})"
    yield f"tokens  {_words(explanation.tokens)}"
    if explanation.left_out:
        yield f"no terms  {_words(explanation.left_out)}"
    for date in explanation.dates:
        yield "date    " + ", ".join(f"{name} {value}" for name, value in date.items())
    said = {name: value for name, value in explanation.filters.items() if value is not None and name != "expression"}
    if said:
        yield "filters " + ", ".join(f"{name} {_value(value)}" for name, value in said.items())
    yield f"routes  {_words(explanation.routes)}"
    if explanation.terms:
        yield ""
        head = ("term", "kind", "weight", "found in", "read")
        yield from columns([head, *(_term(term) for term in explanation.terms)])
    yield ""
    yield f"{counted(explanation.scored, 'candidate')} scored."
    for row in explanation.candidates[:SHOWN]:
        yield from _candidate(row)
    if len(explanation.candidates) > SHOWN:
        yield f"… and {len(explanation.candidates) - SHOWN} more; --json lists them."


def _target(target: TargetReading) -> Iterator[str]:
    yield f"{one_line(target.reference)}: {'found' if target.found else 'not found'}"
    yield f"  {one_line(target.detail)} ({target.reason})"
    if target.terms:
        yield f"  holds: {_words(target.terms)}"
    if target.missing:
        yield f"  lacks: {_words(target.missing)}"
    if target.score is not None:
        yield f"  score {target.score:.3f}: {_parts(target.parts)}"
    yield ""


def _term(term: TermReading) -> tuple[str, ...]:
    note: str = term.reading
    if term.reading not in ("exact", "dropped"):
        note += f": {_words(term.words)}"
    if term.required:
        note += ", demanded"
    if not term.chosen and term.reading != "dropped":
        note += ", too common to choose by"
    return (one_line(term.text, 60), term.kind, f"{term.weight:.2f}", str(term.documents), note)


def _candidate(row: CandidateReading) -> Iterator[str]:
    became = {"hit": f"hit {row.place}", "duplicate": f"duplicate of {row.of}", "overlap": f"overlaps {row.of}"}
    yield f"{row.rank}. {row.score:.3f}  {one_line(row.citation)}  {one_line(became.get(row.verdict, row.verdict))}"
    yield f"   {_parts(row.parts)}"
    if row.terms:
        yield f"   holds: {_words(row.terms)}"


def _words(words: tuple[str, ...]) -> str:
    return one_line(", ".join(words)) or "none"


def _value(value: object) -> str:
    return one_line(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


def _parts(parts: Any) -> str:
    return ", ".join(f"{one_line(str(name), 40)} {value:.3f}" for name, value in parts.items())
