"""The Chinese clauses that state a preference, who someone is, or a standing instruction. Data for ``layers.chinese``.

Patterns are matched at the start of a clause on text whose quotations are covered; ``v`` is the value. The first rule
that matches decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from memory_sqlite.layers.sentences import FILLER
from memory_sqlite.layers.slots import Kind
from memory_sqlite.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Rule:
    """``slot`` may hold ``{v}`` and ``{s}``; ``names`` gives ``s`` its language independent name.

    ``whole``: the fact ends where the pattern does; otherwise the value goes on to the end of the clause. ``bad`` is
    looked for in the value.
    """

    pattern: re.Pattern[str]
    kind: Kind
    slot: str
    polarity: Literal[1, -1] = 1
    bad: re.Pattern[str] | None = None
    whole: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


_ADV: Final = (
    r"(?:也|真的|真|很|非常|特别|特別|最|比较|更加|更|超级|超|一直|从小|从来|平时|通常|一般|还是"
    r"|都|还|就|其实|现在|确实|蛮|挺|十分|尤其|依然|仍然|目前|又){0,3}"
)
_ME: Final = r"(?:我|我们|我們|本人|我个人|我自己|我这个人)" + _ADV
_NOT: Final = r"(?:不太|不怎么|不大|并不|不是很|没那么|不再|再也不|已经不|从来不|从不|从没|不)" + _ADV
_LIKE: Final = r"(?:喜欢|喜歡|热爱|偏好|偏爱|钟爱|酷爱|倾向于?|习惯(?![了性])|習慣|爱(?!人|好|情|国|护|心)|愛(?!人))"
_END: Final = r"(?=[\s，,。；;！!（）()]|$)"
_NAME: Final = (
    rf"(?P<v>{FILLER}{{1,20}}|[一-鿿]{{1,4}}?|[一-鿿]{{1,6}}·[一-鿿·]{{1,12}}|[A-Za-z][\w'-]*(?: [A-Z][\w'-]*){{0,3}})"
)

# what only this conversation gives a meaning to, aspect marks ("喜欢过" is past), and relative clauses ("我喜欢的…")
_NOT_LIKED: Final = re.compile(
    r"^(?:了|过|過|着|上|的|[听看跟和等帮陪]?[你您]|您|他|她|它|这|這|那|此|其中|第[一二三四五]个|前者|后者|和你|跟你)"
)
_NOT_A_NAME: Final = re.compile(
    r"^(?:了|你|您|他|她|它|过|不|车|外卖|的|一|到|来|来着|醒|人|我|大家|服务员|啥|做|作|什|谁"
    r"|起床|起来|去|别|停|出|回|声|早|明天|今天|这|那)|[的了过去吗呢]|怎么|什么"
)
_NOT_A_PLACE: Final = re.compile(r"^(?:这|那|哪|院|了|过|着|不|酒店|宾馆|一起|一晚|得)")
_NOT_A_WORKPLACE: Final = re.compile(r"^(?:努力|认真|拼命|家|这|那|哪|晚上|白天|周末|一起)$|^(?:这|那|哪)")
_NOT_A_ROLE: Final = re.compile(
    r"^(?:说|想|在|否|要|来|去|指|用|怎|为了|因为|真|觉|认|谁|什|不|这|那|你|他|她|它|第|刚|昨|今"
    r"|先|按|通过|很|可以|会|从|对|和|跟|被|一个人|个人|好人|坏人|新)|[吗呢]"
)

_MY_THINGS: Final = {
    **dict.fromkeys(("时区", "時區"), "time zone"),
    **dict.fromkeys(("邮箱", "电子邮箱", "电邮", "邮箱地址", "邮件地址"), "email"),
    **dict.fromkeys(("电话", "电话号码", "手机号", "手机号码", "手机"), "phone"),
    **dict.fromkeys(("家乡", "老家", "故乡"), "hometown"),
    **dict.fromkeys(("公司", "单位"), "company"),
    **dict.fromkeys(("爱好", "兴趣", "兴趣爱好"), "hobby"),
    "生日": "birthday",
    "母语": "native language",
    "专业": "field of study",
    "血型": "blood type",
    "国籍": "nationality",
    "学校": "school",
    "网名": "nickname",
    "昵称": "nickname",
    "微信号": "wechat",
    "身高": "height",
    "体重": "weight",
    "宗教": "religion",
}
_MY_KIN: Final = {
    **dict.fromkeys(("妻子", "老婆", "太太"), "wife"),
    **dict.fromkeys(("丈夫", "老公", "先生"), "husband"),
    **dict.fromkeys(("狗", "狗狗"), "dog"),
    **dict.fromkeys(("猫", "猫咪"), "cat"),
    "儿子": "son",
    "女儿": "daughter",
    "哥哥": "brother",
    "弟弟": "brother",
    "姐姐": "sister",
    "妹妹": "sister",
    "妈妈": "mother",
    "爸爸": "father",
    "女朋友": "girlfriend",
    "男朋友": "boyfriend",
    "老板": "boss",
}
_THINGS: Final = "|".join(sorted(_MY_THINGS, key=len, reverse=True))
_KIN: Final = "|".join(sorted(_MY_KIN, key=len, reverse=True))
_JOB: Final = (
    r"(?:[教老厨律会美设]师|工程师|设计师|分析师|架构师|咨询师|摄影师|药剂师"
    r"|[程职店教研演公飞服]\w?员|公务员|医生|醫生|护士|教授|记者|学生|大学生|研究生|博士生?|司机"
    r"|警察|军人|农民"
    r"|经理|总监|主管|作家|画家|科学家|音乐家|导演|老板|创始人|自由职业者|研究者|开发者|程序员"
    r"|前端|后端|产品经理|翻译|编辑|律师|会计|牙医|兽医|[\w ]{0,6}师)"
)
_IS: Final = (
    r"(?:素食者|\w{1,6}主义者|\w{1,6}爱好者|左撇子|右撇子|单身|已婚|\w{1,4}[党控迷粉]|独生子女?"
    r"|妈妈|爸爸|父亲|母亲|\w{1,4}徒|穆斯林|色盲|\w{1,6}患者|夜猫子|初学者|新手|[IE]人|内向的人"
    r"|外向的人)"
)
_IS_MARK: Final = r"(?:一名|一位|一个|一個|个|名|位|做)?"
_ORIGIN: Final = (
    r"(?P<v>(?!男|女|好|坏|病|老|年轻|成年|负责|当事|主|工|本|客|熟|普通|一个|内|外|新|创始|[IE]$)[一-鿿A-Za-z]{1,6})人"
)


def _r(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


RULES: Final = (
    Rule(_r(r"我最?喜欢的(?P<s>[一-鿿]{1,8}?)(?:就?是|为)(?!不)(?P<v>.+)"), "preference", "preference:favourite:{s}"),
    Rule(_r(rf"{_ME}{_NOT}{_LIKE}(?P<v>.+)"), "preference", "preference:{v}", -1, _NOT_LIKED),
    Rule(_r(rf"{_ME}(?:讨厌|討厭|厌恶|反感|受不了|痛恨)(?P<v>.+)"), "preference", "preference:{v}", -1, _NOT_LIKED),
    Rule(_r(rf"{_ME}(?:不能|不可以|{_NOT})(?:吃|喝|抽|碰)(?P<v>.+)"), "preference", "preference:{v}", -1, _NOT_LIKED),
    Rule(_r(rf"{_ME}{_LIKE}(?P<v>.+)"), "preference", "preference:{v}", 1, _NOT_LIKED),
    Rule(
        _r(r"(?:我|我们|我們)(?:已经|现在)?(?:不再?|再也不)(?:使用|用)(?P<v>.+)"),
        "preference",
        "preference:use:{v}",
        -1,
        _NOT_LIKED,
    ),
    Rule(
        _r(r"(?:我|我们|我們)(?:团队|平时|一直|通常|主要|都|现在|日常|统一|一般){1,3}(?:使用|用)(?!来)(?P<v>.+)"),
        "preference",
        "preference:use:{v}",
        1,
        _NOT_LIKED,
    ),
    Rule(
        _r(rf"(?:我|本人)(?:的(?:名字|大名|全名)(?:是|叫|叫做)|名叫|叫做|叫)\s*{_NAME}{_END}"),
        "identity",
        "identity:name",
        1,
        _NOT_A_NAME,
        True,
    ),
    Rule(
        _r(rf"(?:请|你?可以|大家都|以后|就|都|请你)*叫我\s*{_NAME}(?:就好|就行|就可以|吧|即可)?了?{_END}"),
        "identity",
        "identity:called",
        1,
        _NOT_A_NAME,
        True,
    ),
    Rule(_r(rf"{_ME}(?:已经)?(?:不再?)住在?(?P<v>.+)"), "identity", "identity:home", -1, _NOT_A_PLACE),
    Rule(
        _r(rf"{_ME}(?:已经)?(?:住在|住|定居在|定居于|生活在|家在|搬到了?|搬去了?)\s*(?P<v>.+)"),
        "identity",
        "identity:home",
        1,
        _NOT_A_PLACE,
    ),
    Rule(
        _r(rf"{_ME}(?:来自|來自|老家在|老家是|出生在|出生于)\s*(?P<v>.+)"),
        "identity",
        "identity:origin",
        1,
        _NOT_A_PLACE,
    ),
    Rule(
        _r(rf"{_ME}不在(?P<v>[^，。]{{1,20}}?)(?:工作|上班|任职)了?{_END}"),
        "identity",
        "identity:employer",
        -1,
        _NOT_A_WORKPLACE,
        True,
    ),
    Rule(
        _r(rf"{_ME}在(?P<v>[^，。]{{1,20}}?)(?:工作|上班|任职|实习)了?{_END}"),
        "identity",
        "identity:employer",
        1,
        _NOT_A_WORKPLACE,
        True,
    ),
    Rule(
        _r(rf"{_ME}在(?P<v>[^，。]{{1,20}}?)(?:上学|读书|读研|读博){_END}"),
        "identity",
        "identity:school",
        1,
        _NOT_A_WORKPLACE,
        True,
    ),
    Rule(
        _r(rf"{_ME}(?:对(?P<v>[^，。]{{1,20}}?)(?:严重|轻微|有点)?过敏)了?{_END}(?<!不过敏)(?<!不过敏了)"),
        "identity",
        "identity:allergy:{v}",
        1,
        re.compile("不$"),
        True,
    ),
    Rule(
        _r(rf"{_ME}对(?P<v>[^，。]{{1,20}}?)(?:已经)?不过敏了?{_END}"),
        "identity",
        "identity:allergy:{v}",
        -1,
        None,
        True,
    ),
    Rule(
        _r(rf"我(?:有)?(?P<v>[一-鿿]{{1,4}})(?:过敏症?|不耐受?){_END}"),
        "identity",
        "identity:allergy:{v}",
        1,
        re.compile("[不没对]"),
        True,
    ),
    Rule(
        _r(rf"我(?:今年|现在)?(?:已经)?(?P<v>\d{{1,3}}|[一二三四五六七八九十两]{{1,3}})岁了?{_END}"),
        "identity",
        "identity:age",
        1,
        None,
        True,
    ),
    Rule(
        _r(rf"我的?(?P<s>{_KIN})(?:的名字)?(?:叫做?|名叫|是叫){_NAME}{_END}"),
        "identity",
        "identity:{s}",
        1,
        _NOT_A_NAME,
        True,
        _MY_KIN,
    ),
    Rule(
        _r(rf"我的(?P<s>{_THINGS}|默认[一-鿿]{{1,6}}|首选[一-鿿]{{1,6}})(?:是|在|为|：|:)\s*(?!不)(?P<v>.+)"),
        "identity",
        "identity:{s}",
        1,
        None,
        False,
        _MY_THINGS,
    ),
    Rule(_r(r"我的(?:职业|工作)(?:是|为)\s*(?!不)(?P<v>.+)"), "identity", "identity:job"),
    # "不是…了" ends a job; without 了 it only says what one never was
    Rule(
        _r(rf"我(?:已经)?不(?:再)?是{_IS_MARK}(?P<v>(?:[\w ]{{0,8}}?){_JOB})了{_END}"),
        "identity",
        "identity:job",
        -1,
        _NOT_A_ROLE,
        True,
    ),
    Rule(
        _r(rf"我(?:已经)?不是{_IS_MARK}(?P<v>(?:[\w ]{{0,8}}?)(?:{_JOB}|{_IS}))了?{_END}"),
        "identity",
        "identity:is:{v}",
        -1,
        _NOT_A_ROLE,
        True,
    ),
    Rule(_r(rf"{_ME}是{_IS_MARK}{_ORIGIN}{_END}"), "identity", "identity:origin", 1, _NOT_A_ROLE, True),
    Rule(_r(rf"{_ME}是{_IS_MARK}(?P<v>[\w ]{{0,8}}?{_IS}){_END}"), "identity", "identity:is:{v}", 1, _NOT_A_ROLE, True),
    Rule(_r(rf"{_ME}是{_IS_MARK}(?P<v>[\w +]{{0,12}}?{_JOB}){_END}"), "identity", "identity:job", 1, _NOT_A_ROLE, True),
    Rule(_r(rf"{_ME}是做(?P<v>[\w +]{{1,12}})的{_END}"), "identity", "identity:job", 1, None, True),
    Rule(_r(rf"{_ME}吃素{_END}(?P<v>)"), "identity", "identity:is:素食者", 1, None, True),
    Rule(_r(r"我会说(?P<v>[一-鿿、和]{1,20}[语文话])"), "identity", "identity:language:{v}", 1, None, True),
    Rule(
        _r(
            r"我(?:家)?[有养]了?(?P<v>[一两二三四五\d][只个条匹对](?:\w{0,4}?)(?P<s>猫|狗|孩子|儿子|女儿"
            r"|兔子|鹦鹉|哥哥|弟弟|姐姐|妹妹))"
        ),
        "identity",
        "identity:has:{s}",
        1,
        None,
        True,
        {**_MY_KIN, "孩子": "child"},
    ),
)

NEGATED: Final = re.compile(r"(?:都|就|请|再|永远)?(?:不要|别|勿|不准|不许|不能|不可以)再?")
_NOT_ORDERED: Final = re.compile(
    r"^(?:都|再|就)?(?:我|他|她|它|会|可能|再说|肯定|的|还|有机会|没|不是|担心|着急|误会|介意"
    r"|生气|客气|见怪|放弃|难过|害怕|紧张|笑|怪|见外|走|这样|那样|这么|那么|忘了?我)"
    r"|今天|上面|下面|刚才|[这那][个段条份句行里张]|现在(?!起|开始)|暂时|这一?次|明天|先$"
)

INSTRUCTIONS: Final = (
    Rule(
        _r(
            r"(?:请你?(?:以后|今后)?(?:不要|别|勿|不准|永远不要|千万不要|千万别|绝对?不要)再?|(?:以后"
            r"|今后)(?:请你?)?(?:不要|别|不准|不许)再?|(?:永远|千万|绝对)不要|不要再)(?P<v>.+)"
        ),
        "instruction",
        "",
        -1,
        _NOT_ORDERED,
    ),
    Rule(
        _r(
            r"(?:請?请?你?(?:始终|一直|总是|永远|務必总是|务必总是|每次都?|務必"
            r"|务必)(?=[用使保给給以回先标按在把提附])|(?:请|請)你?(?:始终|一直|总是|永远|每次都?|始終)"
            r"|(?:以后|以後|今后|往后)(?:请|請|都请|每次都|都要|一律|都|你要)|从现在(?:起"
            r"|开始)[，,]?(?:请你?|都|你要)?|从今以后[，,]?(?:请你?)?|记得(?:以后|始终|每次都?))(?P<v>.+)"
        ),
        "instruction",
        "",
        1,
        _NOT_ORDERED,
    ),
)
