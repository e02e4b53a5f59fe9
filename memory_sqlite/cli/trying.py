"""Where a dry run of an import happens: in the memory itself, or, where there is none yet, in one thrown away after.

So that trying makes nothing: no data directory, no session.key that a real import would then find. Called by the
import commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from memory_sqlite import paths

if TYPE_CHECKING:
    from memory_sqlite.config import Settings


@contextmanager
def place_to_try(settings: Settings, *, dry_run: bool) -> Iterator[Settings]:
    """The settings to import with: those given, or, for a dry run into an agent that has no store, the same with a
    temporary data directory under the same session key, which is removed when the block ends."""
    store = paths.agent_directory(settings.data_dir, settings.agent) / paths.STORE_FILE
    if not dry_run or not settings.enabled or store.exists():
        yield settings
        return
    from memory_sqlite.clock import Clock
    from memory_sqlite.storage import session_key

    with TemporaryDirectory(prefix="memory-sqlite-") as made:
        if (settings.data_dir / paths.SESSION_KEY_FILE).exists():
            session_key.adopt(Path(made), session_key.load(settings.data_dir), Clock())
        yield replace(settings, data_dir=Path(made))
