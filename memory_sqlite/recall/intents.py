"""What a person asks about themselves: which profile facts a question is after, beyond the words it shares with them.

"What is my name?" and "call me Ada", "what do I like to drink?" and "I love tea" share no word; the facts carry slots
(``identity:name``, ``preference:tea``) and the question's form tells which slots it wants. Pure: patterns over text in
English, Chinese and Japanese, the languages in which facts are recognised. Not here: topics (``topics``), reading facts
(``profile``), shared words (``relevance``). The patterns are ours, written against ``tests/unit/recall`` tables.
"""

from __future__ import annotations

import re
from typing import Final

from memory_sqlite.recall.topics import Topic, topics_of
from memory_sqlite.search.folding import fold
from memory_sqlite.search.stop_words import ENGLISH
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """Facts that a question asks for.

    ``slots`` are beginnings of slots; a fact of one is wanted as it is. ``topics`` are what preferences must be about,
    and with ``any_preference`` every preference is wanted.
    """

    slots: tuple[str, ...] = ()
    topics: tuple[Topic, ...] = ()
    any_preference: bool = False

    @property
    def is_empty(self) -> bool:
        """The words ask for nothing of the kind."""
        return not (self.slots or self.topics or self.any_preference)


_NAME: Final = ("identity:name", "identity:called")
_HOME: Final = ("identity:home", "identity:address")
_WORK: Final = ("identity:job", "identity:employer", "identity:field", "identity:company", "identity:occupation")
_BIRTH: Final = ("identity:age", "identity:birth")
_ORIGIN: Final = ("identity:origin", "identity:birth", "identity:nationality", "identity:hometown")
_DIET: Final = ("identity:allergy:", "identity:is:veg", "identity:is:pescatarian", "identity:is:素食", "identity:diet")
_LANGUAGE: Final = ("identity:language:", "identity:native language", "identity:mother tongue")
_PETS: Final = ("identity:has:", "identity:dog", "identity:cat")
_PROFILE: Final = ("identity:", "preference:")


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_IDENTITY: Final = (
    (
        _re(
            r"\bmy (?:own |full |first |last |nick)?(?:name|nickname)\b(?!')|\bwho (?:am i|i am)\b"
            r"|\bwhat (?:am i called|(?:do|should|can|would) (?:you|people|they|everyone) call me)\b"
            r"|我(?:的名字)?(?:是谁|叫(?:什么|啥))|我的名字|怎么称呼我"
            r"|(?:私|僕|俺|わたし)の名前|(?:私|僕|俺)は(?:誰|だれ)"
        ),
        _NAME,
    ),
    (
        _re(
            r"\bwhere (?:do|did) i live\b|\bwhere i live\b|\bmy (?:home ?)?address\b"
            r"|\bwhich (?:city|town|country) (?:do|am) i\b|\bwhere am i (?:living|based)\b"
            r"|我(?:现在)?住(?:在)?(?:哪|什么)|我家在哪|どこに住んで"
        ),
        _HOME,
    ),
    (
        _re(
            r"\bwhat do i do for (?:a living|work)\b|\bwhere do i work\b|\bwho do i work for\b"
            r"|\bmy (?:job|occupation|profession|employer)\b"
            r"|我(?:是|在)?(?:做什么|干什么|干嘛)(?:工作)?的|我在哪(?:里|儿)?(?:工作|上班)|我的(?:职业|工作)是"
            r"|(?:私|僕)の(?:仕事|職業)|どこで働いて"
        ),
        _WORK,
    ),
    (
        _re(
            r"\bhow old am i\b|\bmy age\b|\bmy birthday\b|\bwhen was i born\b"
            r"|我(?:今年)?(?:几岁|多大|的年龄)|我(?:的)?生日|(?:私|僕)は?(?:何歳|の誕生日|の年齢)"
        ),
        _BIRTH,
    ),
    (
        _re(
            r"\bwhere (?:am i from|do i come from|was i born)\b"
            r"|我(?:来自|是)哪(?:里|儿)(?:人|的)?|我老家|(?:私|僕)の出身"
        ),
        _ORIGIN,
    ),
    (
        _re(
            r"\b(?:am i|i am|i'm|what(?:'s| is)? i) allergic\b|\bmy (?:allerg|dietary|diet\b)|\bcan i eat\b"
            r"|\bam i (?:vegan|vegetarian)\b|我(?:对什么|对哪|有什么)?.{0,4}过敏|我(?:能|可以)吃|アレルギー"
        ),
        _DIET,
    ),
    (_re(r"\b(?:which|what|how many) languages? (?:do|can) i\b|我(?:会|能)(?:说|讲)(?:什么|哪)|何語"), _LANGUAGE),
    (_re(r"\b(?:do i have|my) (?:any )?pets?\b|我(?:的|有什么|养了?什么)宠物|ペット"), _PETS),
    (
        _re(
            r"\bwhat (?:do|did) you (?:know|remember)(?: already)? about (?:me|myself)\b"
            r"|\btell me about (?:me|myself)\b|\bmy profile\b"
            r"|你(?:知道|记得|了解)我(?:什么|多少|哪些|的?哪)|关于我(?:的)?(?:什么|事)|私について"
        ),
        _PROFILE,
    ),
)

_VERBS: Final = r"(?:like|love|prefer|enjoy|hate|dislike|drink|eat|listen|watch|read|play|use|wear|cook)"
_TASTES: Final = _re(
    rf"(?<!how )(?<!where )(?<!when )(?<!why )\b(?:do|did|would|might|should) (?:i|we) (?:\w+ ){{0,2}}{_VERBS}\b"
    rf"|\bi (?:usually |often |most |really )?{_VERBS}\?|\bwhat i (?:like|love|prefer|enjoy|hate|dislike)\b"
    r"|\bmy (?:\w+ )?(?:favou?rites?|preferences?|tastes?|likes|dislikes)\b"
    r"|我(?:平时|最|都|比较|一般|通常|到底)*(?:不)?(?:喜欢|喜歡|爱|偏好|讨厌|討厭).{0,12}(?:什么|啥|哪|吗|[?？])"
    r"|我(?:的|最)(?:喜欢的|爱好|喜好|偏好|口味)"
    r"|(?:私|僕|俺|わたし).{0,8}(?:好き|嫌い|好み)|(?:好き|嫌い)な.{0,8}(?:は|って)(?:何|なに|[?？])"
)
_ADVICE: Final = _re(
    r"\b(?:recommend|suggest|suggestions?|recommendations?)\b"
    r"|\b(?:what|which)(?: \w+){0,2} (?:should|could|shall) (?:i|we)\b"
    r"|\b(?:i|we)(?:'d like| would like| want| need| feel like)(?: something)?(?: to)? (?:eat|drink|eating|drinking)"
    r"|\bi(?:'m| am)(?: \w+)? (?:hungry|thirsty)\b"
    r"|推荐|建议|我(?:想|要|该|应该|今晚|今天)*(?:喝|吃|看|听|玩|读)"
    r"|おすすめ|オススメ|(?:飲み|食べ|聴き|聞き|読み|見)たい"
)
"""Asking for advice, in its plainest forms only: "make me a script that reads a file" is no question of taste."""
_FRAME_WORDS: Final = frozenset(
    """
    like love prefer enjoy hate dislike favourite favorite favourites favorites preference preferences taste tastes
    likes dislikes thing things stuff most best usually generally really kind sort remember recall again list
    """.split()  # noqa: SIM905 - read as words, not as a list
)
_FRAME_CJK: Final = _re(
    r"[我你的都最比较平时一般通常到底不]|喜欢|喜歡|爱好|爱|偏好|喜好|讨厌|討厭|口味|什么|东西|事物|哪些|吗|呢"
    r"|私|僕|は|の|が|を|何|なに|好き|嫌い|好み|です|か|な|もの"
)


def wanted(words: str) -> Wanted:
    """The facts that these words ask for; empty for anything that is no question about the person who asks."""
    text = fold(words)
    slots = tuple(dict.fromkeys(slot for pattern, group in _IDENTITY if pattern.search(text) for slot in group))
    asks_taste = _TASTES.search(text) is not None
    if not asks_taste and _ADVICE.search(text) is None:
        return Wanted(slots)
    topics = topics_of(text)
    if any(topic.name == "food" for topic in topics):
        slots = tuple(dict.fromkeys((*slots, *_DIET)))
    return Wanted(slots, topics, asks_taste and not topics and _says_nothing_else(text))


def _says_nothing_else(text: str) -> bool:
    """No word is left that narrows the question: "what do I like?" does, "what do I like about Berlin?" does not."""
    rest = _FRAME_CJK.sub("", text).casefold()
    left = re.findall(r"[^\W_]+(?:'[a-z]+)?", rest)
    return all(word in ENGLISH or word in _FRAME_WORDS for word in left)
