"""A person's own sentences in a message: without code, quotations, quoted blocks and material given to work on.

Positions stay those of the message: what is not the person's own speech is covered by a filler of equal length, so
that rules match on the covered text and facts are cut from the original. Knows no languages beyond the words that
introduce foreign material. Called by the rule modules of ``layers.standard``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory_sqlite.values import dataclass

FILLER: Final = "\ufffc"
_WRAP_MIN: Final = 60
"""A line at least this long that ends without punctuation goes on in the next line (hard-wrapped text)."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence as half-open code point positions in the message; ``question`` says that it ends with one."""

    start: int
    end: int
    question: bool


_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_QUOTED: Final = re.compile(
    r'"[^"\n]{1,1000}"|“[^“”]{1,1000}”|„[^„“”]{1,1000}[“”]|«[^«»]{1,1000}»|「[^「」]{1,1000}」|『[^『』]{1,1000}』'
    r"|`[^`\n]{1,1000}`|(?<![\w'])'(?=\S)[^'\n]{2,300}(?:'(?=\w)[^'\n]{1,300}){0,8}'(?!\w)"
    r"|‘[^‘’\n]{2,300}(?:’(?=\w)[^‘’\n]{1,300}){0,8}’(?!\w)"
)
_GIVEN: Final = re.compile(
    r"translat|rewrit|rephras|paraphras|summar|proofread|grammar|correct|\bfix\b|edit|quot|lyric|review|\bsays?\b|said"
    r"|wrote|writes|replied|told me|asked|following|below|e-?mail|letter|\btext\b|sentence|paragraph|story|poem|message"
    r"|transcript|example|翻译|翻譯|改写|润色|总结|概括|以下|下面|原文|写道|说|說|例如|例子|歌词"
    r"|邮件|訳|要約|添削|次の|例文|言った|書いた",
    re.IGNORECASE,
)
_ABOUT_ME: Final = re.compile(r"remember|about me|\bmy\b|\bnote\b|记住|关于我|覚えて|私について", re.IGNORECASE)
_SUPPOSING: Final = re.compile(
    r"[\s*_#>-]*(?:(?:let'?s|let us|just|please|now)\s+)?(?:suppose|supposing|imagine|pretend"
    r"|assume|hypothetically|say (?:i|that|my)\b"
    r"|role-?play|act as\b|假设|假如|假装|想象|设想|扮演|仮に|もしも|想像して)",
    re.IGNORECASE,
)
_SPEAKER: Final = re.compile(
    r"[ \t]*(?:\[[^\]\n]{1,40}\][ \t]*)?(?:assistant|user|human|ai|bot|system)[ \t]*[:：]", re.IGNORECASE
)
_LIST_MARK: Final = re.compile(r"[ \t]*(?:[-*•+]|\d{1,3}[.)、])[ \t]+")


def _cover(pieces: list[str], start: int, end: int) -> None:
    for index in range(start, end):
        if pieces[index] != "\n":
            pieces[index] = FILLER


def own_speech(text: str) -> str:
    """``text`` with everything that is not the person's own assertion covered by a filler, character for character."""
    pieces = list(text)
    fence: str | None = None
    given = False
    position = 0
    for line in text.split("\n"):
        end = position + len(line)
        mark = _FENCE.match(line)
        if fence is not None:
            _cover(pieces, position, end)
            if mark is not None and mark.group(1) == fence:
                fence = None
        elif mark is not None:
            fence = mark.group(1)
            _cover(pieces, position, end)
        elif not line.strip():
            given = False
        elif given or line.lstrip().startswith((">", "＞")) or _SPEAKER.match(line) is not None:
            _cover(pieces, position, end)
        else:
            introduces = line.rstrip().endswith((":", "：")) and _GIVEN.search(line) is not None
            supposes = _SUPPOSING.match(line) is not None
            given = (introduces and _ABOUT_ME.search(line) is None) or supposes
            if supposes:
                _cover(pieces, position, end)
        position = end + 1
    covered = "".join(pieces)
    return _QUOTED.sub(lambda match: re.sub(r"[^\n]", FILLER, match.group()), covered)


# a full stop ends a sentence before white space or the end, so not inside v1.2 or a file name
_END: Final = re.compile(
    r"[。！？]+|[!?]+(?=$|[\s)\]\"'”’」』\ufffc]|[^\x00-\x7f])|\.+(?=$|[\s)\]\"'”’」』\ufffc])|…+"
    r"|[\n\r\u2028\u2029\v\f]"
)
_ABBREVIATED: Final = re.compile(r"\b(?:mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|approx)$", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"[ \t]*\d{1,3}$")
_UNFINISHED: Final = re.compile(r"\b(?:that|said|says|if|because|when|whether|unless)$", re.IGNORECASE)
# an initial ("J. Doe"), but not the end of "vitamin C." before a new sentence about oneself
_INITIAL: Final = re.compile(r"(?:^|[\s.])[A-Z]\. (?!I\b|My\b)[A-Z]")


def _goes_on(covered: str, start: int, at: int, mark: str) -> bool:
    """Whether the terminator at ``at`` does not end the sentence that began at ``start``."""
    if mark == ".":
        if covered[at + 1 : at + 2] != " ":
            return False
        if _NUMBERED.match(covered, start, at) is not None:
            return True
        tail = covered[max(start, at - 8) : at]
        return _ABBREVIATED.search(tail) is not None or _INITIAL.match(covered, max(start, at - 2)) is not None
    if mark in "\n\r":
        line_start = covered.rfind("\n", start, at) + 1 or start
        before = covered[at - 1 : at]
        following = covered[at + 1 : at + 40]
        if _UNFINISHED.search(covered, max(line_start, at - 12), at) is not None:
            return bool(following.strip())
        if at - line_start < _WRAP_MIN or not (before.isalnum() or before == ","):
            return False
        return bool(following.strip()[:1].isalnum()) and following[:1] != "\n" and _LIST_MARK.match(following) is None
    return False


def sentences(covered: str) -> Iterator[Sentence]:
    """The sentences of a covered text, without list marks and outer white space; empty ones are left out."""
    start = 0
    for match in _END.finditer(covered + "\n"):
        if match.start() < len(covered) and _goes_on(covered, start, match.start(), match.group()):
            continue
        end = min(match.start(), len(covered))
        first = start
        listed = _LIST_MARK.match(covered, first, end)
        if listed is not None:
            first = listed.end()
        while first < end and (covered[first].isspace() or covered[first] in "*_#•"):
            first += 1
        while end > first and (covered[end - 1].isspace() or covered[end - 1] in "*_"):
            end -= 1
        if end > first:
            yield Sentence(first, end, "?" in match.group() or "？" in match.group())
        start = match.end()
