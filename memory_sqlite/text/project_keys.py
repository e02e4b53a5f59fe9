"""Project keys, compared: one form for all places that ask whether two keys name one project.

Not here: what a key may hold (``transcripts.sessions``), the token it has in an index (``generations.layout``). Called
by that and by ``search.rank``. Pure.
"""

from __future__ import annotations

import unicodedata


def project_key(project: str) -> str:
    """A key without white space around it, without case, composed (Unicode's NFC): a key typed on one system and read
    from a directory's name on another is the same key.

    Composed again after folding, because folding takes some letters apart.
    """
    key = project.strip()
    if key.isascii():
        return key.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", key).casefold())
