"""Facts in English sentences: where clauses begin and end, and what in a sentence takes back what it says.

The patterns are in ``layers.english_rules``. Called by ``layers.standard`` for sentences with Latin letters.
"""

from __future__ import annotations

import re
from typing import Final

from memory_sqlite.layers.english_rules import INSTRUCTIONS, OPENS, RULES, Rule
from memory_sqlite.layers.sentences import FILLER, Sentence
from memory_sqlite.layers.slots import Found, instruction_slot, normal
from memory_sqlite.values import dataclass

# a new clause: after a comma, semicolon, bracket or dash, with or without a conjunction, or after a conjunction alone
_BOUNDARY: Final = re.compile(
    r"\s*[,;，；]\s*(?:(?P<hard>but|so|because|since|although|though)\s+|(?:and|plus|also"
    r"|or)\s+)*|\s*[()（）]\s*|\s+[-–—]+\s+|\s*—\s*|(?<=\w)-\s+"
    r"|\s+(?:(?P<conj>but|so|because|since)|and|plus)\s+",
    re.IGNORECASE,
)
_PREFIX: Final = re.compile(
    r"(?:(?:hi|hello|hey|well|ok|okay|yes|yeah|yep|no|nope|actually|btw|by the way|also|and|but"
    r"|so|fyi|ps|p\.s\.|note|update|correction|oh|ah|um|now"
    r"|honestly|personally|in general|generally|these days|nowadays|as you know|for the record"
    r"|just so you know|just to be clear|as i said|like i said"
    r"|(?:please |also |do |just )?(?:remember|note|keep in mind|don't forget"
    r"|bear in mind)(?: that)?|you should know(?: that)?|there|everyone|all|thanks|thank you"
    r"|sorry|unfortunately|luckily|as for me|for me|one more thing|one thing|about me|first"
    r"|second|finally|today|currently)\b[\s,:!—–-]*){0,4}",
    re.IGNORECASE,
)
_FRESH: Final = re.compile(
    r"(?:i|you|we|he|she|they|it|this|that|there|these|those|what|which|where|when|how|who|why"
    r"|whose|can|could|would|should|will|do|does|did|is|are|am|was"
    r"|let|let's|please|thanks|thank|thx|cheers|if|unless|my|our|any|recommend|suggest|give|show"
    r"|help|tell|right|ok|okay|correct|isn't|don't|aren't|by the way|btw|the|not|'?cause"
    r"|so|but|because|however|yet|for example|e\.g\.|always|never|from now)\b|i'",
    re.IGNORECASE,
)
_FRESH_AFTER_AND: Final = re.compile(
    r"(?:i|you|we|he|she|they|it|my|our|please|can|could|what|how|would|should|will|let's|always"
    r"|never|want|need|would)\b|i'",
    re.IGNORECASE,
)
# what before a clause takes it out of the speaker's mouth or out of the real world
_GUARD: Final = re.compile(
    r"\b(?:if|unless|suppose|supposing|imagine|pretend|assume|assuming|say|said|says|saying|told"
    r"|tells|tell|thinks?|thought|claims?|claimed|wrote|writes|asked"
    r"|asks|heard|hears|whether|would|when|whenever|wish|hope|hopes|maybe|perhaps|might"
    r"|hypothetically|once upon|as though|believes?|until|quotes?|sings?)\b",
    re.IGNORECASE,
)
_OWN_SAYING: Final = re.compile(
    r"\b(?:as|like) i (?:said|mentioned|told you|wrote)\b|\bi'?d say\b|\blet me tell you\b", re.IGNORECASE
)
_ATTRIBUTED: Final = re.compile(
    r"[\s,—–-]*(?:(?:she|he|they|[\w'.-]+(?:\s[\w'.-]+)?)\s+(?:said|says|replied|wrote|writes"
    r"|asked|whispered|told|claims|claimed)"
    r"|(?:said|says|wrote|replied|asked)\s+\w+|according\s+to)\b(?<!\bi said)(?<!\bi wrote)",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"(?:(?:so|and|but)\s+)?(?:what|which|where|how|who|when|why|can|could|would|will|should|do"
    r"|does|did|is|are|any|got|have|recommend|suggest|may)\b",
    re.IGNORECASE,
)
_TAG: Final = re.compile(
    r"(?:right|correct|ok|okay|yes|no|isn'?t (?:it|that so)|don'?t i|do i|aren'?t i|am i(?: not)?"
    r"|is that (?:right|so|correct)|or not|or do i|or am i|haven'?t i)\W*$",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(r"\b(?:if|unless)\b(?!\s+(?:possible|you can|available))", re.IGNORECASE)
_PAST_COMPARED: Final = re.compile(
    r"\s+(?:over|rather\s+than|instead\s+of|more\s+than|better\s+than|than)\s+.*$|(?<!^)\s+to\s+\w+$",
    re.IGNORECASE | re.DOTALL,
)
_PLACE_OF_WORK: Final = re.compile(r"\s+(?:at|in|for|from|with|who|by|and)\s.*$", re.IGNORECASE | re.DOTALL)
_SUBJECTS: Final = {
    **dict.fromkeys(("e-mail", "e-mail address", "email address"), "email"),
    **dict.fromkeys(("mom", "mum"), "mother"),
    **dict.fromkeys(("occupation", "profession"), "job"),
    "timezone": "time zone",
    "phone number": "phone",
    "dad": "father",
    "home town": "hometown",
    "mother tongue": "native language",
}
"""Other names of the same matter; the Chinese and Japanese rules use these names too."""
_USED_TO: Final = re.compile(r"\bused\s+to\b", re.IGNORECASE)

_NOT_A_NAME_TEXT: Final = """
not hard important unusual difficult common spelled spelt pronounced being in on listed missing wrong misspelled
still also the a an same later back tomorrow today tonight now when at if before after asap crazy maybe
old-fashioned anytime any again by whatever what it this that stupid lazy paranoid sir from to for and or so
never always only please soon once every there here sorry ok okay fine good done ready
"""
_NOT_A_NAME: Final = frozenset(_NOT_A_NAME_TEXT.split())
_PARTICLES_TEXT: Final = """
van de der von bin ibn al la da di del du den ten ter le el zu
"""
_PARTICLES: Final = frozenset(_PARTICLES_TEXT.split())
_INTRODUCED: Final = re.compile(
    r"(?:I'm|I am|i'm"
    r"|i am) (?P<v>[^\W\da-z_][\w'-]*[a-z][\w'-]*(?: [^\W\da-z_][\w'-]*[a-z][\w'-]*)?)(?=\s*(?:$"
    r"|[.,;!]|and\b))"
)
_NO_INTRODUCTION: Final = re.compile(
    r"(?:Sorry|Back|Fine|Good|Done|Here|Happy|Sad|Tired|Ready|Not|Sure|Going|Ok|Okay|Glad|Just"
    r"|Still|Also|So|Very|Really|Still|Home|Late|Busy|Lost|Hungry|Sick|Afraid"
    r"|Great|Well|Grateful|Confused|Excited|\w+ing|\w+ed|\w+ish|\w+ian|\w+ese|\w+ean|German"
    r"|French|Dutch|Czech|Greek|Thai|Swiss|Vegan|Jewish|Muslim|Christian)\b"
)


@dataclass(frozen=True, slots=True)
class _Match:
    rule: Rule
    start: int
    value: tuple[int, int]
    end: int
    """Of what the pattern matched."""
    subject: str


def _name_end(text: str, start: int, end: int, limit: int) -> int | None:
    """End of the name at ``start``: capitalised words, or one word of any case that ends its clause."""
    if text[start:end].strip(FILLER) == "":
        return end
    last = start
    for word in re.finditer(r"\S+", text[start:end]):
        token = word.group().rstrip(".'-")
        lowered = token.casefold()
        if lowered in _NOT_A_NAME and not (last > start and token[:1].isupper()):
            break
        if not (token[:1].isupper() or lowered in _PARTICLES or not token.isascii()):
            if last == start:
                tail = text[start + word.start() + len(token) : limit]
                alone = re.match(r"\s*(?:$|[.,;!)]|and\b|but\b|please\b|now\b|instead\b|from now\b)", tail)
                return start + word.start() + len(token) if alone is not None and len(token) > 1 else None
            break
        last = start + word.start() + len(token)
    return last if last > start else None


def _match(text: str, covered: str, at: int, limit: int, first: bool) -> _Match | None:
    if OPENS.match(covered, at, limit) is None:
        return None
    for rule in (*INSTRUCTIONS, *RULES) if first else RULES:
        match = rule.pattern.match(covered, at, limit)
        if match is None:
            continue
        group = "v" if match["v"] is not None else "w"
        start, end = match.span(group)
        if rule.bad is not None and rule.bad.match(covered, start, limit) is not None:
            return None
        whole = match.end()
        if rule.extent == "name":
            name_end = _name_end(text, start, end, limit)
            if name_end is None:
                return None
            end = whole = name_end
        subject = match["s"] if "s" in rule.pattern.groupindex else ""
        return _Match(rule, at, (start, end), whole, subject or "")
    introduced = _INTRODUCED.match(covered, at, limit)
    if introduced is not None and _NO_INTRODUCTION.match(introduced["v"]) is None:
        return _Match(RULES[0], at, introduced.span("v"), introduced.end(), "")
    return None


def _fact_end(covered: str, match: _Match, boundaries: list[re.Match[str]], starts: set[int], limit: int) -> int:
    if match.rule.extent in ("name", "match"):
        return match.end
    for boundary in boundaries:
        if boundary.start() < match.value[0]:
            continue
        comma = boundary.group().strip().lower() not in ("and", "plus")
        fresh = _FRESH if comma else _FRESH_AFTER_AND
        if (
            boundary["hard"]
            or boundary["conj"]
            or boundary.end() in starts
            or fresh.match(covered, boundary.end(), limit)
        ):
            return boundary.start()
    return limit


def _denied(covered: str, sentence: Sentence, clause: int, match: _Match, end: int) -> bool:
    before = _OWN_SAYING.sub("", covered[sentence.start : clause])
    if _GUARD.search(before) is not None or _USED_TO.search(covered, match.start, end) is not None:
        return True
    rest = covered[end : sentence.end]
    if _ATTRIBUTED.match(rest) is not None:
        return True
    if match.rule.kind != "instruction" and _CONDITION.search(covered, match.value[0], end) is not None:
        return True
    if sentence.question:
        asked = re.sub(r"^[\s,;—–(-]+", "", rest)
        return _ASKS.match(asked) is None or _TAG.match(asked) is not None
    return False


def find(text: str, covered: str, sentence: Sentence) -> list[Found]:
    """The facts of one sentence, left to right, without overlap. ``covered`` is ``own_speech`` of ``text``."""
    plain = covered.replace("’", "'")
    limit = sentence.end
    boundaries = [match for match in _BOUNDARY.finditer(plain, sentence.start, limit) if match.end() > match.start()]
    matches: list[tuple[int, _Match]] = []
    for number, clause in enumerate([sentence.start, *(boundary.end() for boundary in boundaries)]):
        prefix = _PREFIX.match(plain, clause, limit)
        at = prefix.end() if prefix is not None else clause
        match = _match(text, plain, at, limit, number == 0) or (
            _match(text, plain, clause, limit, number == 0) if at != clause else None
        )
        if match is not None and (not matches or match.start > matches[-1][1].start):
            matches.append((clause, match))
    starts = {clause for clause, _ in matches} | {match.start for _, match in matches}
    found: list[Found] = []
    for clause, match in matches:
        end = _fact_end(plain, match, boundaries, starts, limit)
        while end > match.start and (plain[end - 1].isspace() or plain[end - 1] in ",;:—–-*_)"):
            end -= 1
        if (
            end <= match.value[0]
            or (found and match.start < found[-1].end)
            or _denied(plain, sentence, clause, match, end)
        ):
            continue
        fact = _found(text, match, end)
        if fact is not None:
            found.append(fact)
    return found


def _found(text: str, match: _Match, end: int) -> Found | None:
    rule = match.rule
    raw = text[match.value[0] : min(end, match.value[1]) if rule.extent != "clause" else end]
    if rule.slot == "identity:job":
        raw = _PLACE_OF_WORK.sub("", raw)
    if rule.kind == "instruction":
        slot, value = instruction_slot(raw, rule.polarity)
    else:
        chosen = "prefer" in text[match.start : match.value[0]].lower() and not raw.lower().startswith("to ")
        value = normal(_PAST_COMPARED.sub("", raw) if chosen else raw)
        subject = normal(match.subject)
        slot = rule.slot.format(v=value, s=_SUBJECTS.get(subject, subject)) if value else ""
    return Found(match.start, end, rule.kind, slot, value, rule.polarity) if value else None
