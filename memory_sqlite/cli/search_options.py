"""The options that ``search`` and ``explain`` share: what to look in, and how many hits in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from memory_sqlite import limits
from memory_sqlite.cli.options import TEXT
from memory_sqlite.model import LAYERS, SOURCES

zone_option: Final[Callable[[Any], Any]] = click.option(
    "--zone", metavar="ZONE", type=TEXT,
    help='Whose day "yesterday" is: Europe/Berlin, +02:00, UTC (default: this machine\'s).',
)  # fmt: skip
"""Also ``recall``'s."""
_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "-n", "--max-results", type=click.IntRange(1, limits.OPERATOR_MAX_RESULTS), default=limits.DEFAULT_RESULTS,
        show_default=True, help="Most hits.",
    ),
    click.option(
        "--min-score", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Floor of every hit."
    ),
    click.option(
        "--source", "sources", type=click.Choice(SOURCES), multiple=True, help="Only this source (repeatable)."
    ),
    click.option("--layer", "layers", type=click.Choice(LAYERS), multiple=True, help="Only this layer (repeatable)."),
    click.option(
        "--project", "projects", metavar="NAME", type=TEXT, multiple=True, help="Only this project (repeatable)."
    ),
    click.option(
        "--active-project", "active_projects", metavar="NAME", type=TEXT, multiple=True,
        help="Favour this project a little, leave nothing out (repeatable).",
    ),
    click.option("--since", metavar="TIME", type=TEXT, help="Only events at or after this time (ISO-8601 or epoch)."),
    click.option("--until", metavar="TIME", type=TEXT, help="Only events before this time."),
    click.option(
        "--sort", type=click.Choice(["score", "diverse", "newest", "oldest"]), default="score", show_default=True,
        help="Order of hits; diverse: the best that are least alike.",
    ),
    zone_option,
)  # fmt: skip
_NONE_MEANS_ALL: Final = ("layers", "projects")


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add them to a command, in the order they are shown in."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, ``--session`` among them, as arguments of ``Memory.search`` and ``Memory.explain``."""
    names = (
        "session",
        "max_results",
        "min_score",
        "sources",
        "layers",
        "projects",
        "active_projects",
        "since",
        "until",
        "sort",
        "zone",
    )
    given = {name: options[name] for name in names}
    given["sources"] = given["sources"] or SOURCES
    for name in _NONE_MEANS_ALL:
        given[name] = given[name] or None
    return given
