"""Putting a backup back: into a place that is empty, or beside what is there, never over anything.

Every byte is proved before the first one takes its place. What was forgotten since the backup was made is forgotten
again, where a directory that knows of it can be read; the report says what could not be known. Holds and retention are
left to the next ``prune``, the search index is built by the first open. Called by the command.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from memory_sqlite import errors, limits, paths
from memory_sqlite.backup import earlier, files, forgetting_again, placing, verifying
from memory_sqlite.backup import manifest as manifests
from memory_sqlite.backup.earlier import RETENTION, Earlier
from memory_sqlite.backup.manifest import FileEntry, Manifest
from memory_sqlite.backup.reports import AgentCopy, CameBack, ForgottenAgain, RestoreReport
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import secret as secrets
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.storage import session_key
from memory_sqlite.storage import store as stores

Progress = Callable[[str, int, int | None], None]


def restore(
    backup: Path,
    settings: Settings,
    clock: Clock,
    progress: Progress | None = None,
    *,
    agents: Sequence[str] | None = None,
    tombstones_from: Sequence[Path] = (),
    revive: bool = False,
) -> RestoreReport:
    """Make ``settings.data_dir`` from a backup; it is there whole when this returns, and else not at all.

    ``agents`` are those to put back, by default all. ``tombstones_from`` are data directories, or later backups, in
    which to look for what was forgotten since; with ``revive`` they are only compared with, and nothing is forgotten.
    Raises ``OutputExists``, ``InvalidArgument``, ``UnknownAgent``, ``BackupInvalid``, ``StoreDamaged``, ``DiskFull``,
    ``StoreReadOnly`` and the errors of keys.
    """
    if not settings.enabled:
        return RestoreReport("disabled")
    started = clock.monotonic()
    target = settings.data_dir
    manifest = manifests.read(backup)
    secret = secrets.from_settings(settings)
    verifying.require_key(backup, manifest, secret)
    if target.resolve().is_relative_to(backup.resolve()):
        raise errors.InvalidArgument("a data directory cannot be inside the backup that it is made from")
    for place in tombstones_from:
        if not place.is_dir():
            raise errors.InvalidArgument("a directory to look for tombstones in does not exist")
    chosen, listed = _chosen(manifest, agents)
    _make_parents(target)
    if (needed := sum(entry.bytes for entry in listed)) > shutil.disk_usage(target.parent).free:
        raise errors.DiskFull(f"the disk has less room than the backup needs ({needed:,} bytes)")
    with placing.placed(target, clock, "data directory") as staged:
        work = _Restoring(backup, staged, manifest, settings, secret, clock, progress)
        work.copy(listed)
        work.check(chosen)
        work.compare(chosen, tombstones_from, revive=revive)
    return RestoreReport(
        "ok", str(backup), str(target), manifest.created_at, manifest.encrypted, tuple(work.found), len(listed),
        needed, tuple(str(place) for place in work.looked_in), tuple(work.forgotten),
        tuple(work.came_back[: limits.BACKUP_CAME_BACK_MAX]),
        max(0, len(work.came_back) - limits.BACKUP_CAME_BACK_MAX), tuple(work.unknown), work.unknown,
        round(clock.monotonic() - started, 3), tuple(work.problems),
    )  # fmt: skip


def _chosen(manifest: Manifest, agents: Sequence[str] | None) -> tuple[list[AgentCopy], list[FileEntry]]:
    """The agents to put back, and the files that takes."""
    if agents is None:
        return list(manifest.agents), list(manifest.files)
    wanted = {paths.agent_directory_name(agent): agent for agent in agents}
    there = {one.directory for one in manifest.agents}
    for directory, agent in wanted.items():
        if directory not in there:
            raise errors.UnknownAgent(f"there is no agent named {agent!r} in the backup")
    left_out = {manifests.store_name(directory) for directory in there - set(wanted)}
    return (
        [one for one in manifest.agents if one.directory in wanted],
        [one for one in manifest.files if one.name not in left_out],
    )


def _make_parents(target: Path) -> None:
    try:
        for folder in reversed(target.parents):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise errors.StoreReadOnly(f"the folder of the data directory cannot be made ({error.strerror})") from error


class _Restoring:
    """One restore, while it is under way in a directory beside its place."""

    def __init__(
        self,
        backup: Path,
        staged: Path,
        manifest: Manifest,
        settings: Settings,
        secret: Secret | None,
        clock: Clock,
        progress: Progress | None,
    ) -> None:
        self._backup = backup
        self._staged = staged
        self._manifest = manifest
        self._settings = settings
        self._secret = secret
        self._clock = clock
        self._progress = progress
        self._key = b""
        self.found: list[AgentCopy] = []
        self.looked_in: list[Path] = []
        self.forgotten: list[ForgottenAgain] = []
        self.came_back: list[CameBack] = []
        self.unknown: dict[str, int] = {}
        self.problems: list[str] = []

    def copy(self, listed: list[FileEntry]) -> None:
        """Every file, read once: what is written is what was held against the manifest."""
        total, done = sum(entry.bytes for entry in listed), 0

        def heard(count: int) -> None:
            nonlocal done
            done += count
            if self._progress is not None:
                self._progress("copying", min(done, total), total)

        for entry in listed:
            target = self._staged / entry.name
            for folder in (target.parent.parent, target.parent):
                if folder.is_relative_to(self._staged) and not folder.is_dir():
                    folder.mkdir(mode=0o700)
            descriptor = files.create(target)
            try:
                read = files.digest(self._backup, entry.name, entry.bytes, heard, into=descriptor)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if read != (entry.bytes, entry.sha256):
                raise errors.BackupInvalid(f"{entry.name} is not what it was when the backup was made")

    def check(self, chosen: list[AgentCopy]) -> None:
        """Every store, opened with its key."""
        self._key = session_key.load(self._staged)
        if session_key.fingerprint(self._key) != self._manifest.session_key:
            raise errors.BackupInvalid("session.key is not the one that the manifest names")
        for number, copy in enumerate(chosen):
            if self._progress is not None:
                self._progress("checking", number, len(chosen))
            self.found.append(verifying.check_copy(self._staged, copy, self._key, self._secret, self._clock))

    def compare(self, chosen: list[AgentCopy], places: Sequence[Path], *, revive: bool) -> None:
        """Forget again what those directories say was forgotten, and list what they had no longer."""
        for copy, found in zip(chosen, self.found, strict=True):
            agent = found.agent or copy.directory
            known = [one for place in places if (one := self._earlier(place, copy.directory)) is not None]
            if not known or found.agent is None:
                self.unknown[agent] = self._manifest.created_at
                continue
            ends = [one.until for one in known if one.until is not None]
            if len(ends) == len(known):  # later backups alone: each knows as much as there was when it was made
                self.unknown[agent] = max(ends)
            self._compare(found.agent, known, revive=revive)

    def _earlier(self, place: Path, directory: str) -> Earlier | None:
        try:
            until = manifests.read(place).created_at if manifests.is_backup(place) else None
            if until is not None and until <= self._manifest.created_at:
                raise errors.InvalidArgument("it is a backup made no later than the one to be restored")
            found = earlier.read(place, directory, self._key, self._secret, self._clock, until)
        except errors.MemorySqliteError as error:
            self.problems.append(f"{place}: {directory}: {error.message} ({error.code})")
            return None
        if found is not None and place not in self.looked_in:
            self.looked_in.append(place)
        return found

    def _compare(self, agent: str, known: list[Earlier], *, revive: bool) -> None:
        secret = self._secret if self._manifest.encrypted else None
        store = stores.open_for_writing(self._staged, agent, self._clock, secret)
        try:
            if not revive:
                tombs = [tomb for one in known for tomb in one.tombs if tomb.reason != RETENTION]
                self.forgotten.append(forgetting_again.apply(store, tombs, self._settings, self._clock))
            self.came_back += earlier.came_back(store.connection, agent, [one.had for one in known])
        finally:
            store.close()
        files.sync(store.directory / paths.STORE_FILE)
