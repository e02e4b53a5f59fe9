"""Words that may follow ``password:`` or ``my password is`` without being one. Data for ``text.secret_context``."""

from __future__ import annotations

import re
from typing import Final

_NOT_A_VALUE_TEXT: Final = """
a about after again all already also always an and any anything are as asked at available back bad be because
been before best better both broken but by can cannot case-sensitive choose classified common compromised
confidential correct current data default different done easy either else empty enough enter even every expired
false field fine for forgotten from generated gone good great hard hashed have here hidden how if important in
incorrect input insecure int integer invalid is it its just know known leaked like locked long longer lost
mandatory maybe missing more must my necessary needed never new nil no none not nothing now null number obsolete
obvious of off ok okay old on one only optional or otherwise our out outdated over please plain pretty private
protected public quite random rather readable really required reset right safe safer same saved secret secure
see sensitive set shared short shorter simple simpler so some something sometimes stale still stored str string
strong stronger stuck supposed tbd that the their there they this to todo too true trivial type unchanged
undefined unique unknown unsafe up use user valid very visible we weak weaker what where which who with without
working wrong yes you your n/a redacted removed masked placeholder manager managers policy policies fields hash
hashes prompt rotation based authentication
"""
NOT_A_VALUE: Final = frozenset(_NOT_A_VALUE_TEXT.split())
"""Lower case. Prose, placeholders and types: none of them is taken for a secret."""

_UNITS_TEXT: Final = """
chars characters character letters digits words bytes bits days day weeks months years times minutes hours long
percent md5 sha1 sha256 sha512 base64 base32 argon2 argon2id pbkdf2 oauth2 oauth 2fa utf8 utf-8 1password ntlmv2
http2 bcrypt2 v1 v2 v3 x509 ed25519 rsa2048 rsa4096 aes256 aes128
"""
UNITS: Final = frozenset(_UNITS_TEXT.split())
"""What follows a number that is no password, and names with digits that are no secrets."""

_FUNCTION_WORDS_TEXT: Final = """
a an the is are was to of in on at for from with and or but not than that this it you your my we our be must
should can will has have had as by if so too very more less about
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS_TEXT.split())
"""One of these inside a run of words shows that the run is a sentence and not a passphrase."""

HAN_PROSE: Final = re.compile(
    r"[的了过吗呢吧在和或与被把从让给就都也很太]|^(?:什么|多少|错|对|不|要|可|需|由|用|多|空|正确|必|安全|弱|强|旧|新|以|存|放|一|同|随机"
    r"|自动|公司|系统|谁|哪|怎|啥|否|我|你|他|她|它|这|那|明文|加密|指|为|最|个|几)"
)
"""What makes a run of Chinese characters after ``密码是`` a sentence about a password and not one."""


def looks_like_prose(word: str) -> bool:
    """Whether a lower-case word after ``is`` is more likely a participle or adjective than a password."""
    return word in NOT_A_VALUE or word.endswith(("ed", "ing", "able", "ible", "less", "ful", "ly", "ary"))
