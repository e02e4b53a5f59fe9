"""One exception that parent and worker both know."""

from __future__ import annotations


class Gone(Exception):
    """A generation is not there (any more), or is just being taken away: ask which number is current.

    If that has changed, ask there; if it has not, the index is unavailable. No error of the catalogue, because nobody
    outside of this package ever gets it.
    """
