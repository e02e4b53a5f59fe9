"""Notes outside of the workspace under a name that tells nothing of the machine.

An extra path elsewhere is indexed by its absolute path. What leaves this process names it ``extra-<12 hex>/<rest>``:
a keyed digest of the place and what lies below it, which only this store can make, and which leads back only to places
that are configured. Not here: which files are notes (``sources``). Called by what gives paths to a host.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import Final

from memory_sqlite.agent.opened import Opened
from memory_sqlite.sources.discovery import locate_extra

_SHOWN: Final = re.compile(r"^(extra-[0-9a-f]{12})/(.+)$", re.DOTALL)


class OutsideNotes:
    """The configured places of one agent that lie outside of its workspace."""

    def __init__(self, opened: Opened) -> None:
        self._key = opened.store.key
        self._places: dict[str, str] = {}
        if opened.workspace is not None:
            root = os.path.abspath(opened.workspace)  # noqa: PTH100 - `resolve` would follow links
            for extra in opened.settings.extra_paths:
                prefix = locate_extra(root, extra.path)[2]
                if prefix:
                    self._places[self._name(prefix)] = prefix

    def _name(self, prefix: str) -> str:
        digest = blake2b(os.fsencode(prefix), digest_size=6, key=self._key)
        return f"extra-{digest.hexdigest()}"

    def hide(self, path: str) -> str:
        """The path as others may know it; one inside of the workspace, and a virtual one, stays as it is."""
        if not path.startswith("/"):
            return path
        for name, prefix in self._places.items():
            if path.startswith(prefix):
                return f"{name}/{path[len(prefix) :]}"
        folder, _, last = path.rpartition("/")  # no longer configured: it leads nowhere, and still tells nothing
        return f"{self._name(folder + '/')}/{last}"

    def find(self, shown: str) -> str:
        """The path that ``hide`` made this of; anything else stays as it is."""
        match = _SHOWN.match(shown)
        if match is None or match[1] not in self._places:
            return shown
        return self._places[match[1]] + match[2]
