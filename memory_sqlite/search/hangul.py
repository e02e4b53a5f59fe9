"""Korean words in a query: where the word ends and its particle or ending begins.

Lives here: the endings, and which part of a run of Hangul is the word. Korean writes particles onto words (``회의는``,
``회의를``, ``회의에서``), so the same word has many forms; the index keeps characters and pairs of all of them, and a
query must not look for the endings as if they were words. Not here: tokens (``tokens``), weights (``query``, the only
caller). No dictionary and no morphology: an ending is cut only from what is longer than it, and what was cut still
counts a little, so that a word that merely looks like one (``고양이``, ``가을에는``) is found as well.
"""

from __future__ import annotations

from typing import Final

_LONG: Final = tuple(
    sorted(
        """에서는 에서도 에서의 으로는 으로도 에게서 까지는 부터는 이라는 이라고 에서 으로 에게 한테 까지 부터 이랑
        하고 처럼 보다 마다 조차 에는 에도 께서 께서는
        인가요 입니까 입니다 이에요 예요 나요 까요 니까 니다 어요 아요 해요 하나요 했나요 합니까 합니다 했습니다
        되나요 됐나요 되었나요 되었어 됐어 였나요 였지 였더라 뭐였지 인지 이야 인가 했지 했어 하지 한다 했다 하는 하던
        할까 하면 하려면 해야 시나요 시는""".split(),  # noqa: SIM905 - read as words, not as a list
        key=len,
        reverse=True,
    )
)
_SHORT: Final = frozenset("은는이가을를의에도로와과만랑")


def word_length(run: str) -> int:
    """How many characters of a run without spaces are the word; all of them where no ending is known.

    At least one character stays before a longer ending, and two before one of a single character: ``집에서`` is
    ``집``, ``회의`` is whole.
    """
    if not "\uac00" <= run[-1] <= "\ud7a3":
        return len(run)
    for ending in _LONG:
        if run.endswith(ending) and len(run) > len(ending):
            return len(run) - len(ending)
    return len(run) - 1 if len(run) > 2 and run[-1] in _SHORT else len(run)


def is_ending(run: str) -> bool:
    """Whether a whole run is a particle or an ending."""
    return run in _SHORT or run in _LONG
