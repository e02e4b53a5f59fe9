"""What a fact is about, in a normal form: so that a later sentence can reinforce, contradict or change an earlier one.

Slots are words joined by colons. Of one holder (``identity:name``, ``identity:home``, ``instruction:language``) a new
value replaces the old; of many (``preference:coffee``, ``identity:allergy:peanut``) the value is part of the slot and
only the polarity can change. Called by the rule modules; knows English, Chinese and Japanese trimmings.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

from memory_sqlite.layers.sentences import FILLER
from memory_sqlite.values import dataclass

VALUE_MAX: Final = 80
"""Code points of a value in its normal form; the whole is in the fact's content."""

Kind = Literal["preference", "identity", "instruction"]


@dataclass(frozen=True, slots=True)
class Found:
    """A fact as half-open code point positions in the message."""

    start: int
    end: int
    kind: Kind
    slot: str
    value: str
    polarity: Literal[1, -1] = 1


_LEADING: Final = re.compile(
    r"(?:(?:the|a|an|my|our|some|any|to|drinking|eating|drink|eat|having|using|very|really|much)\s+)+"
    r"|(?:喝|吃|饮用|使用|用)(?=.)"
)
_TRAILING: Final = re.compile(
    r"(?:\s+(?:any ?more|at all|very much|a lot|so much|a bit|now|too|either|as well|these days|nowadays|though|already"
    r"|still|currently|right now|at the moment|please|thanks|thank you|most|best|originally|actually|really"
    r"|anyway|again)|了|啦|的|呀|啊|哦|呢|吧|哈|哒)+$"
)
_EDGES: Final = " \t\n.,;:!?。，；：！？、…\"'“”‘’「」『』()（）*_`~-–—" + FILLER
_PLURAL: Final = re.compile(r"(?<=[a-z]{3})(?<![sui])(?<!diabete)s$")


def normal(value: str) -> str:
    """A value as it is compared: NFKC, case-folded, without articles, ``any more``, final particles and plural s."""
    text = " ".join(unicodedata.normalize("NFKC", value[: VALUE_MAX * 4]).casefold().replace("’", "'").split())
    before = None
    while text and text != before:
        before = text
        text = _TRAILING.sub("", text).strip(_EDGES)
        leading = _LEADING.match(text)
        if leading is not None and leading.end() < len(text):
            text = text[leading.end() :].strip(_EDGES)
    return _PLURAL.sub("", text)[:VALUE_MAX].strip()


_LANGUAGES: Final = {
    "english": "english|英文|英语|英語",
    "chinese": "chinese|mandarin|中文|汉语|普通话|中国語",
    "japanese": "japanese|日文|日语|日本語",
    "korean": "korean|韩文|韩语|韓国語",
    "german": "german|德文|德语|ドイツ語",
    "french": "french|法文|法语|フランス語",
    "spanish": "spanish|西班牙文|西班牙语|スペイン語",
    "italian": "italian|意大利文|意大利语|イタリア語",
    "portuguese": "portuguese|葡萄牙文|葡萄牙语|ポルトガル語",
    "russian": "russian|俄文|俄语|ロシア語",
}
_REPLYING: Final = re.compile(
    r"\b(?:answer|reply|respond|write|speak|talk|use)\b|回答|回复|回覆|答复|交流|说话|答え|返事|返信|回答し|話し",
    re.IGNORECASE,
)


def language(action: str) -> str | None:
    """The one language that an instruction like ``answer in German`` asks for, in English and lower case."""
    if len(action) > 60 or _REPLYING.search(action) is None:
        return None
    lowered = action.casefold()
    named = [name for name, words in _LANGUAGES.items() if re.search(words, lowered)]
    return named[0] if len(named) == 1 else None


def instruction_slot(action: str, polarity: Literal[1, -1]) -> tuple[str, str]:
    """Slot and value of a standing instruction. The language of answers is one slot whatever language asks for it."""
    if polarity == 1 and (tongue := language(action)) is not None:
        return "instruction:language", tongue
    value = normal(action)
    return f"instruction:{value}", value
