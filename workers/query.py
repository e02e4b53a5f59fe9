"""The query process: runs SQL that others wrote, over one store and over files, and can change nothing.

``python -m memory_sqlite.workers.query``, started by ``query.asking``; frames on standard input and output.
"""

from __future__ import annotations

from memory_sqlite.query.serving import serve

if __name__ == "__main__":
    serve()
