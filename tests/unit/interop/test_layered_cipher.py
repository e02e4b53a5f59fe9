"""Encrypted lines of the layered-memory product: its vectors hold, and what was altered or is another's never opens."""

from __future__ import annotations

import base64
import json

import pytest

from memory_sqlite import errors
from memory_sqlite.interop.layered_cipher import CannotOpen, LineCipher, check_line, is_envelope, says_check

SECRET = b"a-demo-secret-with-at-least-32-bytes!"
CHECK = (
    '{"v":1,"iv":"AAECAwQFBgcICQoL","tag":"0BvKVowvhunNNzbA6Bu3YQ==",'
    '"data":"eZGQvAjwbx4nlGmj9vcTlNcoe8bN5yrW8+zXN9amQKuQcfHKkFfngHxFgjR3SXU="}'
)
FACT = (
    '{"v":1,"iv":"EBESExQVFhcYGRob","tag":"AAL1PSim2WROeKLQSLmdHg==","data":"jHwJA0Lc02RsOokceAQ7tGxZlTgJwEXQM3Zsei2d'
    "8dG85SVCIncXthtpMMoh7x5fI8eY6k4cpukWhKIQ3BB/ZZr7b0EK9EYgF1JWi5o6wOxwgMfvKZMOLoJctmixg8vMj8BbeVZK4W7AH1X8wHWmBqHE"
    "g+aYcRsbcUZNmDc31lbjksMpetB57DhpgKft0mNlwcqKhVwl2eJgU1ABKdJrqVLJk09/e+rNZWdeJqstqIBfiuee5c+fovBHCO/Ngrcv6dHGcgeb"
    "jDeSjNKO+UUOiMWhd477CWMJrjDgwTrE4xBmz1tshbCo9tUZ8jH4azx11HAA5NQ6uL1sV0m1//LrZbgqLcSBtX+FZ8DDqZ2AGOEWTWaw5+vF/J3F"
    "VRcfw5KiTDakWonX6ngOI6BVK2uwJHPoICJjnmdAJPLRS9ArCSmo0Ge20rKm1N3FKuOAedn2gj9qS9NXTezwyNbeuPmfHcZXA9rJqLFtErr/UzDP"
    'ePFs1GBaf2xXYaHb2wT3eqHiXt7B"}'
)
RECORD = (
    '{"id":"1784104200123_b1b2b3b4b5b6","level":"L3","type":"profile","content":"我喜欢用表格看报销明细",'
    '"keywords":["我喜欢用表格看报销明细","我喜","喜欢","欢用","用表","表格","格看","看报","报销","销明","明细"],'
    '"agentId":"main","sessionKey":"agent:main:wecom:dm:u-1001","senderId":"u-1001","runId":"run-7f3a",'
    '"createdAt":"2026-07-15T08:30:00.123Z"}'
)


def test_the_vectors_hold_both_ways() -> None:
    """The check line and an L3 record of the reference: opened to what they say, sealed to the same bytes."""
    cipher = LineCipher(SECRET)
    assert cipher.open(json.loads(CHECK)) == {"value": "openclaw-memory-v1", "encrypted": True}
    assert check_line(encrypted=True) == '{"value":"openclaw-memory-v1","encrypted":true}'
    assert cipher.seal(check_line(encrypted=True), bytes(range(12))) == CHECK
    assert cipher.open(json.loads(FACT)) == json.loads(RECORD)
    assert cipher.seal(RECORD, bytes(range(16, 28))) == FACT


@pytest.mark.parametrize("part", ["iv", "tag", "data"])
def test_no_altered_part_opens(part: str) -> None:
    """A flipped bit anywhere, a cut part, what is not base64: told, never taken for text."""
    cipher = LineCipher(SECRET)
    line = json.loads(CHECK)
    for altered in (
        ("B" if line[part][0] != "B" else "C") + line[part][1:],
        line[part][4:],
        line[part][:4] + "!" + line[part][4:],
        "",
    ):
        with pytest.raises(CannotOpen):
            cipher.open({**line, part: altered})


def test_bytes_do_not_move_between_the_parts() -> None:
    """A tag of 15 bytes whose first byte is the last of the data would say the same: it is no line of that product."""
    line = json.loads(CHECK)
    data, tag = (base64.b64decode(line[part]) for part in ("data", "tag"))
    moved = {"data": data + tag[:1], "tag": tag[1:]}
    with pytest.raises(CannotOpen, match="another length"):
        LineCipher(SECRET).open({**line, **{part: base64.b64encode(value).decode() for part, value in moved.items()}})


def test_another_secret_opens_nothing_and_a_short_one_is_none() -> None:
    with pytest.raises(CannotOpen):
        LineCipher(b"another-secret-with-at-least-32-bytes").open(json.loads(CHECK))
    with pytest.raises(errors.InvalidArgument, match="at least 32 bytes"):
        LineCipher(b"x" * 31)
    LineCipher(b"x" * 32)


def test_what_an_envelope_is() -> None:
    """An object with ``v`` 1 and three strings; JSON's ``true`` is not 1."""
    line = json.loads(CHECK)
    assert is_envelope(line) and is_envelope({**line, "v": 1.0, "more": 2})
    for other in ({**line, "v": True}, {**line, "v": 2}, {**line, "v": "1"}, {**line, "tag": None}, [line], "x", None):
        assert not is_envelope(other)


def test_what_the_check_says() -> None:
    """The value and the very mode; nothing that merely looks true."""
    assert says_check({"value": "openclaw-memory-v1", "encrypted": True}, encrypted=True)
    for other in (
        {"value": "openclaw-memory-v1", "encrypted": False},
        {"value": "openclaw-memory-v1", "encrypted": 1},
        {"value": "openclaw-memory-v2", "encrypted": True},
        {"encrypted": True},
        "openclaw-memory-v1",
    ):
        assert not says_check(other, encrypted=True)


def test_what_is_inside_must_be_json() -> None:
    """An envelope whose content is no JSON, no UTF-8 or nested beyond reason opens to nothing."""
    cipher = LineCipher(SECRET)
    for text in ("not json", "[" * 100_000, "9" * 6_000):
        with pytest.raises(CannotOpen):
            cipher.open(json.loads(cipher.seal(text, bytes(12))))
    assert cipher.open(json.loads(cipher.seal('{"a":NaN}', bytes(12)))) == {"a": None}
