"""Encrypt, decrypt and rotate: one change over a whole data directory, written into the keyring while it goes on.

Not here: one agent's files (``agent_files``), another passphrase (``passphrase``). Called by the command line, and by
hosts that change keys themselves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import derivation, directory_lock, keyring, keyring_file
from memory_sqlite.crypto import secret as secrets
from memory_sqlite.crypto.file_key import CIPHERS, Cipher, FileKey
from memory_sqlite.crypto.keyring import Change, Keyring, Unlocked
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.rekeying import agent_files, backups
from memory_sqlite.rekeying.agent_files import Keys
from memory_sqlite.rekeying.reports import NEW, Action, AgentChange, KeyReport, Progress
from memory_sqlite.storage import headers, session_key, unlocking
from memory_sqlite.storage import store as stores
from memory_sqlite.values import dataclass

_ROOM: Final = 4 * 1024 * 1024
"""Bytes that must be free beside the copy of the largest agent: keyring, directory entries, side files."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """``unlocked`` is the keyring as it will be while the change goes on; ``todo`` the agents that have another key."""

    action: Action
    unlocked: Unlocked
    source: str | None
    target: str | None
    todo: tuple[tuple[Path, Keys], ...]
    done: tuple[tuple[Path, Keys], ...]
    resumed: bool
    nothing: bool


def encrypt(
    settings: Settings,
    *,
    wait_s: float = 0.0,
    dry_run: bool = False,
    backup_paths: Sequence[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> KeyReport:
    """Encrypt everything in ``settings.data_dir`` with the key that the settings name; goes on where one was begun.

    Waits ``wait_s`` seconds for others to close it. ``backup_paths`` are looked at for the keys they need. Raises
    ``InvalidConfiguration`` without a key, ``DirectoryInUse``, ``DiskFull``, ``StoreReadOnly``, and what is refused of
    the directory's keys; then everything opens as before, or with either key while the change is under way.
    """
    work = _Work(settings, clock or Clock(), progress)
    return work.run("encrypt", wait_s, dry_run, backup_paths, None)


def decrypt(
    settings: Settings,
    *,
    wait_s: float = 0.0,
    dry_run: bool = False,
    backup_paths: Sequence[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> KeyReport:
    """Put everything in clear again and take the keyring away. As ``encrypt``, which can be taken back so."""
    work = _Work(settings, clock or Clock(), progress)
    return work.run("decrypt", wait_s, dry_run, backup_paths, None)


def rotate(
    settings: Settings,
    *,
    cipher: Cipher | None = None,
    wait_s: float = 0.0,
    dry_run: bool = False,
    backup_paths: Sequence[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> KeyReport:
    """Encrypt everything anew with a new random data key, wrapped under the same key of the user. As ``encrypt``.

    ``cipher`` is the new files', by default that of the old ones.
    """
    if cipher is not None and cipher not in CIPHERS:
        raise errors.InvalidArgument(f"cipher must be {' or '.join(CIPHERS)}")
    work = _Work(settings, clock or Clock(), progress)
    return work.run("rotate", wait_s, dry_run, backup_paths, cipher)


def required_secret(settings: Settings) -> Secret:
    """Where the user's key comes from. Raises ``InvalidConfiguration`` when the settings name none."""
    secret = secrets.from_settings(settings)
    if secret is None:
        raise errors.InvalidConfiguration(
            "no key is configured",
            hint="Set encryption_key_env, encryption_key_file or encryption_key_command.",
        )
    secret.read()
    return secret


def refuse_read_only(data_dir: Path) -> None:
    """Raise ``UnknownAgent`` where there is no data directory, ``StoreReadOnly`` where nothing can be written,
    ``InvalidArgument`` for a backup."""
    if not data_dir.is_dir():
        raise errors.UnknownAgent("there is no data directory", hint="Check the spelling of --data-dir.")
    if not os.access(data_dir, os.W_OK):
        raise errors.StoreReadOnly("the data directory cannot be written, so its keys cannot be changed")
    stores.refuse_backup(data_dir)


class _Work:
    def __init__(self, settings: Settings, clock: Clock, progress: Progress | None) -> None:
        self._data_dir = settings.data_dir
        self._clock = clock
        self._progress = progress
        self._secret = required_secret(settings)

    def run(
        self,
        action: Action,
        wait_s: float,
        dry_run: bool,
        backup_paths: Sequence[str | os.PathLike[str]],
        cipher: Cipher | None,
    ) -> KeyReport:
        refuse_read_only(self._data_dir)
        with_lock = directory_lock.alone(self._data_dir, wait_s)
        try:
            plan = self._plan(action, cipher)
            free_needed = self._free_needed(plan)
            if dry_run or plan.nothing:
                status = "nothing" if plan.nothing else "planned"
                agents = tuple(
                    AgentChange(directory.name, keys.was, agent_files.size(directory)) for directory, keys in plan.todo
                )
            else:
                self._refuse_full(free_needed)
                keyring_file.sweep(self._data_dir)
                agents, status = self._carry_out(plan), "done"
        finally:
            with_lock.close()
        ring = plan.unlocked.ring
        target = None if plan.target is None else ring.key(plan.target)
        # what is made anew has no name before it is there: that of a plan would be another one's
        made = status == "planned" and target is not None and not plan.resumed and action != "decrypt"
        before = keyring_file.load(self._data_dir) if made else ring
        known = before is not None and any(one.id == plan.target for one in before.keys)
        return KeyReport(
            action,
            status,  # type: ignore[arg-type]
            plan.source,
            NEW if made and not known else plan.target,
            None if target is None else target.cipher,
            None if target is None else NEW if before is None else ring.user_key,
            agents,
            len(plan.done),
            plan.resumed,
            free_needed,
            backups.look(backup_paths, None if plan.target is None else ring, plan.target),
        )

    # --- what is to be done ----------------------------------------------------------------------------------------

    def _plan(self, action: Action, cipher: Cipher | None) -> _Plan:
        own = session_key.load(self._data_dir)
        ring = keyring_file.load(self._data_dir)
        if ring is None:
            return self._first(action, own)
        if ring.session_key != derivation.fingerprint(own):
            raise errors.KeyringDamaged("keyring.json was made for another data directory than this session.key")
        unlocked = keyring.unlock(ring, self._secret.read())
        pending = ring.change
        source = ring.current if pending is None else pending.source
        if action == "rotate":
            rotating = pending is not None and None not in (pending.source, pending.target)
            if pending is not None and not rotating:
                raise errors.InvalidArgument(
                    "the directory is being encrypted or decrypted; that must come to its end before a rotation",
                    hint="`memory-sqlite key encrypt` or `memory-sqlite key decrypt` goes on.",
                )
            if pending is None:
                assert ring.current is not None, "without a change a keyring has a current key"
                chosen = cipher or ring.key(ring.current).cipher
                unlocked, target = unlocked.with_new_key(chosen, self._clock.token_bytes)
                return self._planned(action, unlocked, source, target, resumed=False)
            return self._planned(action, unlocked, source, pending.target, resumed=True)
        if action == "decrypt":
            return self._planned(action, unlocked, source, None, resumed=pending is not None and pending.target is None)
        wanted = ring.current if pending is None or pending.target is None else pending.target
        wanted = wanted if wanted is not None else ring.keys[-1].id
        return self._planned(
            action, unlocked, source, wanted, resumed=pending is not None and pending.target is not None
        )

    def _first(self, action: Action, own: bytes) -> _Plan:
        """Without a keyring: to be encrypted for the first time, or in clear anyhow."""
        for name, path in unlocking.files(self._data_dir):
            if headers.kind(path) == "encrypted":
                raise errors.KeyringMissing(f"{name} is encrypted, or no database, and keyring.json is not there")
        bare = keyring.create(
            derivation.fingerprint(own),
            self._secret.read(),
            passphrase=self._secret.passphrase,
            random=self._clock.token_bytes,
        )
        unlocked, target = bare.with_new_key(self._secret.cipher, self._clock.token_bytes)
        if action == "encrypt":
            return self._planned(action, unlocked, None, target, resumed=False)
        if action == "decrypt":
            return _Plan(action, unlocked, None, None, (), (), False, True)
        raise errors.StoreNotEncrypted("the data directory is in clear; there is no key to rotate")

    def _planned(
        self, action: Action, unlocked: Unlocked, source: str | None, target: str | None, *, resumed: bool
    ) -> _Plan:
        pending = unlocked.ring.change
        if source == target and pending is not None:  # a change is taken back
            source = pending.target
        change = Change(source, target)
        if not unlocking.may_be_clear(change):
            clear = [name for name, path in unlocking.files(self._data_dir) if headers.kind(path) == "plain"]
            if clear and action == "rotate":
                raise errors.EncryptionMixed(
                    f"the data directory is encrypted, but {len(clear)} of its files are in clear"
                    f" (the first is {clear[0]}); nothing was changed"
                )
            if clear:
                change = Change(None, target)  # a rotation that did not end becomes an encryption
        trying = unlocked.changed(unlocked.ring.current, change)
        todo: list[tuple[Path, Keys]] = []
        done: list[tuple[Path, Keys]] = []
        for directory in unlocking.agent_directories(self._data_dir):
            if headers.kind(directory / paths.STORE_FILE) in ("absent", "empty"):
                continue
            keys = Keys(self._key_now(trying, directory), unlocking.key_of(trying, target, directory))
            agent_files.check(directory, keys.old)
            (done if keys.was == target else todo).append((directory, keys))
        settled = unlocked.ring.change is None and unlocked.ring.current == target and action != "rotate"
        leftovers = any(self._has_leftovers(directory, keys) for directory, keys in done)
        nothing = settled and not todo and not leftovers and keyring_file.load(self._data_dir) is not None
        return _Plan(action, trying, source, target, tuple(todo), tuple(done), resumed, nothing)

    @staticmethod
    def _key_now(trying: Unlocked, directory: Path) -> FileKey | None:
        found = unlocking.which(trying, directory)
        if isinstance(found, str):
            raise errors.StoreDamaged(
                f"the store of {directory.name} can be read with none of the keys in keyring.json; nothing was changed",
                hint="`memory-sqlite doctor --deep` says what is wrong with it.",
            )
        return found

    @staticmethod
    def _has_leftovers(directory: Path, keys: Keys) -> bool:
        """Whether a generation in another state than its store's lies beside it, as a kill leaves one."""
        wanted = "plain" if keys.new is None else "encrypted"
        return any(headers.kind(path) != wanted for path in unlocking.generation_files(directory))

    @staticmethod
    def _free_needed(plan: _Plan) -> int:
        return max((agent_files.size(directory) for directory, _ in plan.todo), default=0) + _ROOM

    def _refuse_full(self, needed: int) -> None:
        try:
            status = os.statvfs(self._data_dir)
        except OSError:
            return
        free = status.f_bavail * status.f_frsize
        if free < needed:
            raise errors.DiskFull(
                f"the change needs {needed} bytes of free disk for a while and there are {free}; nothing was changed"
            )

    # --- doing it --------------------------------------------------------------------------------------------------

    def _carry_out(self, plan: _Plan) -> tuple[AgentChange, ...]:
        self._place(plan.unlocked.ring)
        total, agents = len(plan.todo), []
        for number, (directory, keys) in enumerate(plan.todo):
            self._tell("agents", number, total)
            agents.append(agent_files.change(directory, keys, self._clock.now_ms(), self._step))
        self._tell("agents", total, total)
        for directory, keys in plan.done:
            agent_files.finished(directory, keys.new)
        if plan.target is None:
            keyring_file.remove(self._data_dir)
        else:
            self._place(plan.unlocked.changed(plan.target, None, keep=(plan.target,)).ring)
        return tuple(agents)

    def _place(self, ring: Keyring) -> None:
        keyring_file.place(self._data_dir, ring, self._clock.token_bytes)

    def _step(self, what: str) -> None:
        self._tell(what, 0, None)

    def _tell(self, stage: str, done: int, total: int | None) -> None:
        if self._progress is not None:
            self._progress(stage, done, total)
