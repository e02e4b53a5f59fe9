"""Making a backup: every agent's store, ``session.key``, the wrapped keyring, and a manifest of it all.

It is laid out as a data directory is, so that the same keys open it and a person can see what is what. Not here: how
one store is copied (``copying``), how the directory gets its name (``placing``). Called by the door and the command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from memory_sqlite import errors, limits, paths
from memory_sqlite.backup import copying, files, placing
from memory_sqlite.backup import manifest as manifests
from memory_sqlite.backup.manifest import FileEntry, Manifest
from memory_sqlite.backup.reports import AgentCopy, BackupReport
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import directory_lock
from memory_sqlite.crypto import secret as secrets
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.storage import session_key, unlocking
from memory_sqlite.storage import store as stores

Progress = Callable[[str, int, int | None], None]


def make(
    settings: Settings,
    target: Path,
    clock: Clock,
    progress: Progress | None = None,
    *,
    agents: Sequence[str] | None = None,
) -> BackupReport:
    """Write a backup of a data directory to a new directory; it is there whole when this returns, and else not at all.

    Others may write meanwhile: each store shows one moment. ``agents`` are the agents to take, by default all.
    Raises ``OutputExists``, ``InvalidArgument``, ``UnknownAgent``, ``DiskFull``, ``StoreReadOnly``, ``DirectoryInUse``
    while keys are being changed, the errors of keys, and ``StoreDamaged`` for a store that is: nothing is backed up
    that could not be restored.
    """
    if not settings.enabled:
        return BackupReport("disabled")
    started = clock.monotonic()
    data_dir = settings.data_dir
    _refuse_place(data_dir, target)
    names = _chosen(data_dir, agents)
    held = directory_lock.hold(data_dir)
    try:
        with placing.placed(target, clock, "backup") as place:
            made, problems = _Making(data_dir, place, secrets.from_settings(settings), clock, progress).run(names)
    finally:
        held.close()
    return BackupReport(
        "partial" if problems else "ok",
        str(target),
        made.created_at,
        made.encrypted,
        made.key_ids,
        made.agents,
        len(made.files) + 1,
        made.bytes + (target / manifests.NAME).stat().st_size,
        round(clock.monotonic() - started, 3),
        tuple(problems),
    )


def _refuse_place(data_dir: Path, target: Path) -> None:
    if manifests.is_backup(data_dir):
        raise errors.InvalidArgument(
            "the data directory is itself a backup",
            hint="Copy it as any directory; `memory-sqlite verify` proves the copy.",
        )
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise errors.InvalidArgument("a backup inside the data directory would be lost with it")


def _chosen(data_dir: Path, agents: Sequence[str] | None) -> list[str]:
    """The names of the agents' directories."""
    there = stores.agents(data_dir)
    if agents is None:
        if not there:
            raise errors.UnknownAgent("there is no memory in the data directory yet")
        return there
    wanted = [paths.agent_directory_name(agent) for agent in agents]
    for agent, directory in zip(agents, wanted, strict=True):
        if directory not in there:
            raise errors.UnknownAgent(f"there is no memory of an agent named {agent!r}")
    return sorted(set(wanted))


class _Making:
    """One backup, while it is made."""

    def __init__(
        self, data_dir: Path, place: Path, secret: Secret | None, clock: Clock, progress: Progress | None
    ) -> None:
        self._data_dir = data_dir
        self._place = place
        self._secret = secret
        self._clock = clock
        self._progress = progress
        self._key = session_key.load(data_dir)
        self._keys: list[FileKey] = []
        self._done = self._total = 0

    def run(self, names: list[str]) -> tuple[Manifest, list[str]]:
        created_at = self._clock.now_ms()
        folder = self._data_dir / paths.AGENTS_DIRECTORY
        (self._place / paths.AGENTS_DIRECTORY).mkdir(mode=0o700)
        whole, problems = [], []
        for name in names:
            if manifests.AGENT_DIRECTORY.fullmatch(name) is None:  # a copy that somebody made beside
                problems.append(f"{name}: no agent's folder is called so; it was left out")
            elif (folder / name / paths.STORE_FILE).stat().st_size:
                whole.append(name)
                self._total += (folder / name / paths.STORE_FILE).stat().st_size
            else:  # what a crash leaves between making the file and its tables
                problems.append(f"{name}: the store is empty and was left out")
        copies = [self._copy(name) for name in whole]
        if self._progress is not None:
            self._progress("copying", self._total, self._total)
        files.write_whole(self._place / paths.SESSION_KEY_FILE, self._key)
        entries = [self._entry(paths.SESSION_KEY_FILE, limits.SESSION_KEY_BYTES)]
        if self._keys:
            ring = files.read_small(self._data_dir, paths.KEYRING_FILE, limits.KEYRING_MAX_BYTES)
            files.write_whole(self._place / paths.KEYRING_FILE, ring)
            entries.append(self._entry(paths.KEYRING_FILE, limits.KEYRING_MAX_BYTES))
        for copy in copies:
            name = manifests.store_name(copy.directory)
            entries.append(self._entry(name, (self._place / name).stat().st_size))
        ids = tuple(sorted({key.key_id for key in self._keys}))
        made = Manifest(created_at, session_key.fingerprint(self._key), ids, tuple(copies), tuple(entries))
        files.write_whole(self._place / manifests.NAME, manifests.encode(made))
        manifests.read(self._place)  # what cannot be read back is no backup
        return made, problems

    def _copy(self, name: str) -> AgentCopy:
        source = self._data_dir / paths.AGENTS_DIRECTORY / name
        target = self._place / paths.AGENTS_DIRECTORY / name
        if source.is_symlink() or (source / paths.STORE_FILE).is_symlink():
            raise errors.StoreDamaged(f"{name}: memory.sqlite is not a regular file")
        key = unlocking.look(self._data_dir, source, self._secret).file_key(self._key, self._clock, write=False)
        target.mkdir(mode=0o700)
        try:
            found = copying.copy_store(
                source / paths.STORE_FILE, target / paths.STORE_FILE, name, self._key, key, self._heard
            )
        except errors.StoreDamaged as error:
            raise errors.StoreDamaged(
                f"{name}: {error.message}; no backup was made",
                hint="`memory-sqlite doctor --agent` says more; the other agents can be backed up with --agent.",
            ) from error
        self._done += (source / paths.STORE_FILE).stat().st_size
        if key is None:
            return found
        self._keys.append(key)
        # the id is in no file of an encrypted data directory in clear, and shall not be in a backup's manifest
        return AgentCopy(found.directory, None, found.schema, found.counts)

    def _heard(self, copied: int) -> None:
        if self._progress is not None:
            self._progress("copying", min(self._done + copied, self._total), self._total)

    def _entry(self, name: str, most: int) -> FileEntry:
        size, summed = files.digest(self._place, name, most)
        return FileEntry(name, size, summed)
