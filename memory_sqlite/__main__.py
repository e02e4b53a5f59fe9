"""``python -m memory_sqlite``: the same as the command ``memory-sqlite``."""

from __future__ import annotations

from memory_sqlite.cli import main

if __name__ == "__main__":
    main()
