"""Facts in Chinese sentences: preferences, who someone is, standing instructions.

Simplified characters, and traditional ones where they are common.
Called by ``layers.standard`` for sentences with Han characters and without kana. A fact begins where a clause begins
(after ``，`` or a word like 其实) and ends with its clause; ``、`` joins, ``，`` separates.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from memory_sqlite.layers.chinese_rules import INSTRUCTIONS, NEGATED, RULES, Rule
from memory_sqlite.layers.sentences import Sentence
from memory_sqlite.layers.slots import Found, instruction_slot, normal

_BOUNDARY: Final = re.compile(r"[\s]*[，,；;（）()][\s]*|(?=但是|不过(?!敏)|可是|而且我|并且我|因为我|所以我)|(?=但我)")
_PREFIX: Final = re.compile(
    r"(?:(?:其实|另外|对了|还有|而且|并且|但是|但|不过|可是|所以|因为|由于|请?记住|请?记得"
    r"|请?注意|顺便说一?[下句]|顺便一提|顺带一提|顺便|你好|您好|大家好|嗨|嗯|哦|啊"
    r"|说实话|老实说|坦白说|总的来说|一般来说|平时|现在|目前|请?别忘了|不要忘记|要知道|你知道"
    r"|提醒一下|补充一下|更正一下|更正|更新|是的|对|不是?|好的|好|谢谢|首先|其次|最后"
    r"|跟你说一?[下声]?|告诉你一?[下声]?|那)[\s，,：:、！!]*){1,4}"
)
_GUARD: Final = re.compile(
    r"如果|要是|假如|假设|假使|倘若|若|万一|除非|说|說|告诉|告訴|觉得|认为|以为|问|問|写道|歌词"
    r"|比如|例如|据|听|想象|当我|时候|也许|可能|或许|是否|万一|翻译|翻譯|引用|希望"
)
_OWN_SAYING: Final = re.compile(
    r"说实话|老实说|坦白说|(?:总的|一般)来说|顺便说一?[下句]?|[跟和对]你说过?一?[下声]?"
    r"|告诉[你您]一?[下声]?|我说过|不得不说|对我来说|也就是说"
)
_ATTRIBUTED: Final = re.compile(r"[\s，,]*(?!我|你)[^\s，,。]{1,6}(?:说|說|问|回答|写道|告诉)")
_ASKED: Final = re.compile(
    r"什么(?!都)|什麼|谁|誰|哪|怎[么样麼]|多少|几[个点岁]|是否|为何|吗|嗎|是不是|有没有|要不要|能不能|[呢么]$"
)
_TAG: Final = re.compile(r"(?:对|是|好|行|可以|不是|没错)(?:吗|嗎|吧|么)?$|(?:是不是|对不对|好不好)$")
_CONDITION: Final = re.compile(r"的话$|的時候$|的时候$")
_GOES_ON: Final = re.compile(
    r"(?!谢谢|謝謝|好吗|可以吗|行吗|我|你|您|这|那|他|她|如果|因为|但|不过|今天|现在|明天|帮|请帮|顺便)"
)


def _clauses(covered: str, sentence: Sentence) -> list[tuple[int, int]]:
    """(start, end of clause) of every clause."""
    cuts = [match.span() for match in _BOUNDARY.finditer(covered, sentence.start, sentence.end)]
    starts = [sentence.start, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), sentence.end]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]


def _rule_at(covered: str, start: int, end: int) -> tuple[Rule, re.Match[str]] | None:
    for rule in (*INSTRUCTIONS, *RULES):
        match = rule.pattern.match(covered, start, end)
        if match is None:
            continue
        if rule.bad is not None and rule.bad.search(match["v"]) is not None:
            return None
        return rule, match
    return None


def _denied(covered: str, sentence: Sentence, clause: int, rule: Rule, start: int, end: int) -> bool:
    if _GUARD.search(_OWN_SAYING.sub("", covered[sentence.start : clause])) is not None:
        return True
    said = covered[start:end]
    if rule.kind != "instruction" and (_ASKED.search(said) is not None or _CONDITION.search(said) is not None):
        return True
    rest = covered[end : sentence.end]
    if _ATTRIBUTED.match(rest) is not None:
        return True
    if sentence.question or rest.endswith(("吗", "嗎")):
        asked = rest.strip(" ，,；;")
        return not asked or _TAG.match(asked) is not None
    return False


def find(text: str, covered: str, sentence: Sentence) -> list[Found]:
    """The facts of one sentence, left to right, without overlap. ``covered`` is ``own_speech`` of ``text``."""
    clauses = _clauses(covered, sentence)
    found: list[Found] = []
    for number, (clause, end) in enumerate(clauses):
        if found and clause < found[-1].end:
            continue
        prefix = _PREFIX.match(covered, clause, end)
        at, hit = clause, _rule_at(covered, clause, end)
        if hit is None and prefix is not None:
            at, hit = prefix.end(), _rule_at(covered, prefix.end(), end)
        if hit is None:
            continue
        rule, match = hit
        last = match.end() if rule.whole else end
        if rule.kind == "instruction":
            for following, following_end in clauses[number + 1 :]:
                if (
                    _GOES_ON.match(covered, following) is None
                    or _rule_at(covered, following, following_end) is not None
                ):
                    break
                last = following_end
        if _denied(covered, sentence, clause, rule, at, last):
            continue
        fact = _found(text, rule, match, at, last)
        if fact is not None:
            found.append(fact)
    return found


def _found(text: str, rule: Rule, match: re.Match[str], start: int, end: int) -> Found | None:
    raw = text[match.start("v") : match.end("v") if rule.whole else end]
    if rule.kind == "instruction":
        polarity: Literal[1, -1] = rule.polarity
        negated = NEGATED.match(raw)
        if negated is not None:
            raw, polarity = raw[negated.end() :], -1
        slot, value = instruction_slot(raw, polarity)
        return Found(start, end, rule.kind, slot, value, polarity) if value else None
    value = normal(raw)
    if not value:
        return None
    subject = match["s"] if "s" in rule.pattern.groupindex else ""
    named = rule.names.get(subject, normal(subject)) if subject else ""
    return Found(start, end, rule.kind, rule.slot.format(v=value, s=named), value, rule.polarity)
