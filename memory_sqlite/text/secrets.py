"""Finding and masking secrets in text and in JSON values. No storage and no logging: text in, text out.

Called by ``transcripts`` (L0 with ``redact_secrets``) and by ``layers.standard`` (L1 to L3). Two ways to know a secret:
its own shape (``text.secret_shapes``) and the words before it (``text.secret_context``). Time is linear in the
text, for hostile text too (tested at 100,000 characters of each nasty kind).
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import Any, Final

from memory_sqlite.text.secret_context import FILLER, told
from memory_sqlite.text.secret_shapes import Span, shaped

_MASK: Final = re.compile(r"\[secret:[a-z-]{1,32}\]")
_SHORTEST: Final = 6
"""Shorter strings hold no secret: the shortest is a label of two characters, a separator and a value of three."""
_KNOWN_MAX: Final = 16_384
_PASSES: Final = 4
"""Masking one secret can uncover the next (its right-hand neighbour is gone). Hostile text must not make it go on."""


def find(text: str) -> list[tuple[int, int, str]]:
    """The secrets of ``text`` as (start, end, kind) in code points, in order and without overlap.

    Marks that ``mask`` left are no secrets. Where a shape and its context both match, the shape names the kind and the
    span covers both.
    """
    return list(_known(text) if len(text) <= _KNOWN_MAX else _search(text))


def _search(text: str) -> tuple[Span, ...]:
    if "[secret:" in text:
        text = _MASK.sub(lambda match: FILLER * len(match.group()), text)
    ranked = sorted([(span, 0) for span in shaped(text)] + [(span, 1) for span in told(text)])
    found: list[tuple[Span, int]] = []
    for span, rank in ranked:
        start, end, kind = span
        if start >= end:
            continue
        if found and start < found[-1][0][1]:
            (first, last, known), known_rank = found[-1]
            if rank < known_rank:
                known, known_rank = kind, rank
            found[-1] = ((first, max(last, end), known), known_rank)
        else:
            found.append((span, rank))
    return tuple(span for span, _ in found)


_known = lru_cache(maxsize=64)(_search)
"""One message's text is looked at as text, inside its raw record, for its episode and for its facts."""


def mask(text: str, *, keep_lines: bool = False) -> tuple[str, int]:
    """``text`` with every secret replaced by ``[secret:<kind>]``, and how many were replaced.

    With ``keep_lines`` the line ends inside a secret (a key block) stay, so that line numbers go on meaning the same.
    """
    count = 0
    for _ in range(_PASSES):
        spans = find(text)
        if not spans:
            break
        pieces, position = [], 0
        for start, end, kind in spans:
            pieces += [text[position:start], f"[secret:{kind}]"]
            if keep_lines:
                pieces.append("".join(character for character in text[start:end] if character in "\r\n"))
            position = end
        text = "".join(pieces) + text[position:]
        count += len(spans)
    return text, count


_JSON_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(:?)')


def mask_known(encoded: str, text: str) -> str:
    """Compact JSON with the secrets of ``text`` masked in its values.

    Blocks of one message are masked one by one, and only their joined text tells that one holds what another announced.
    """
    known = {text[start:end]: kind for start, end, kind in find(text) if end - start >= _SHORTEST}
    escaped = {json.dumps(value, ensure_ascii=False)[1:-1]: kind for value, kind in known.items()}
    if not any(value in encoded for value in escaped):
        return encoded

    def replaced(match: re.Match[str]) -> str:
        said = match[1]
        if not match[2]:
            for value, kind in escaped.items():
                said = said.replace(value, f"[secret:{kind}]")
        return f'"{said}"{match[2]}'

    return _JSON_STRING.sub(replaced, encoded)


_TOKEN_KINDS_WITHOUT_DIGEST: Final = frozenset({"bearer", "url-password", "private-key"})
"""May be short enough to be guessed from a digest."""


def mask_label(label: str) -> str:
    """An id or name with every issuer's token in it masked; different labels stay different by a digest of the token.

    Ids are compared, so the words around them say nothing and a number that could be a card is left alone.
    """
    if len(label) < _SHORTEST:
        return label
    pieces, position = [], 0
    for start, end, kind in sorted(span for span in shaped(label) if span[2] != "card"):
        if start < position:
            continue
        digest = hashlib.blake2b(label[start:end].encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        mark = f"[secret:{kind}]" if kind in _TOKEN_KINDS_WITHOUT_DIGEST else f"[secret:{kind}]{digest}"
        pieces += [label[position:start], mark]
        position = end
    return "".join(pieces) + label[position:]


_PASSWORD_NAMES: Final = ("password", "passwd", "passphrase", "passcode", "pwd")
_SECRET_NAMES: Final = (
    *("secret", "apikey", "privatekey", "secretkey", "accesskey", "encryptionkey", "signingkey", "secretaccesskey"),
    *(
        "token",
        "authorization",
        "credential",
        "credentials",
        "connectionstring",
        "cookie",
        "setcookie",
        "recoveryphrase",
    ),
)
# page and continuation tokens are cursors; a session key is the session's name here and not a key
_HARMLESS_NAMES: Final = (
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "cursortoken",
    "sessiontokencount",
)
_NO_LETTERS: Final = re.compile(r"[^a-z0-9]+")
_NO_SECRET: Final = re.compile(
    r"\s*(?:$|[$<{%]|\*{2,}|x{3,}$|null$|none$|true$|false$|\[secret:[a-z-]{1,32}\]$)", re.IGNORECASE
)


def _named(key: str) -> str | None:
    """Kind of secret that a JSON key promises, ``None`` for an ordinary key."""
    name = _NO_LETTERS.sub("", key.casefold())
    if name.endswith(_PASSWORD_NAMES) or name == "pin":
        return "password"
    if name.endswith(_SECRET_NAMES) and not name.endswith(_HARMLESS_NAMES):
        return "token" if name.endswith("token") else "secret"
    return None


def mask_json(value: Any) -> tuple[Any, int]:
    """A copy of a JSON value with the secrets in all its strings masked, and how many were replaced.

    A string below a telling key (``password``, ``api_key``, ``authorization``, ``clientSecret``, ``token``) is masked
    whole; a number below a password's key too. Keys are masked by the same rules as text. Depth is not limited by the
    interpreter's stack. ``value`` is not changed.
    """
    root: list[Any] = [value]
    count = 0
    todo: list[tuple[Any, Any, str | None]] = [(root, 0, None)]
    while todo:
        holder, place, kind = todo.pop()
        item = holder[place]
        if isinstance(item, str):
            if kind is None and len(item) < _SHORTEST:
                continue
            if kind is not None:
                if not _NO_SECRET.match(item):
                    holder[place] = f"[secret:{kind}]"
                    count += 1
                continue
            holder[place], found = mask(item)
            count += found
        elif kind == "password" and isinstance(item, int | float) and not isinstance(item, bool):
            holder[place] = "[secret:password]"
            count += 1
        elif isinstance(item, dict):
            copy: dict[Any, Any] = {}
            for key, child in item.items():
                name, found = mask(key) if isinstance(key, str) else (key, 0)
                count += found
                while name in copy:
                    name += "'"
                copy[name] = child
                # a key that held a secret itself promises what is left of it
                todo.append((copy, name, _named(_MASK.sub("", name)) if isinstance(name, str) else None))
            holder[place] = copy
        elif isinstance(item, list | tuple):
            children = list(item)
            holder[place] = children
            todo += [(children, index, kind) for index in range(len(children))]
    return root[0], count
