"""Secrets that are known by their own shape: issuers' token formats, key blocks, URLs with passwords, payment cards.

Only patterns and checks; which of several overlapping finds wins, and secrets told by the words around them, are in
``text.secrets`` and ``text.secret_context``. Formats are the issuers' documented prefixes and lengths; lengths are
taken a little looser than documented, because issuers lengthen them. Every pattern is linear: no nested repetition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

Span = tuple[int, int, str]

_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?P<anthropic_key>sk-ant-[A-Za-z0-9_-]{20,512})"
    r"|(?P<openai_key>sk-(?:proj-|svcacct-|admin-)?(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{20,512})"
    r"|(?P<stripe_key>(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{20,255})"
    r"|(?P<aws_key>(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9]))"
    r"|(?P<github_token>gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})"
    r"|(?P<gitlab_token>gl(?:pat|dt|rt|cbt|ptt|ft|oas|soat|agent)-[A-Za-z0-9_.-]{20,255})"
    r"|(?P<slack_token>xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255})"
    r"|(?P<google_key>AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,64}|ya29\.[A-Za-z0-9_-]{20,1024})"
    r"|(?P<npm_token>npm_[A-Za-z0-9]{30,255})"
    r"|(?P<pypi_token>pypi-[A-Za-z0-9_-]{32,1024})"
    r"|(?P<huggingface_token>hf_[A-Za-z0-9]{30,255})"
    r"|(?P<sendgrid_key>SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128})"
    r"|(?P<digitalocean_token>do[opr]_v1_[a-f0-9]{40,128})"
    r"|(?P<telegram_token>\d{8,10}:AA[A-Za-z0-9_-]{32,64})"
    r"|(?P<age_key>AGE-SECRET-KEY-1[A-Z0-9]{50,64})"
    r"|(?P<jwt>eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{4,8192}(?:\.[A-Za-z0-9_-]{0,4096})?)"
    r")"
)
_PREFIXES: Final = {
    "_": (
        *("sk_", "rk_", "pk_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        *("npm_", "hf_", "_v1_"),
    ),
    "-": (
        *("sk-", "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "gloas-", "glsoat-", "glagent-"),
        *("xapp-", "GOCSPX-", "pypi-", "AGE-SECRET"),
    ),
    "": ("AKIA", "ASIA", "ABIA", "ACCA", "xox", "AIza", "ya29.", "SG.", ":AA", "eyJ"),
}
"""Without any of these in the text none of the shapes can be: a plain look is ten times faster than the pattern. By a
character that those of a group have in common."""
_SLACK_HOOK: Final = re.compile(r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9_/-]{16,255})")
# a header or a curl argument; a digit is asked for so that "bearer authentication-schemes" stays
_BEARER: Final = re.compile(
    r"\b(?:bearer|basic)[ \t]{1,4}((?=[^\s\d]{0,200}\d)[A-Za-z0-9._~+/-]{16,4096}={0,2})", re.IGNORECASE
)
_AUTHORIZATION: Final = re.compile(
    r"\b(?:proxy-)?authorization\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?(?:(?:bearer|basic"
    r"|token|apikey|digest)[ \t]{1,4})?"
    r"([A-Za-z0-9._~+/-]{8,4096}={0,2})",
    re.IGNORECASE,
)
# U+FFFC stands for what an earlier pass has masked
_URL_PASSWORD: Final = re.compile(r"://[^\s/:@\"'<>\ufffc]{0,256}:([^\s/\"'<>\ufffc]{1,256})@")
_URL_TOKEN: Final = re.compile(r"://([A-Za-z0-9_-]{20,256})@")
_USER_OPTION: Final = re.compile(
    r"(?<=\s)(?:-u|--user)(?:[ \t]{1,4}|=)[\"']?[^\s:\"'\ufffc]{1,64}:([^\s\"'$<{\ufffc][^\s\"'\ufffc]{2,255})"
)
_COOKIES: Final = re.compile(r"\bcookie:[ \t]{0,4}([^\n]{1,4096})", re.IGNORECASE)
_COOKIE: Final = re.compile(r"=((?=[^\s;]{0,200}\d)[A-Za-z0-9._~+/%|:-]{16,4096}={0,2})")
_BLOCK_BEGIN: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_END: Final = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# without an END line (a cut paste) the block goes as far as lines look like base64 or armour headers
_BLOCK_BODY: Final = re.compile(
    r"(?:(?:\\n|\s){1,4}(?:[A-Za-z0-9+/=]{4,4096}|[A-Z][A-Za-z-]{2,20}: [^\n\ufffc]{0,200}))*"
)
# a digit first, and then what stands before it: asked the other way round, each character of a text is looked at twice
_CARD: Final = re.compile(r"[2-6](?<![\d.\-_A-Za-z].)\d{3}(?:[ -]?\d){10,12}(?![\d_A-Za-z]|[.-]\d)")


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def is_card(text: str) -> bool:
    """Whether ``text`` is a payment card number: an issuer's range, its length and the Luhn digit (ISO/IEC 7812)."""
    digits = text.replace(" ", "").replace("-", "")
    length = len(digits)
    if not digits.isascii() or not digits.isdigit() or len(set(digits)) < 2:
        return False
    first2, first4 = int(digits[:2]), int(digits[:4])
    known = (
        (length == 16 and (digits[0] == "4" or 51 <= first2 <= 55 or 2221 <= first4 <= 2720))
        or (length == 16 and (first4 == 6011 or first2 in (62, 64, 65) or 3528 <= first4 <= 3589))
        or (length == 15 and first2 in (34, 37))
        or (length == 14 and first2 in (30, 36, 38))
    )
    return known and _luhn(digits)


def _blocks(text: str) -> Iterator[Span]:
    ends = [match.span() for match in _BLOCK_END.finditer(text)]
    begins = [match.span() for match in _BLOCK_BEGIN.finditer(text)]
    done = closed = 0
    for index, (start, begun) in enumerate(begins):
        if start < done:
            continue
        following = begins[index + 1][0] if index + 1 < len(begins) else len(text)
        while closed < len(ends) and ends[closed][0] < begun:
            closed += 1
        if closed < len(ends) and ends[closed][0] < following:
            done = ends[closed][1]
        else:
            body = _BLOCK_BODY.match(text, begun, following)
            done = body.end() if body is not None else begun
        yield start, done, "private-key"


def shaped(text: str) -> Iterator[Span]:
    """Every find as (start, end, kind), in no order and possibly overlapping."""
    if "-----BEGIN" in text:
        yield from _blocks(text)
    if any(mark in text and any(prefix in text for prefix in group) for mark, group in _PREFIXES.items()):
        for match in _SHAPES.finditer(text):
            yield match.start(), match.end(), (match.lastgroup or "token").replace("_", "-")
    if "hooks.slack.com" in text:
        for match in _SLACK_HOOK.finditer(text):
            yield *match.span(1), "slack-token"
    lowered = text.lower()
    for words, pattern in ((("bearer", "basic"), _BEARER), (("authorization",), _AUTHORIZATION)):
        if any(word in lowered for word in words):
            for match in pattern.finditer(text):
                yield *match.span(1), "bearer"
    if "curl" in lowered:
        for match in _USER_OPTION.finditer(text):
            yield *match.span(1), "url-password"
    if "cookie:" in lowered:
        for line in _COOKIES.finditer(text):
            for match in _COOKIE.finditer(text, *line.span(1)):
                yield *match.span(1), "cookie"
    if "://" in text:
        for match in _URL_PASSWORD.finditer(text):
            if not match.group(1).startswith(("$", "{", "%", "*")):
                yield *match.span(1), "url-password"
        for match in _URL_TOKEN.finditer(text):
            if any(character.isdigit() for character in match.group(1)):
                yield *match.span(1), "url-password"
    for match in _CARD.finditer(text):
        if is_card(match.group()):
            yield *match.span(), "card"
