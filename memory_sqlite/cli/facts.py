"""``memory-sqlite facts list``, ``facts add`` and ``facts remove``: facts that are stated, not found in talk."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from memory_sqlite import errors, limits
from memory_sqlite.cli.hits import counted
from memory_sqlite.cli.options import TEXT, Command, State, add_common, read_stdin, stated
from memory_sqlite.cli.output import Output, one_line
from memory_sqlite.cli.remember import DEFAULT_SESSION, parse_json
from memory_sqlite.model import CHAT_TYPES, Hit, to_json

if TYPE_CHECKING:
    from memory_sqlite.memory import Memory

_LIST: Final = """
memory-sqlite facts list
memory-sqlite facts list "which storage layer do we use?"
memory-sqlite facts list --scope harbour --json
"""
_ADD: Final = """
memory-sqlite facts add "We store everything in SQLite." --name "storage layer" --alias database
memory-sqlite facts add "Answer in British English." --kind instruction --pinned
echo '[{"content": "Deploys on Tuesdays.", "name": "deploy day", "scopes": ["harbour"]}]' | memory-sqlite facts add
"""
_REMOVE: Final = """
memory-sqlite facts remove "deploy day"
memory-sqlite facts remove record:01JC2Q6Y0D2ZT7V7YQ0S0M3B6N
"""
_ALL: Final = limits.FACTS_MAX


@click.group(no_args_is_help=False)
def command() -> None:
    """State facts, list them, end them. A fact is found by its name; `remember` is for what was said."""


add_common(command)


@command.command("list", cls=Command, examples=_LIST)
@click.argument("query", nargs=-1, type=TEXT)
@click.option("--session", metavar="KEY", type=TEXT, help="Ask as this session: only what it may see.")
@click.option("--scope", "scopes", metavar="NAME", type=TEXT, multiple=True, help="Only what holds here (repeatable).")
@click.option(
    "-n", "--max-results", type=click.IntRange(1, limits.FACTS_MAX), default=limits.FACTS_DEFAULT, show_default=True,
    help="Most facts; pinned ones are never left out.",
)  # fmt: skip
@stated
def listed(
    state: State, query: tuple[str, ...], session: str | None, scopes: tuple[str, ...], max_results: int
) -> None:
    """List the facts in force: all of them, or the pinned ones and those that QUERY names.

    A name counts only whole and word for word. Each line shows the fact, its names, the scopes it holds in, and the
    reference that `remove` and `get` take.
    """
    text = " ".join(query) if query else None
    with state.open(read_only=True) as memory:
        found = memory.facts(text, session=session, scopes=scopes or None, max_results=max_results)
    output = state.output
    output.document({"ok": True, **to_json(found)})
    for hit in (*found.pinned, *found.named):
        _show(output, hit, pinned=hit in found.pinned)
    if found.disabled:
        output.note("Memory is disabled (enabled = false).")
    elif not found.pinned and not found.named:
        output.line("No facts yet." if text is None else "No fact is called that.")
    if found.left_off:
        output.note(f"{counted(found.left_off, 'more fact')}: --max-results shows up to {limits.FACTS_MAX}.")
    for warning in found.warnings:
        output.note(f"warning: {warning}")


def _show(output: Output, hit: Hit, *, pinned: bool) -> None:
    about = [str(hit.provenance["fact"]), *(["pinned"] if pinned else [])]
    if hit.triggers:
        about.append("called " + ", ".join(one_line(name, 60) for name in hit.triggers))
    if hit.projects:
        about.append("in " + ", ".join(one_line(scope, 60) for scope in hit.projects))
    output.line(one_line(hit.excerpt, 400))
    output.line(f"   {'; '.join(about)}; {one_line(hit.reference)}")


@command.command(cls=Command, examples=_ADD)
@click.argument("content", nargs=-1, type=TEXT)
@click.option("--name", metavar="NAME", type=TEXT, help="What it is called. The newest fact of a name replaces others.")
@click.option("--alias", "aliases", metavar="NAME", type=TEXT, multiple=True, help="Another name (repeatable).")
@click.option("--scope", "scopes", metavar="NAME", type=TEXT, multiple=True, help="Where it holds (repeatable).")
@click.option("--kind", metavar="KIND", type=TEXT, help="preference (default), identity, instruction, decision, ...")
@click.option("--pinned", is_flag=True, default=None, help="Recall it always, whatever is asked.")
@click.option("--session", metavar="KEY", type=TEXT, default=DEFAULT_SESSION, show_default=True, help="Who says so.")
@click.option("--chat-type", type=click.Choice(CHAT_TYPES), default="direct", help="What kind of chat (direct).")
@click.option("--owner/--not-owner", "owner", default=None, help="Whether the owner says so (default in direct chats).")
@stated
def add(
    state: State, content: tuple[str, ...], session: str, chat_type: Any, owner: bool | None, **options: Any
) -> None:
    """State one fact, or a list of them as JSON on standard input: [{content, name, aliases, scopes, kind, pinned}].

    It is searchable when the command returns. With a name it comes whenever a question holds that name whole; without
    one, as anything that is remembered.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    facts = [{"content": " ".join(content), **given}] if content else _read(given)
    is_owner = chat_type == "direct" if owner is None else owner
    with state.open() as memory:
        receipt = memory.remember_facts(facts, session=session, chat_type=chat_type, sender_is_owner=is_owner)
    output = state.output
    output.document({"ok": True, **to_json(receipt)})
    if receipt.status == "stored":
        replaced = f", {counted(len(receipt.superseded), 'fact')} replaced" if receipt.superseded else ""
        output.line(f"Stored {counted(len(receipt.facts), 'fact')}{replaced}.")
    else:
        output.line(_OTHERWISE[receipt.status])
    if receipt.redactions:
        output.note(f"{counted(receipt.redactions, 'secret')} masked.")
    for warning in receipt.warnings:
        output.note(f"warning: {warning}")


_OTHERWISE: Final = {
    "duplicate": "Already known; nothing new was stored.",
    "empty": "There was nothing to store.",
    "disabled": "Memory is disabled (enabled = false); nothing was stored.",
}


def _read(given: Mapping[str, Any]) -> Sequence[Any]:
    if given or (sys.stdin is not None and sys.stdin.isatty()):
        raise click.UsageError("Give the fact's CONTENT, or a JSON list of facts on standard input.")
    facts = parse_json(read_stdin("the facts"))
    if not isinstance(facts, list):
        raise errors.InvalidArgument("standard input must hold a JSON list of facts")
    return facts


@command.command(cls=Command, examples=_REMOVE)
@click.argument("named", nargs=-1, required=True, metavar="NAME|REFERENCE...", type=TEXT)
@click.option("--scope", "scopes", metavar="NAME", type=TEXT, multiple=True, help="Only where it holds (repeatable).")
@stated
def remove(state: State, named: tuple[str, ...], scopes: tuple[str, ...]) -> None:
    """End facts, by name or by the reference that `list` shows: they hold no longer, and come back in no answer.

    A name is its whole name or alias, in any case. One that several facts have ends none of them: give a reference, or
    a scope. What is not known is reported, and is no failure. The words stay in the store as what once held:
    `memory-sqlite forget --record ID` takes them out for ever.
    """
    with state.open() as memory:
        chosen = {one: _chosen(memory, one, scopes) for one in named}
        ended = memory.end_facts([hit for hits in chosen.values() for hit in hits])
        disabled = not memory.settings.enabled
    unknown = [one for one, references in chosen.items() if not set(references) & set(ended)]
    output = state.output
    output.document({"ok": True, "ended": ended, "unknown": unknown, "disabled": disabled})
    if disabled:
        output.note("Memory is disabled (enabled = false).")
        return
    output.line(f"Ended {counted(len(ended), 'fact')}.")
    for one in unknown:
        output.note(f"No fact in force is known as {one_line(one)}.")


def _chosen(memory: Memory, named: str, scopes: tuple[str, ...]) -> list[str]:
    """The reference that was given, or that of the one fact of a name."""
    if named.startswith("record:"):
        return [named]
    wanted = _plain(named)
    found = memory.facts(named, scopes=scopes or None, max_results=_ALL)
    hits = [hit for hit in (*found.pinned, *found.named) if wanted in map(_plain, hit.triggers)]
    if len(hits) > 1:
        raise errors.InvalidArgument(
            f"{len(hits)} facts are called that; none was ended",
            hint="Give the reference that `memory-sqlite facts list` shows, or --scope.",
        )
    return [hit.reference for hit in hits]


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
