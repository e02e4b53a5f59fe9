"""Changing the keys of a data directory: encrypt, decrypt, rotate, change the passphrase; and saying how they are.

The whole directory, agent by agent, while nobody else has it open. Killed at any moment it leaves a directory that
opens, and the same call goes on.
"""

from memory_sqlite.rekeying.passphrase import change_passphrase
from memory_sqlite.rekeying.reports import AgentChange, KeyFile, KeyReport, KeyStatus
from memory_sqlite.rekeying.run import decrypt, encrypt, rotate
from memory_sqlite.rekeying.state import status

__all__ = [
    "AgentChange",
    "KeyFile",
    "KeyReport",
    "KeyStatus",
    "change_passphrase",
    "decrypt",
    "encrypt",
    "rotate",
    "status",
]
