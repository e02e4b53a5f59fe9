"""Secrets as people paste them: on the line below their label, in a command, in a cookie header, as a seed phrase."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.text.secrets import find, mask

SEED = "abandon ability able about above absent absorb abstract absurd abuse access accident"
PASTED = [
    ("Here is my password:\nhunter2x9\nthanks", "Here is my password:\n[secret:password]\nthanks"),
    ("API key:\r\n  9f8a7b6c5d4e3f2a1b0c", "API key:\r\n  [secret:api-key]"),
    ("verification code:\n493817", "verification code:\n[secret:otp]"),
    ("密码：\nXk29mvQz81", "密码：\n[secret:password]"),
    (f"seed phrase: {SEED}", "seed phrase: [secret:passphrase]"),
    (f"my recovery phrase is {SEED}.", "my recovery phrase is [secret:passphrase]."),
    ("curl -u mika:s3cret9value https://x.example", "curl -u mika:[secret:url-password] https://x.example"),
    ("curl --user='mika:s3cret9value' x", "curl --user='mika:[secret:url-password]' x"),
    ("Cookie: theme=dark; sid=Zq7vRk2mXw9LtBc4", "Cookie: theme=dark; sid=[secret:cookie]"),
    ("Set-Cookie: sid=Zq7vRk2mXw9LtBc4; Path=/", "Set-Cookie: sid=[secret:cookie]; Path=/"),
]


@pytest.mark.parametrize(("text", "masked"), PASTED, ids=[text for text, _ in PASTED])
def test_a_pasted_secret_is_masked(text: str, masked: str) -> None:
    assert mask(text) == (masked, 1)


PROSE = [
    *(
        "Password:\nThe policy asks for 12 characters",
        "Password:\nrequired",
        "Password:\n12 characters",
        "key:\nvalue1",
    ),
    *("Tokens:\n- a1b2c3", "the secret:\ntea", "curl -u $USER:$PASS x", "tar -u a:b12", "docker run -u 1000:1000 x"),
    *("Cookie: yes please, two", "cookie: theme=dark", f"some words: {SEED}"),
    "the recovery phrase is kept in the vault that only the owner and the auditor may open",
]


@pytest.mark.parametrize("text", PROSE)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert mask(text) == (text, 0)


@pytest.mark.parametrize(
    "unit", ["password:\n", "password:\na1b2c3\n", "curl -u a:", "cookie: a=", "seed phrase: abc "]
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    started = time.process_time()
    find(text)
    assert time.process_time() - started < 1.0


def test_a_secret_in_a_block_below_its_label_is_in_no_layer(memory: Memory, tmp_path: Path) -> None:
    """Blocks of one message are one text: a label that ends one block speaks of the next."""
    blocks = [{"type": "text", "text": "granite password:"}, {"type": "text", "text": "hunter2pass99"}]
    receipt = memory.remember(session="s", messages=[{"role": "user", "content": blocks}])
    assert receipt.redactions == 1
    assert "hunter2pass99" not in repr(memory.search("granite password").hits)
    data = tmp_path / "data"
    assert all(b"hunter2pass99" not in path.read_bytes() for path in data.rglob("*") if path.is_file())
