"""Facts in Japanese sentences: preferences, who someone is, standing instructions.

Called by ``layers.standard`` for sentences with kana. Japanese leaves the subject out; a fact is taken only where the
speaker names themself (私は, 僕の …), or where the phrase says it of nobody else (〜に住んでいます without は or が).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from memory_sqlite.layers.sentences import FILLER, Sentence
from memory_sqlite.layers.slots import Found, Kind, instruction_slot, normal
from memory_sqlite.values import dataclass

_ME: Final = r"(?:私|わたし|わたくし|僕|ぼく|ボク|俺|おれ|オレ|あたし|自分)"
_IAM: Final = _ME + r"(?:は|って|も)、?(?:今|現在|いま|実は|もう)?"
_ADV: Final = r"(?:とても|すごく|一番|特に|本当に|あまり|めっちゃ|かなり|もう|大変|まったく|全然){0,2}"
_NO: Final = (
    r"(?:じゃない|ではない|じゃありません|ではありません|じゃなくなりました|ではなくなりました"
    r"|じゃなくなった|ではなくなった)"
)
_IS: Final = r"(?:なんです|なんだ|です|だ|である|なの)?(?:よ|ね|けど|が|から|ので|し)?"
_CLOSE: Final = r"(?=$|[、,，\s！!])"
_NAME: Final = rf"(?P<v>{FILLER}{{1,20}}|[一-鿿々ぁ-んァ-ヶー・A-Za-z]{{1,16}}?)"
_JOB: Final = (
    r"(?:医師|医者|看護師|教師|先生|エンジニア|デザイナー|学生|大学生|高校生|会社員|研究者|弁護士"
    r"|プログラマー?|開発者|主婦|主夫|作家|記者|漫画家|料理人|シェフ|公務員"
    r"|デベロッパー|コンサルタント|マネージャー|薬剤師|美容師|編集者|翻訳者|翻訳家|[\w]{1,6}(?:士|師|家|員))"
)
_ARE: Final = (
    r"(?:ベジタリアン|ヴィーガン|ビーガン|菜食主義者|左利き|右利き|独身|(?:日本|中国|韓国|台湾|[ァ-ヶー]{2,8})人)"
)
_THINGS: Final = {
    "誕生日": "birthday",
    "タイムゾーン": "time zone",
    "趣味": "hobby",
    "職業": "job",
    "仕事": "job",
    "母国語": "native language",
    "出身": "origin",
    "出身地": "origin",
    "メールアドレス": "email",
    "電話番号": "phone",
    "会社": "company",
    "血液型": "blood type",
    "妻": "wife",
    "夫": "husband",
    "年齢": "age",
}


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    kind: Kind
    slot: str
    polarity: Literal[1, -1] = 1


_NOT_LIKED: Final = r"(?!これ|それ|あれ|この|その|あの|あなた|君|彼|何|どれ|どの|誰)"
_TABLE: Final[tuple[tuple[str, Kind, str, Literal[1, -1]], ...]] = (
    (
        rf"{_IAM}{_NOT_LIKED}(?P<v>[^、。]{{1,40}}?)[がはもを]{_ADV}(?:大好き|好き){_NO}{_IS}{_CLOSE}",
        "preference",
        "preference:{v}",
        -1,
    ),
    (
        rf"{_IAM}{_NOT_LIKED}(?P<v>[^、。]{{1,40}}?)[がはもを]{_ADV}(?:大嫌い|嫌い|苦手){_IS}{_CLOSE}",
        "preference",
        "preference:{v}",
        -1,
    ),
    (
        rf"{_IAM}{_NOT_LIKED}(?P<v>[^、。]{{1,40}}?)[がはもを]{_ADV}(?:大好き|好き){_IS}{_CLOSE}",
        "preference",
        "preference:{v}",
        1,
    ),
    (
        rf"{_IAM}(?P<v>[^、。]{{1,30}}?)[がはを](?:食べられ|飲め|食べ|飲み)(?:ません|ない)(?:です)?{_CLOSE}",
        "preference",
        "preference:{v}",
        -1,
    ),
    (
        rf"{_ME}の(?:一番)?好きな(?P<s>[^、。は]{{1,12}})は(?P<v>[^、。]{{1,40}}?)(?:です|だ){_IS}{_CLOSE}",
        "preference",
        "preference:favourite:{s}",
        1,
    ),
    (
        rf"{_ME}の(?:名前|本名)は、?{_NAME}(?:です|だ|と(?:いいます|言います|申します))?{_CLOSE}",
        "identity",
        "identity:name",
        1,
    ),
    (rf"{_IAM}{_NAME}と(?:いいます|言います|申します){_CLOSE}", "identity", "identity:name", 1),
    (
        rf"(?:{_ME}のことは、?|{_ME}を)?{_NAME}(?:と|って)呼んで(?:ください|下さい|ほしい(?:です)?|ね)?{_CLOSE}",
        "identity",
        "identity:called",
        1,
    ),
    (
        rf"(?:{_IAM})?(?P<v>[^、。はがもを]{{1,20}}?)に住んで(?:いません|いない|ません|ない){_CLOSE}",
        "identity",
        "identity:home",
        -1,
    ),
    (
        rf"(?:{_IAM})?(?P<v>[^、。はがもを]{{1,20}}?)に住んで(?:います|いる|ます|る){_IS}{_CLOSE}",
        "identity",
        "identity:home",
        1,
    ),
    (
        rf"(?:{_IAM})?(?P<v>[^、。はがもを]{{1,20}}?)(?:在住|暮らし)(?:です|だ){_CLOSE}",
        "identity",
        "identity:home",
        1,
    ),
    (
        rf"{_IAM}(?P<v>[^、。]{{1,20}}?)(?:で(?:働いて|仕事をして)|に勤めて)(?:います|いる|ます|る){_IS}{_CLOSE}",
        "identity",
        "identity:employer",
        1,
    ),
    (
        rf"{_IAM}(?P<v>[^、。]{{1,20}}?)(?:の)?アレルギー(?:は(?:ありません|ない)|がない|がありません"
        rf"|{_NO}){_CLOSE}",
        "identity",
        "identity:allergy:{v}",
        -1,
    ),
    (
        rf"(?:{_IAM})?(?P<v>[^、。はがもを]{{1,20}}?)(?:の)?アレルギー(?:が(?:あります|ある)|です|だ"
        rf"|持ちです|があって){_IS}{_CLOSE}",
        "identity",
        "identity:allergy:{v}",
        1,
    ),
    (
        rf"{_IAM}(?P<v>[^、。はがのを]{{0,8}}?{_ARE})(?:です|だ|である){_IS}{_CLOSE}",
        "identity",
        "identity:is:{v}",
        1,
    ),
    (
        rf"{_IAM}(?P<v>[^、。はがを]{{0,12}}?{_JOB})(?:です|だ|である|をして(?:います|いる)){_IS}{_CLOSE}",
        "identity",
        "identity:job",
        1,
    ),
    (rf"{_IAM}(?P<v>\d{{1,3}})歳(?:です|だ)?{_IS}{_CLOSE}", "identity", "identity:age", 1),
    (
        rf"{_ME}の(?P<s>{'|'.join(sorted(_THINGS, key=len, reverse=True))})は、?(?!何|いつ"
        rf"|どこ)(?P<v>[^、。]{{1,40}}?)(?:です|だ){_IS}{_CLOSE}",
        "identity",
        "identity:{s}",
        1,
    ),
    (
        rf"{_IAM}(?:いつも|普段|主に|ずっと)?(?P<v>[^、。]{{1,30}}?)を使って(?:います|いる|ます|る){_IS}{_CLOSE}",
        "preference",
        "preference:use:{v}",
        1,
    ),
)
_RULES: Final = tuple(_Rule(re.compile(row[0]), *row[1:]) for row in _TABLE)
_ALWAYS: Final = r"(?:今後は?|これからは?|以後|次回からは?|いつも|常に|必ず|毎回|つねに)、?"
_NOT_ORDERED: Final = re.compile(
    r"(?:心配|気に|忘れ|怒ら|無理|遠慮|驚か)|^(?:これ|それ|あれ|この|その)|今日|今は|まだ|明日|今回"
)
_INSTRUCTIONS: Final = (
    (
        re.compile(
            rf"(?:{_ALWAYS}|決して|絶対に?|二度と|どうか)*(?P<v>[^。]{{2,120}}?)ないで(?:ください|下さい"
            rf"|ほしい(?:です)?|ね)?$"
        ),
        -1,
    ),
    (re.compile(rf"{_ALWAYS}(?P<v>[^。]{{2,120}}?)(?:て|で)(?:ください|下さい|ほしい(?:です)?|くれ)$"), 1),
    (re.compile(rf"{_ALWAYS}(?P<v>[^。]{{2,120}}?)(?:を)?お願いします$"), 1),
)
_OBJECT: Final = re.compile(r"(?P<o>.+)を[^を]{1,4}$")
_PREFIX: Final = re.compile(
    r"(?:(?:実は|ちなみに|あと|それと|また|でも|ただ|はい|いいえ|こんにちは|はじめまして"
    r"|初めまして|覚えておいて(?:ください|ね)?|なお|普段|今は)[、,，：:！!\s]*){1,4}"
)
_GUARD: Final = re.compile(r"もし|仮に|例えば|たとえば|によると|かもしれ|言った|言って|言う|書い|らしい|そうです")
_BOUNDARY: Final = re.compile(r"[、,，！!\s]+")
_ASKED: Final = re.compile(r"何|誰|どこ|どれ|どの|いつ(?!も)|なぜ|か$")


def find(text: str, covered: str, sentence: Sentence) -> list[Found]:
    """The facts of one sentence, left to right, without overlap. ``covered`` is ``own_speech`` of ``text``."""
    limit = sentence.end
    prefix = _PREFIX.match(covered, sentence.start, limit)
    first = prefix.end() if prefix is not None else sentence.start
    order = None if sentence.question else _instruction(text, covered, first, limit)
    if order is not None:
        return [order]
    found: list[Found] = []
    starts = [first, *(match.end() for match in _BOUNDARY.finditer(covered, first, limit))]
    for start in starts:
        if found and start < found[-1].end:
            continue
        fact = _fact(text, covered, start, sentence)
        if fact is not None:
            found.append(fact)
    return found


def _instruction(text: str, covered: str, start: int, limit: int) -> Found | None:
    for pattern, polarity in _INSTRUCTIONS:
        match = pattern.match(covered, start, limit)
        if match is not None and _NOT_ORDERED.search(match["v"]) is None and _GUARD.search(match["v"]) is None:
            sign: Literal[1, -1] = 1 if polarity == 1 else -1
            action = text[match.start("v") : match.end("v")]
            # the verb's ending depends on what follows it (使わないで, 使って); its object names the matter
            named = _OBJECT.match(action)
            slot, value = instruction_slot(named["o"] if named is not None else action, sign)
            return Found(start, limit, "instruction", slot, value, sign) if value else None
    return None


def _fact(text: str, covered: str, start: int, sentence: Sentence) -> Found | None:
    for rule in _RULES:
        match = rule.pattern.match(covered, start, sentence.end)
        if match is None:
            continue
        rest = covered[match.end() : sentence.end].strip("、,， ")
        if _GUARD.search(covered, sentence.start, sentence.end) is not None or _ASKED.search(match.group()) is not None:
            return None
        # "…が好きですが、おすすめは？": what is said before the question is still said
        if sentence.question and not rest:
            return None
        value = normal(text[match.start("v") : match.end("v")])
        if not value:
            return None
        subject = match["s"] if "s" in rule.pattern.groupindex else ""
        slot = rule.slot.format(v=value, s=_THINGS.get(subject, normal(subject)) if subject else "")
        return Found(start, match.end(), rule.kind, slot, value, rule.polarity)
    return None
