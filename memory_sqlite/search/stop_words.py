"""Words that say nothing about what is looked for.

Lives here: the lists, by script, and the rule for words in capitals. Applied to queries only; the index keeps every
word, so that a quoted phrase is exact. Called by ``query``.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH: Final = _words(
    """a about am an and any are aren't as at be been being but by can can't could couldn't did didn't do does doesn't
    doing don't for from had hadn't has hasn't have haven't having he her here hers him his how i i'd i'll i'm i've if
    in into is isn't it its just know let me might mine must my near no not of off on or our ours out over please shall
    shan't she should shouldn't so some such tell than that the their theirs them then there these they this those
    through to too up us very was wasn't we we'd we'll we're we've were weren't what when where whether which while who
    whom whose why will with won't would wouldn't you you'd you'll you're you've your yours"""
)

FAINT: Final = _words(
    """according call called considered did example first get go got happen happened happens kind known made main make
    many mean means much name named names number one people person said say someone something thing things time times
    two type types use used way went"""
)
"""Words of questions rather than of answers: they count a little less (XQuAD-en nDCG@10 .969 -> .970)."""

OPERATORS: Final = frozenset({"AND", "OR", "NOT", "NEAR"})
"""Operators of query languages: people type them out of habit, so in capitals they are operators, never words."""

CJK: Final = frozenset("的了吗呢吧嘛么是在和与或就都也很这那哪谁它他她我你您们个はがをにのへとでもやかねよ")
"""Characters of grammar. A bigram made of two of them, or one of ``CJK_WORDS``, is no term."""

CJK_WORDS: Final = _words(
    """什么 怎么 怎样 哪个 哪些 哪里 为什 多少 这个 那个 我们 你们 他们 她们 是否 一个 一下 之前 关于
    です ます した こと もの これ それ あの その この どの どこ なに 何で いつ する して いる ある から まで
    에서 으로 에게 까지 부터 나요 니까 습니 니다 입니 합니 어요 아요 해요 예요 까요 인가 가요 언제 어디 누구 누가
    무엇 무슨 어떻 떻게 어떤 얼마 마나 그리 그런 이런 저런 하는 하고 하나 했나 되나 됐나 되었 었나 았나 였나"""
)
"""Bigrams of grammar and of asking, in Chinese, Japanese and Korean."""


def is_stop_word(folded: str, raw: str) -> bool:
    """Whether a word of a query says nothing. ``IT`` and ``WHO`` in capitals are names, ``AND`` is an operator."""
    if folded not in ENGLISH:
        return False
    return raw in OPERATORS or not (len(raw) > 1 and raw.isupper())
