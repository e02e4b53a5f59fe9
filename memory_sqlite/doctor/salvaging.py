"""Salvage from settings: which keys a damaged store may have, and trying them. Called by the command line.

The usual way to a store's key looks whether it opens the store's first page, which may be what is damaged. Here every
key of the keyring is tried on all pages. Not here: reading pages and rows (``salvage``).
"""

from __future__ import annotations

from pathlib import Path

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import derivation, keyring, keyring_file, secret
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor.place import keys_stay
from memory_sqlite.doctor.salvage import Progress, SalvageReport, salvage
from memory_sqlite.storage import session_key, unlocking


def salvage_agent(settings: Settings, clock: Clock, out: Path, progress: Progress | None = None) -> SalvageReport:
    """Salvage the store of the agent that ``settings`` names into the new data directory ``out``.

    Raises what ``salvage`` raises; of a keyring ``EncryptionKeyRequired``, ``EncryptionKeyWrong``, ``KeyringDamaged``;
    ``SessionKeyMissing`` and ``SessionKeyInvalid`` where there is a keyring, since it opens nothing without its own;
    ``DirectoryInUse`` while keys are being changed.
    """
    directory = paths.agent_directory(settings.data_dir, settings.agent)
    with keys_stay(settings.data_dir):
        keys = _keys(settings, directory)
        for key in keys[:-1]:
            try:
                return salvage(directory, out, key, progress, clock)
            except (errors.StoreDamaged, errors.EncryptionKeyWrong):
                pass  # not this one: nothing was readable with it
        return salvage(directory, out, keys[-1], progress, clock)


def _keys(settings: Settings, directory: Path) -> list[FileKey | None]:
    """Those the store may have, the most likely first. Without a keyring it is in clear, or nothing opens it."""
    ring = keyring_file.load(settings.data_dir)
    if ring is None:
        return [None]
    if ring.session_key != derivation.fingerprint(session_key.load(settings.data_dir)):
        raise errors.KeyringDamaged("keyring.json was made for another data directory than this session.key")
    chosen = secret.from_settings(settings)
    if chosen is None:
        raise errors.EncryptionKeyRequired("the data directory is encrypted and no key is configured")
    return unlocking.candidates(keyring.unlock(ring, chosen.read()), directory)
