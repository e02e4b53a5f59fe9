"""Whose words the files of a workspace hold, by where they are and nothing else.

A note of the agent's own workspace is its owner's. Everything else is untrusted: another workspace, a file that is no
note, a way through a link, a file that was read elsewhere and of which nobody says which one it was. Called by
``legacy_runtime``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from memory_sqlite import errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.model import OriginClass
from memory_sqlite.runtime.manager_shapes import ClassifiedPath, ReadSource
from memory_sqlite.sources.notes import resolve_note
from memory_sqlite.sources.places import CURATED, FOLDER


def classify(
    opened: Opened, workspace_dir: str, relative_paths: Sequence[str], read_sources: Sequence[ReadSource]
) -> list[ClassifiedPath]:
    """One answer for each path, in their order."""
    read_elsewhere = {source.relative_path: source for source in read_sources}
    own = opened.workspace is not None and _same(str(opened.workspace), workspace_dir)
    return [ClassifiedPath(path, _origin(opened, own, path, read_elsewhere.get(path))) for path in relative_paths]


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)  # noqa: PTH121 - strings
    except (OSError, ValueError):
        return False


def _origin(opened: Opened, own: bool, path: str, source: ReadSource | None) -> OriginClass:
    if not own:
        return "untrusted"
    if source is not None:
        # it was read elsewhere: only what it turned out to be counts, and that is a name, not a file of this machine
        canonical = source.canonical_relative_path
        return "owner" if canonical is not None and _is_note_name(opened, canonical) else "untrusted"
    return "owner" if _is_note(opened, path) else "untrusted"


def _is_note(opened: Opened, path: str) -> bool:
    assert opened.workspace is not None, "it is the own workspace"
    try:
        return (
            not path.startswith("/") and resolve_note(opened.workspace, opened.settings.extra_paths, path) is not None
        )
    except errors.PathNotAllowed:
        return False


def _is_note_name(opened: Opened, path: str) -> bool:
    """Whether a note of this name would be one, there or not."""
    plain = path in CURATED or path.startswith(f"{FOLDER}/")
    try:
        assert opened.workspace is not None, "it is the own workspace"
        resolve_note(opened.workspace, (), path)
    except errors.PathNotAllowed:
        return False
    return plain
