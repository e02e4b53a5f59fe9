"""The English sentences that state a preference, who someone is, or a standing instruction.

Data for ``layers.english``.
Every pattern is matched at the start of a clause, lower and upper case alike, on text whose quotations are covered and
whose apostrophes are straight. ``v`` is the value. Rules are tried in order; the first that matches decides.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from memory_sqlite.layers.sentences import FILLER
from memory_sqlite.layers.slots import Kind
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """``slot`` may hold ``{v}`` and ``{s}``; ``extent`` says with what the fact ends: clause, name or match."""

    pattern: re.Pattern[str]
    kind: Kind
    slot: str
    polarity: Literal[1, -1] = 1
    extent: Literal["clause", "name", "match"] = "clause"
    bad: re.Pattern[str] | None = None


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ADV: Final = (
    r"(?:(?:really|truly|absolutely|also|just|still|always|quite|generally|usually|mostly|mainly"
    r"|normally|personally|definitely"
    r"|particularly|especially|actually|do|simply|totally|strongly|rather|now|both|honestly"
    r"|currently|very much)\s+){0,3}"
)
_IM: Final = r"i(?:'?m|\s+am)\s+" + _ADV
_NOT: Final = r"(?:don'?t|do\s+not|no\s+longer|never)\s+" + _ADV
_V: Final = r"(?P<v>\S.*)"

# what only this conversation gives a meaning to, idioms, and things said to the other side
_NOT_LIKED: Final = _re(
    r"(?:it|this|that|these|those|them|him|her|you|your|yours|one|both|all|how|what|where|who|why"
    r"|when|so|to|much|more)$"
    r"|(?:it|this|that|these|those|them|him|her|you|your|yours|how|what|where|who|why)\b(?!\s+when)"
    r"|the\s+(?:first|second|third|last|other|latter|former|new|old|idea|way|look|sound|change"
    r"|result|design|approach|option|version"
    r"|plan|draft|one|code|fix|suggestion|answer|output|part|fact|direction)\b"
    r"|to\s+(?:think|see|hear|know|believe|say|ask|bother|interrupt|admit|thank|point|hope)\b"
    r"|anything\b|nothing\b|right\b|some(?:one|thing)\b"
    r"|(?:a|an|any)\s+(?:look|quick)\b|(?:when|his|their|was|were|is|are|has|had|most|best)\b"
    r"|.*\b(?:this|these|those|them)\b"
)
# "I love the ocean" lasts; "I love the colour and texture" is about something at hand. To prefer is to choose anyway
_NOT_ENJOYED: Final = re.compile(
    _NOT_LIKED.pattern + r"|(?:all\s+)?the\s+(?-i:[a-z])[\w-]*(?:,?\s+(?-i:[a-z])|,)", re.IGNORECASE
)
_NOT_USED: Final = _re(r"(?:it|this|that|these|those|them|the|your|a|an|to|one|for|in|as|my)\b|(?:\S+\s+){6}")
_NOT_A_PLACE: Final = _re(
    r"(?:fear|hope|denial|dread|the\s+(?:moment|past|future|now)|constant|a\s+world|peace|sin|pain|here|there)\b"
)
_NOT_A_WORKPLACE: Final = _re(
    r"(?:night|nights|home|the\s+moment|a\s+time|now|hours|you|me|him|her|it|well|intended"
    r"|expected|progress|least|all|once|this|that|weekends?)\b"
)
_NOT_ORDERED: Final = _re(
    r"(?:mind|give\s+up|say\s+(?:never|die)|up\s+for|down\s+for|quit|look\s+back|judge"
    r"|underestimate|lose|doubt|settle|let\s+go|again|gonna|ever|been|happy|glad|nice|good|great"
    r"|fun|a|an|the|had|have\s+been|was|were|is|are|am|thought|knew|heard|saw|got|did"
    r"|went|felt|seen|done|wanted|i|we|he|she|it|they|you|my|his|her|their|this|that|there|here"
    r"|in|on|at|so|too|very|more|less|possible"
    r"|possibly|true|right|wrong|worth|late|loved|liked|enough|not|quite|one|some|something"
    r"|nothing|once|before|yet|better|trust\s+me)\b"
    r"|(?:(?!need|proceed|feed|embed|seed|exceed|succeed|bring|string|ring|sing|ping|shed)\w+(?:ed|ing))\b"
)
_ONE_OFF: Final = _re(
    r"(?:quit|worry|bother|apologi[sz]e|be\s+(?:sorry|mad|angry|upset|sad|afraid|scared)|laugh"
    r"|hesitate|mind|stop|leave|go|cry|panic|judge|get\s+me\s+wrong"
    r"|forget|give\s+up|tell\s+me\s+(?:that|it))\b|(?:do|say|use|delete|change|send|touch|run"
    r"|remove|edit|share|show|write|answer)\s+"
    r"(?:that|this|it|these|those|them|so)\b(?!\s+\w+\s+\w+)|.*\b(?:yet|for\s+now|right\s+now"
    r"|today|tonight|tomorrow|this\s+time|until|just\s+now|at\s+the\s+moment)$"
    r"|.*\b(?:this|these|those|above|below)\b"
)
_JOBS: Final = (
    r"(?:nurse|teacher|doctor|engineer|developer|programmer|designer|lawyer|student|scientist"
    r"|researcher|manager|writer|artist|chef|cook|pilot"
    r"|farmer|driver|accountant|architect|analyst|consultant|freelancer|founder|ceo|cto|professor"
    r"|lecturer|musician|photographer|journalist"
    r"|plumber|electrician|carpenter|mechanic|dentist|pharmacist|therapist|psychologist|librarian"
    r"|paramedic|firefighter|police\s+officer|soldier"
    r"|translator|editor|producer|director|entrepreneur|postdoc|phd|intern|admin|administrator"
    r"|sysadmin|technician|vet|veterinarian|barista|baker"
    r"|biologist|chemist|physicist|mathematician|economist|historian|surgeon|midwife|tutor|coach"
    r"|data\s+\w+ist|pm|product\s+manager)"
)
_ARE: Final = (
    r"(?:vegetarian|vegan|pescatarian|parent|father|mother|dad|mom|mum|grand(?:father|mother)"
    r"|widow(?:er)?|single\s+(?:mom|dad|parent)|morning\s+person"
    r"|night\s+owl|early\s+bird|beginner|native\s+(?:\w+\s+)?speaker|(?:\w+\s+)?citizen|christian"
    r"|muslim|buddhist|hindu|jew|atheist|smoker|non-?smoker"
    r"|runner|cyclist|climber|gamer|diabetic|celiac|coeliac|twin|lefty|introvert|extrovert|veteran|teetotal(?:l)?er)"
)
_STATES: Final = (
    r"(?:vegan|vegetarian|pescatarian|diabetic|left-?handed|right-?handed|colou?r-?blind|deaf"
    r"|blind|dyslexic|autistic|pregnant|married|divorced|widowed"
    r"|(?:lactose|gluten)[ -]intolerant|celiac|coeliac|hard\s+of\s+hearing|retired|self-employed"
    r"|unemployed|jewish|muslim|christian|buddhist|hindu"
    r"|german|french|italian|spanish|english|british|irish|scottish|american|canadian|mexican"
    r"|brazilian|chinese|japanese|korean|indian|australian"
    r"|dutch|belgian|swiss|austrian|norwegian|swedish|danish|finnish|polish|czech|russian"
    r"|ukrainian|turkish|greek|portuguese|vietnamese|thai)"
)
_KIN: Final = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|son|daughter|brother|sister|mother|father|mom"
    r"|mum|dad|dog|cat|boss|manager|baby)"
)
_THING: Final = (
    r"(?:time\s?zone|birthday|pronouns|job|occupation|profession|hometown|home\s+town"
    r"|native\s+language|mother\s+tongue|blood\s+type|shoe\s+size"
    r"|e-?mail(?:\s+address)?|phone(?:\s+number)?|address|company|employer|team|age|nationality"
    r"|diet|dietary\s+\w+|preferred\s+\w+|default\s+\w+"
    r"|operating\s+system|os|editor|shell|stack|religion|height|weight|hobby|hobbies|nickname"
    r"|github\s+(?:handle|username|user)|username)"
)
_NO_VALUE: Final = (
    r"(?:not|wrong|broken|missing|important|like|so|very|too|going|doing|great|good|bad|fine"
    r"|working|having|getting|really|pretty|awesome|amazing|the\s+(?:problem|issue|best))\b"
)
_NUMBER: Final = r"(?:an?|one|two|three|four|five|six|\d{1,2}|no)"
_OWNED: Final = (
    r"(?:dogs?|cats?|kids?|child(?:ren)?|sons?|daughters?|twins|brothers?|sisters?|siblings?"
    r"|horses?|parrots?|rabbits?|chickens)"
)
_ILL: Final = (
    r"(?:diabetes|asthma|celiac|coeliac|adhd|dyslexia|epilepsy|migraines|hay\s+fever|arthritis"
    r"|high\s+blood\s+pressure|tinnitus)"
)
_NAME: Final = rf"(?P<v>{FILLER}+|[^\W\d_][\w'.-]*(?:\s[^\W\d_][\w'-]*){{0,3}})"

RULES: Final = (
    Rule(
        _re(rf"my\s+(?:(?:full|first|last|real)\s+)?name(?:\s+is|'s)\s+{_NAME}"),
        "identity",
        "identity:name",
        extent="name",
    ),
    Rule(_re(rf"{_IM}(?:called|named)\s+{_NAME}"), "identity", "identity:name", extent="name"),
    Rule(
        _re(rf"(?:from\s+now\s+on,?\s+)?(?:(?:please|you\s+can|just|everyone\s+can)\s+)?call\s+me\s+{_NAME}"),
        "identity",
        "identity:called",
        extent="name",
    ),
    Rule(_re(rf"i\s+go\s+by\s+{_NAME}"), "identity", "identity:called", extent="name"),
    Rule(
        _re(rf"{_IM}not\s+(?:a\s+(?:big\s+|huge\s+|great\s+)?fan\s+of|fond\s+of|into|keen\s+on)\s+{_V}"),
        "preference",
        "preference:{v}",
        -1,
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(rf"{_IM}(?:a\s+(?:big\s+|huge\s+|great\s+)?fan\s+of|fond\s+of|into|keen\s+on)\s+{_V}"),
        "preference",
        "preference:{v}",
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(rf"{_IM}(?:not|no\s+longer)\s+allergic\s+to\s+{_V}"), "identity", "identity:allergy:{v}", -1, bad=_NOT_LIKED
    ),
    Rule(
        _re(rf"{_IM}(?:(?:severely|deathly|highly|mildly|slightly|very)\s+)?(?:allergic|intolerant)\s+to\s+{_V}"),
        "identity",
        "identity:allergy:{v}",
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(r"i\s+have\s+an?\s+(?:\w+\s+)?(?P<v>\w+(?:\s\w+)?)\s+allergy"),
        "identity",
        "identity:allergy:{v}",
        extent="match",
    ),
    Rule(
        _re(rf"{_IM}(?P<v>\d{{1,3}})(?:\s+years?\s+old)?(?=\s*(?:$|[.,;!]|and\b))"),
        "identity",
        "identity:age",
        extent="match",
    ),
    Rule(_re(rf"{_IM}(?:based|living)\s+in\s+{_V}"), "identity", "identity:home", bad=_NOT_A_PLACE),
    Rule(
        _re(rf"{_IM}(?:originally\s+)?from\s+{_V}|i\s+come\s+from\s+(?P<w>\S.*)"),
        "identity",
        "identity:origin",
        bad=_NOT_A_PLACE,
    ),
    Rule(
        _re(
            rf"{_IM}(?:no\s+longer\s+an?\s+|not\s+an?\s+(?=.*\bany\s?more\b))(?P<v>(?:[\w-]+\s+){{0,3}}{_JOBS})\b(?!-)"
        ),
        "identity",
        "identity:job",
        -1,
    ),
    Rule(
        _re(rf"{_IM}(?:not|no\s+longer)\s+(?:an?\s+)?(?P<v>(?:[\w-]+\s+){{0,2}}(?:{_JOBS}|{_ARE}|{_STATES}))\b(?!-)"),
        "identity",
        "identity:is:{v}",
        -1,
    ),
    Rule(_re(rf"{_IM}(?:an?|the)\s+(?P<v>(?:[\w-]+\s+){{0,3}}{_JOBS})\b(?!-)"), "identity", "identity:job"),
    Rule(_re(rf"{_IM}an?\s+(?P<v>(?:[\w-]+\s+){{0,2}}{_ARE})\b(?!-)"), "identity", "identity:is:{v}", extent="match"),
    Rule(
        _re(rf"{_IM}(?P<v>{_STATES})\b(?!-)(?!\s+(?:to|by|with|as|about)\b)"),
        "identity",
        "identity:is:{v}",
        extent="match",
    ),
    Rule(
        _re(
            rf"i\s+{_ADV}(?:hate|dislike|detest|despise|loathe|can'?t\s+(?:stand|bear)|cannot\s+(?:stand|bear))\s+{_V}"
        ),
        "preference",
        "preference:{v}",
        -1,
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(rf"i\s+{_ADV}{_NOT}(?:like|love|enjoy|prefer|care\s+for|eat|drink)\s+{_V}"),
        "preference",
        "preference:{v}",
        -1,
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(rf"i\s+(?:can'?t|cannot|can\s+not)\s+(?:eat|drink|tolerate)\s+{_V}"),
        "preference",
        "preference:{v}",
        -1,
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(rf"i(?:'ve|\s+have)\s+(?:always|long)\s+(?:liked|loved|enjoyed|preferred|adored)\s+{_V}"),
        "preference",
        "preference:{v}",
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(rf"i(?:'ve|\s+have)\s+(?:never\s+(?:liked|loved|enjoyed)|always\s+(?:hated|disliked))\s+{_V}"),
        "preference",
        "preference:{v}",
        -1,
        bad=_NOT_LIKED,
    ),
    Rule(_re(rf"(?:i|we)\s+{_ADV}(?:prefer|favou?r)\s+{_V}"), "preference", "preference:{v}", bad=_NOT_LIKED),
    Rule(_re(rf"(?:i|we)\s+{_ADV}(?:like|love|enjoy|adore)\s+{_V}"), "preference", "preference:{v}", bad=_NOT_ENJOYED),
    Rule(
        _re(rf"we\s+{_ADV}(?:{_NOT}(?:like|use|prefer)|hate|dislike)\s+{_V}"),
        "preference",
        "preference:{v}",
        -1,
        bad=_NOT_LIKED,
    ),
    Rule(
        _re(
            rf"my\s+(?:all-time\s+)?favou?rite\s+(?!one\b|part\b|thing\b|moment\b"
            rf"|memory\b)(?P<s>[\w][\w -]{{0,40}}?)\s+(?:is|are)\s+(?!not\b){_V}"
        ),
        "preference",
        "preference:favourite:{s}",
        bad=_NOT_LIKED,
    ),
    Rule(_re(rf"(?:i|we)\s+{_ADV}{_NOT}use\s+{_V}"), "preference", "preference:use:{v}", -1, bad=_NOT_USED),
    Rule(_re(rf"(?:i|we)\s+{_ADV}use\s+{_V}"), "preference", "preference:use:{v}", bad=_NOT_USED),
    Rule(_re(rf"i\s+{_NOT}live\s+in\s+{_V}"), "identity", "identity:home", -1, bad=_NOT_A_PLACE),
    Rule(
        _re(
            rf"i\s+{_ADV}live\s+in\s+{_V}|i(?:'ve|\s+have)?\s+(?:just\s+"
            rf"|recently\s+)?moved\s+to\s+(?P<w>(?-i:[^\Wa-z\d_]).*)"
        ),
        "identity",
        "identity:home",
        bad=_NOT_A_PLACE,
    ),
    Rule(_re(rf"i\s+{_NOT}work\s+(?:at|for)\s+{_V}"), "identity", "identity:employer", -1, bad=_NOT_A_WORKPLACE),
    Rule(
        _re(rf"i\s+{_ADV}work\s+as\s+(?!if\b|though\b|well\b|intended|expected){_V}"),
        "identity",
        "identity:job",
        bad=_NOT_A_WORKPLACE,
    ),
    Rule(_re(rf"i\s+{_ADV}work\s+(?:at|for)\s+{_V}"), "identity", "identity:employer", bad=_NOT_A_WORKPLACE),
    Rule(_re(rf"i\s+{_ADV}work\s+in\s+{_V}"), "identity", "identity:field", bad=_NOT_A_WORKPLACE),
    Rule(_re(rf"i\s+was\s+born\s+(?:in|on)\s+{_V}"), "identity", "identity:birth"),
    Rule(
        _re(rf"my\s+(?P<s>{_KIN})(?:'s\s+name\s+is|\s+is\s+(?:called|named))\s+{_NAME}"),
        "identity",
        "identity:{s}",
        extent="name",
    ),
    Rule(_re(rf"my\s+(?P<s>{_THING})\s+(?:is|are)\s+(?!{_NO_VALUE}){_V}"), "identity", "identity:{s}"),
    Rule(
        _re(r"i\s+speak\s+(?:fluent\s+|native\s+)?(?P<v>(?-i:[A-Z])\w+(?:(?:,\s*|\s+and\s+)(?-i:[A-Z])\w+)*)"),
        "identity",
        "identity:language:{v}",
        extent="match",
    ),
    Rule(_re(rf"i\s+have\s+(?P<v>{_NUMBER}\s+(?:\w+\s+)?(?P<s>{_OWNED}))\b"), "identity", "identity:has:{s}"),
    Rule(_re(rf"i\s+have\s+(?P<v>(?:type\s+\d\s+)?{_ILL})\b"), "identity", "identity:has:{v}", extent="match"),
)

_YOU: Final = (
    r"(?:(?:please|you\s+(?:should|must)|make\s+sure\s+(?:to|you)|be\s+sure\s+to|remember\s+to"
    r"|i(?:'d\s+like|\s+want|\s+need)\s+you\s+to)\s+)?"
)
_ON: Final = r"(?:from\s+now\s+on|from\s+here\s+on|going\s+forward|in\s+(?:the\s+)?future)"
_PRONOUN: Final = r"(?!(?:call\s+me|i|we|he|she|it|they|the|my|our|there|this|that)\b|i')"

OPENS: Final = _re(
    r"(?:i|im|my|we|call|please|you|just|everyone|always|never|from|going|in|don'?t|do|make|be"
    r"|remember|answer|reply|respond|use|write|keep|avoid|give|show"
    r"|format|speak|send|remind|add|include|skip|ask)\b"
)
"""What every rule begins with: one look instead of fifty for the clauses that say nothing."""

INSTRUCTIONS: Final = (
    Rule(_re(rf"(?:{_ON},?\s+)?{_YOU}always\s+{_V}"), "instruction", "", bad=_NOT_ORDERED),
    Rule(_re(rf"(?:{_ON},?\s+)?{_YOU}never\s+(?:ever\s+)?{_V}"), "instruction", "", -1, bad=_NOT_ORDERED),
    Rule(_re(rf"{_ON},?\s+(?:please\s+)?(?:don'?t|do\s+not|stop|avoid)\s+(?:ever\s+)?{_V}"), "instruction", "", -1),
    Rule(_re(rf"{_ON},?\s+(?:please\s+)?{_PRONOUN}{_V}"), "instruction", ""),
    Rule(
        _re(rf"(?:please\s+(?:don'?t|do\s+not)\s+(?:ever\s+)?|(?:don'?t|do\s+not)\s+ever\s+){_V}"),
        "instruction",
        "",
        -1,
        bad=_ONE_OFF,
    ),
    Rule(
        _re(
            r"(?:please\s+)?(?P<v>(?:answer|reply|respond|use|write|keep|avoid|give|show|format|speak"
            r"|send|remind|add|include|skip|ask|be)\b"
            rf".{{2,200}}?),?\s+{_ON}$"
        ),
        "instruction",
        "",
        extent="match",
    ),
)
