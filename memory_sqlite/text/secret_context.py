"""Secrets that are known by the words around them: ``my password is hunter2``, ``密码：…``, ``key=…``.

Masking loses text, so a telling word alone is never enough: what follows must be joined to it (``:``, ``=``, ``is``,
``是``, ``は``) and must not read on as prose, or must look made by a machine. English, Chinese, Japanese and the Korean
word for password. Called by ``text.secrets``; tokens with a shape of their own are in ``text.secret_shapes``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory_sqlite.text.secret_shapes import Span
from memory_sqlite.text.secret_words import FUNCTION_WORDS, HAN_PROSE, NOT_A_VALUE, UNITS, looks_like_prose

FILLER: Final = "\ufffc"
"""Stands for every character of an earlier mask: no value may contain it."""

# matched on lower-cased text and without word boundaries, because re finds its next candidate by the set of first
# characters only then (five times faster); ``_stands_alone`` looks at the boundaries
_LABEL: Final = re.compile(
    r"(?P<passphrase>pass[ _-]?phrase|(?:seed|recovery)[ _-]?phrase|mnemonic|助记词|助記詞)"
    r"|(?P<otp>otp|one[ -]time[ -](?:pass(?:word|code)|code)|2fa[ -]code|(?:recovery|backup|verification)[ -]code"
    r"|cv[vc]2?|验证码|驗證碼|確認コード)"
    r"|(?P<password>password|passwd|passcode|pwd|密码|密碼|口令|パスワード|パスコード|비밀번호|패스워드)"
    r"|(?P<pin>pin(?:[ -]?(?:code|number))?|pin码|暗証番号)"
    r"|(?P<api_key>(?:api|(?:secret[ _-]?)?access|secret|private|encryption|signing|account|sharedaccess)[ _-]?key"
    r"|密钥|秘钥|密鑰|私钥|金鑰|apiキー|アクセスキー|秘密鍵|シークレットキー)"
    r"|(?P<secret>(?:client|webhook|shared|app)[ _-]?secret|secret|シークレット)"
    r"|(?P<token>token|令牌|トークン)"
    r"|(?P<key>key)"
)
_WHOLE_WORDS: Final = ("otp", "pin", "key")
"""Kinds whose label is no part of a compound name: a cache_key is not a key."""
# looking for these is ten times faster than the pattern, and most texts hold few: the pattern is tried around them only
_STEMS: Final = (
    *("pass", "phrase", "mnemonic", "otp", "code", "cvv", "cvc", "pwd", "pin", "key", "secret", "token"),
    *("助记词", "助記詞", "验证码", "驗證碼", "密码", "密碼", "口令", "密钥", "秘钥", "密鑰", "私钥", "金鑰", "令牌"),
    *("コード", "キー", "パス", "番号", "鍵", "シークレット", "トークン", "비밀번호", "패스워드"),
)
_STEM_REACH: Final = 24
"""No label begins further than this before its stem, nor ends further than this behind the beginning of it: the longest
(``one-time passcode``, ``verification code``, ``sharedaccess_key``) have 17 characters."""
_AFTER: Final = re.compile(
    r"(?:[ \t]{0,3}[(（][^)）\n]{1,40}[)）]|[ \t]+(?:for|to|of|on|at)[ \t]+[^\n.:=;!?,]{1,40}?)?(?:"
    r"(?P<assign>\\?[\"'`*]{0,3}[ \t]{0,3}(?:=>|:=|->|→|[=＝:：])\*{0,2}[ \t]{0,3})"
    r"|(?P<copula>[ \t]+(?:(?:is|was|are|will be|equals)|(?:(?:is|was|has been)[ \t]+)?(?:changed|set|reset)[ \t]+to)"
    r"(?:[ \t]+(?:now|still|currently|actually|simply|just))?[ \t:]+"
    r"|[ \t]{0,2}(?:现在|目前)?(?:就?是|为|為|设为|设成|设置为|改成了?|改为了?|叫)[ \t]{0,2}"
    r"|[ \t]{0,2}[はがを][ \t]{0,2}|[은는][ \t]{0,2})"
    r")"
)
_BARE: Final = re.compile(r"[ \t]{1,3}")
_NEXT_LINE: Final = re.compile(r"[ \t]{0,8}\r?\n[ \t]{0,8}(?=[^\s\ufffc]{1,256}[ \t]{0,8}(?:\r?\n|$))")
"""``password:`` with its value alone on the next line, as people paste it and as blocks are joined."""
_SEED_LABELS: Final = ("seed", "recovery", "mnemonic", "助记词", "助記詞")
_SEED_LENGTHS: Final = frozenset({12, 15, 18, 21, 24})
"""Words of a BIP-39 phrase. Its list has words of 3 to 8 letters, ``about`` and ``that`` among them."""
_QUOTED: Final = re.compile(
    r"\\?(?:\"([^\"\n\ufffc]{1,256}?)\\?\"|'([^'\n\ufffc]{1,256}?)\\?'|`([^`\n\ufffc]{1,256})`)"
)
_QUOTED_CJK: Final = re.compile(r"[“「『]([^“”「」『』\n\ufffc]{1,256})[”」』]")
_JUDGED: Final = 160
_VALUE: Final = re.compile(rf"[^\s\ufffc\u3000-\u9fff\uac00-\ud7a3\uff01-\uff0f\uff1a-\uff20“”‘’…]{{1,{_JUDGED}}}")
"""A value is judged by its first 160 characters; what follows without a space belongs to it."""
_SEPARATOR: Final = re.compile(r"[&;,]|\\[\"']|[\"'`]")
_REST: Final = re.compile(r"[^\s\ufffc\u3000-\u9fff\uac00-\ud7a3\uff01-\uff0f\uff1a-\uff20“”‘’…\"'`&;,]*")
_HAN_VALUE: Final = re.compile(r"[\u4e00-\u9fff]{2,8}(?=$|[\s。，；！,.;!])")
_WORDS: Final = re.compile(r"[A-Za-z]{2,12}(?:[ \t]+[A-Za-z]{2,12}){2,23}(?=[ \t]*(?:$|[.\n;,!。，]))")
_CLAUSE_END: Final = re.compile(r"[ \t]*(?:$|[\n.,;!?)\]}。，；！？、）]|(?:and|but|so|でも|です|だ|で、)(?![a-z]))")
_WORD_FOLLOWS: Final = re.compile(r"[ \t]+([A-Za-z]+)")
_CODE: Final = re.compile(r"[A-Za-z_][\w.]*[(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+$|[A-Z]+(?:_[A-Z]+)*$|[$<{%]|https?:")
_HEX: Final = re.compile(r"(?:0x)?[0-9a-fA-F]{32,}$")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def _digit_and_letter(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _machine_made(value: str, length: int) -> bool:
    """Letters and digits mixed, long enough, no date, no path, no identifier of words."""
    head = value[:128]
    if len(head) < length or not _digit_and_letter(head) or _UUID.match(head) or _DATE.match(head):
        return False
    if head.count("/") > 1 or re.search(r"\.[A-Za-z]{1,4}$", head):
        return False
    # at least 8 different characters: "aaaaaaaaaaaaaaaa1" and "--------1a" are decoration
    return len(set(head)) >= min(8, length)


def _trimmed(value: str, assign: bool) -> str:
    if assign:
        # in a query string, a connection string or a list the value ends at the separator
        value = _SEPARATOR.split(value, maxsplit=1)[0]
    return value.rstrip(".,;:)]}>\"'`*?")


def _password(value: str, joint: str, text: str, end: int, label: str) -> bool:
    lowered = value.casefold()
    if len(value) < 3 or lowered in NOT_A_VALUE or lowered == label or _CODE.match(value):
        return False
    if len(set(value)) == 1 and value[0] in "*x•.-_#X":
        return False
    if joint == "bare":
        return len(value) >= 6 and _digit_and_letter(value) and lowered not in UNITS and not _DATE.match(value)
    if value.isdigit():
        return (len(value) >= 4 or joint == "assign") and _CLAUSE_END.match(text, end) is not None
    follows = _WORD_FOLLOWS.match(text, end)
    if follows is not None and follows.group(1).casefold() in UNITS:
        return False
    plain = value.replace("-", "").replace("'", "").isalpha() and (value.islower() or value.istitle())
    if not plain:
        return True
    if looks_like_prose(lowered):
        return False
    return _CLAUSE_END.match(text, end) is not None


def _accepted(kind: str, value: str, joint: str, text: str, end: int, label: str, quoted: bool) -> bool:
    if quoted and joint == "assign" and kind not in ("key", "token", "pin", "otp"):
        return len(value) >= 3 and value.casefold() not in NOT_A_VALUE and not re.match(r"[$<{%*]", value)
    if kind in ("pin", "otp"):
        least = 3 if label.startswith("cv") else 4
        if kind == "pin" and joint == "bare" and label == "pin":
            return False
        return value.isascii() and value.isdigit() and least <= len(value) <= 8
    if kind == "passphrase" and not quoted and _CLAUSE_END.match(text, end) is None:
        return False
    if kind in ("password", "passphrase"):
        return _password(value, joint, text, end, label)
    if _CODE.match(value) or value.casefold() in NOT_A_VALUE:
        return False
    if _HEX.match(value):
        return True
    if kind == "key":
        return joint == "assign" and _machine_made(value, 20)
    if joint == "bare":
        return _machine_made(value, 16)
    if kind == "api_key" and _UUID.match(value):
        return True
    return _machine_made(value, 8)


def _phrase(text: str, at: int, label: str) -> int | None:
    """End of a passphrase of plain words at ``at``; prose gives itself away by a function word."""
    words = _WORDS.match(text, at)
    if words is None:
        return None
    spoken = words.group().casefold().split()
    if label.startswith(_SEED_LABELS) and len(spoken) in _SEED_LENGTHS and all(3 <= len(word) <= 8 for word in spoken):
        return words.end()
    if any(word in FUNCTION_WORDS for word in spoken) or sum(map(looks_like_prose, spoken)) * 2 > len(spoken):
        return None
    return words.end()


def _stands_alone(text: str, match: re.Match[str]) -> bool:
    """The label is a word, or a part of a compound name (``DB_PASSWORD``, ``dbPassword``)."""
    start, end = match.span()
    if not text[start].isascii():
        return True
    before = text[start - 1] if start else " "
    if match.lastgroup in _WHOLE_WORDS and (before == "_" or before.isalnum()):
        return False
    if before.isascii() and before.isalpha() and not (before.islower() and text[start].isupper()):
        return False
    after = text[end] if end < len(text) else " "
    return not (after.isascii() and after.isalnum())


def _labels(lowered: str) -> Iterator[re.Match[str]]:
    """What ``_LABEL.finditer`` gives, five times faster on texts with few of its words."""
    stems: list[int] = []
    for stem in _STEMS:
        at = lowered.find(stem)
        while at >= 0:
            stems.append(at)
            at = lowered.find(stem, at + 1)
    done = 0
    for at in sorted(stems):
        if at < done:
            continue  # within the label before
        match = _LABEL.search(lowered, max(done, at - _STEM_REACH), at + 2 * _STEM_REACH)
        if match is not None and match.start() <= at:
            done = match.end()
            yield match


def told(text: str) -> Iterator[Span]:
    """Every value that a telling word before it makes a secret, as (start, end, kind), left to right."""
    done = 0
    lowered = text.lower()
    if len(lowered) != len(text):
        # a few capitals become two characters; positions must stay
        lowered = "".join(letter if len(small := letter.lower()) != 1 else small for letter in text)
    for match in _labels(lowered):
        if match.start() < done or not _stands_alone(text, match):
            continue
        after = _AFTER.match(text, match.end()) or _BARE.match(text, match.end())
        if after is None:
            continue
        kind, joint, at = match.lastgroup or "token", after.lastgroup or "bare", after.end()
        if joint == "assign" and (line := _NEXT_LINE.match(text, at)) is not None:
            joint, at = "bare", line.end()
        name, label = kind.replace("_", "-"), match.group()
        # "PIN 4711" in capitals is one; pin 12 of a connector is not
        label = "PIN" if text[match.start() : match.end()] == "PIN" else label
        span = _value_span(text, at, kind, joint, label)
        if span is not None:
            done = span[1]
            yield *span, name


def _value_span(text: str, at: int, kind: str, joint: str, label: str) -> tuple[int, int] | None:
    quoted = (_QUOTED.match(text, at) or _QUOTED_CJK.match(text, at)) if joint != "bare" else None
    if quoted is not None and quoted.lastindex is not None:
        start, end = quoted.span(quoted.lastindex)
        value = text[start:end]
        if " " in value and kind != "passphrase" and not (kind == "password" and joint == "assign"):
            return None
        return (start, end) if _accepted(kind, value, joint, text, quoted.end(), label, True) else None
    if kind == "passphrase" and joint != "bare" and (phrase_end := _phrase(text, at, label)) is not None:
        return at, phrase_end
    plain = _VALUE.match(text, at)
    if plain is not None:
        value = _trimmed(plain.group(), joint == "assign")
        end = at + len(value)
        if not value or not _accepted(kind, value, joint, text, end, label, False):
            return None
        if plain.end() - at == _JUDGED and _SEPARATOR.search(plain.group()) is None:
            rest = _REST.match(text, plain.end())
            end = rest.end() if rest is not None else end
        return at, end
    if kind == "password" and joint != "bare":
        han = _HAN_VALUE.match(text, at)
        if han is not None and not HAN_PROSE.search(han.group()):
            return han.span()
    return None
