"""Where a pass over notes or messages is prepared: in this process as long as it is small, by workers beyond that.

Both ways run the functions of ``processes.prepare``. Lives here: when workers are worth starting, and ending them. Not
here: asking them, and what becomes of one that is lost (``processes.preparation``). Called by ``notes``, ``rebuild``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

from memory_sqlite.limits import PREPARATION_AFTER_BYTES
from memory_sqlite.processes import prepare
from memory_sqlite.processes.prepare import ChunkWords, PreparedNote, WordsOf

if TYPE_CHECKING:
    from memory_sqlite.processes.preparation import Preparation
    from memory_sqlite.processes.prepared import Note

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def notes(read: Iterable[Note], *, redact: bool, workers: bool = True) -> Iterator[Iterator[PreparedNote]]:
    """Notes prepared, in the order given, as they are taken. ``read`` is asked ahead of that once workers do it.

    Without ``workers`` each is read when it is taken, however many they are: for a pass that may end at any of them.
    """
    with closing(
        _prepared(
            read,
            lambda note: len(note[1]),
            lambda note: prepare.prepare_note(*note, redact=redact),
            lambda preparation, rest: preparation.notes(rest, redact=redact),
            workers,
        )
    ) as made:
        yield made


@contextmanager
def words(documents: Iterable[WordsOf]) -> Iterator[Iterator[tuple[ChunkWords, ...]]]:
    """The words of documents, in the order given; ``documents`` is asked ahead of that once workers make them."""
    with closing(
        _prepared(
            documents,
            lambda document: document.size,
            prepare.words,
            lambda preparation, rest: preparation.words(rest),
            True,
        )
    ) as made:
        yield made


def _prepared(
    work: Iterable[T],
    size: Callable[[T], int],
    here: Callable[[T], R],
    there: Callable[[Preparation, Iterator[T]], Iterator[R]],
    workers: bool,
) -> Generator[R, None, None]:
    rest = iter(work)
    done = 0
    for one in rest:
        yield here(one)
        done += size(one)
        if workers and done >= PREPARATION_AFTER_BYTES:
            break
    else:
        return
    # only a large pass pays for loading what starts processes
    from memory_sqlite.processes.preparation import Preparation

    with closing(Preparation()) as preparation:
        yield from there(preparation, rest) if preparation.available else map(here, rest)
