"""What is a secret and what is prose: masking loses text, so both sides of the line are held by a table."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from memory_sqlite.text.secret_shapes import is_card
from memory_sqlite.text.secrets import find, mask, mask_json

# prefixes and bodies are joined here so that no scanner takes this file for a leak
BODY = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SHAPED = [
    ("anthropic-key", "sk-ant-" + "api03-" + BODY),
    ("openai-key", "sk-" + "proj-" + BODY),
    ("openai-key", "sk-" + BODY),
    ("aws-key", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("github-token", "ghp_" + BODY),
    ("github-token", "github_pat_" + BODY),
    ("gitlab-token", "glpat-" + BODY[:20]),
    ("slack-token", "xoxb-" + "123456789012-" + BODY),
    ("google-key", "AIza" + BODY[:35]),
    ("stripe-key", "sk_" + "live_" + BODY),
    ("npm-token", "npm_" + BODY),
    ("pypi-token", "pypi-" + BODY + BODY),
    ("huggingface-token", "hf_" + BODY),
    ("sendgrid-key", "SG." + BODY[:22] + "." + BODY),
    ("telegram-token", "123456789:AA" + BODY[:33]),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl"),
    ("card", "4111 1111 1111 1111"),
    ("card", "378282246310005"),
]


@pytest.mark.parametrize(("kind", "secret"), SHAPED)
@pytest.mark.parametrize("frame", ["{}", "here it is: {} ok?", "用{}吧", "({})"])
def test_a_token_is_known_by_its_shape(kind: str, secret: str, frame: str) -> None:
    text = frame.format(secret)
    start = text.index(secret)
    assert find(text) == [(start, start + len(secret), kind)]
    assert mask(text) == (frame.format(f"[secret:{kind}]"), 1)


TOLD = [
    ("my password is hunter2", "my password is [secret:password]"),
    ("My password is swordfish.", "My password is [secret:password]."),
    ("password: hunter2", "password: [secret:password]"),
    ("Password: correcthorse", "Password: [secret:password]"),
    ("**Password:** hunter2!", "**Password:** [secret:password]"),
    ("the wifi password is Sommer-2024", "the wifi password is [secret:password]"),
    ("the password for the router is tr4nsit", "the password for the router is [secret:password]"),
    ('password = "my secret one"', 'password = "[secret:password]"'),
    ("DB_PASSWORD=swordfish", "DB_PASSWORD=[secret:password]"),
    ("dbPassword=abc123", "dbPassword=[secret:password]"),
    ("export OPENAI_API_KEY=abcdEFGH1234ijkl", "export OPENAI_API_KEY=[secret:api-key]"),
    ('{"password":"x7y"}', '{"password":"[secret:password]"}'),
    ('{\\"password\\": \\"hunter2\\"}', '{\\"password\\": \\"[secret:password]\\"}'),
    ("我的密码是 hunter2", "我的密码是 [secret:password]"),
    ("我的密码是hunter2，别告诉别人", "我的密码是[secret:password]，别告诉别人"),
    ("密码：hunter2", "密码：[secret:password]"),
    ("请不要透露我的密码 hunter2", "请不要透露我的密码 [secret:password]"),
    ("口令是芝麻开门", "口令是[secret:password]"),
    ("パスワードは hunter2 です", "パスワードは [secret:password] です"),
    ("パスワードはhunter2です", "パスワードは[secret:password]です"),
    ("暗証番号は4711です", "暗証番号は[secret:pin]です"),
    ("비밀번호는 hunter2", "비밀번호는 [secret:password]"),
    ("PIN 4711", "PIN [secret:pin]"),
    ("my pin is 4711", "my pin is [secret:pin]"),
    ("API key 9f8a7b6c5d4e3f2a1b0c", "API key [secret:api-key]"),
    ("api_key: 3b241101-e2bb-4255-8caf-4136c566a962", "api_key: [secret:api-key]"),
    ("passphrase: correct horse battery staple", "passphrase: [secret:passphrase]"),
    ("my passphrase is correct horse battery staple.", "my passphrase is [secret:passphrase]."),
    ("token: abc123def456", "token: [secret:token]"),
    ("Authorization: Bearer abcdefghijklmnop123456", "Authorization: Bearer [secret:bearer]"),
    ('curl -H "Authorization: token abcdef123456"', 'curl -H "Authorization: token [secret:bearer]"'),
    ("postgres://ada:s3cret@db.example/x", "postgres://ada:[secret:url-password]@db.example/x"),
    ("Server=db;User Id=ada;Password=s3cret;Port=5", "Server=db;User Id=ada;Password=[secret:password];Port=5"),
    ("https://x.example/?token=abc123def456&page=2", "https://x.example/?token=[secret:token]&page=2"),
    ("key=Zm9vYmFyMTIzNDU2Nzg5MDEyMw", "key=[secret:key]"),
    ("secret token 0123456789abcdef0123456789abcdef", "secret token [secret:token]"),
    ("cvv 123", "cvv [secret:otp]"),
]


@pytest.mark.parametrize(("text", "masked"), TOLD, ids=[text for text, _ in TOLD])
def test_a_secret_is_known_by_the_words_before_it(text: str, masked: str) -> None:
    assert mask(text) == (masked, 1)


PROSE = [
    *('"sessionKey":"agent:main:wecom:dm:u-1001"', "cache_key=a1b2c3d4e5f6g7h8i9j0k", "Passphrase: chacha20 25 ms"),
    *("the password policy", "I forgot my password", "my password is expired", "my password is wrong"),
    *("my password is too weak", "The password is case-sensitive", "password: required"),
    *("Password must contain 8 characters", "password is 12 characters long", "password for the router: see the vault"),
    *("commit 9f3c2ab17d1e4b6a8c0d2e4f6a8b0c2d4e6f8a0b", "3b241101-e2bb-4255-8caf-4136c566a962"),
    *("request id 3b241101-e2bb-4255-8caf-4136c566a962", "code 9f3c2ab1", "the vault phrase is copper heron"),
    *("JIRA-1234", "max_tokens=4096", "tokens: 123", "token count is 12", "password = getpass()"),
    *('password = os.environ["DB"]', "password=password", "token = get_token()", "token: string", "key: value"),
    *("the key is under the mat", "primary key: user_id", "monkey: gorilla1234567890abcdef", "密码是什么？"),
    *(
        "我忘记密码了",
        "密码是错的",
        "密码策略",
        "パスワードを忘れました",
        "パスワードは何ですか",
        "パスワードはbcryptで保存",
    ),
    *("my secret is that I sing", "The secret to good tea is time", "pin 12 of the connector", "The PIN pad is broken"),
    *("passphrase is longer than before", "my token expired 2026-03-01T10:00:00Z", "1784104200123456"),
    *("my pin is lost", 'password: str = ""', "password: ${DB_PASSWORD}", "the password was changed yesterday"),
    *("use sk-learn-for-everything-here", "http://localhost:8080/a@b", "4111 1111 1111 1112", "ERR_CONN_REFUSED"),
    *("bearer authentication schemes", "password: ********", "api_key=API_KEY", "secret: <your secret here>"),
]


@pytest.mark.parametrize("text", PROSE)
def test_ordinary_prose_is_left_as_it_is(text: str) -> None:
    assert mask(text) == (text, 0)


def test_a_private_key_block_is_one_secret_even_when_the_paste_was_cut() -> None:
    begin, end = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    body = "\nMIIEpAIBAAKCAQEA7\nabcdefghijk0123456789+/==\n"
    assert mask(f"key:\n{begin}{body}{end}\nthanks") == ("key:\n[secret:private-key]\nthanks", 1)
    cut, count = mask(f"{begin}{body}and then I stopped.")
    assert (cut, count) == ("[secret:private-key]\nand then I stopped.", 1)


def test_a_long_token_is_masked_to_its_end() -> None:
    value = "a1b2c3d4e5" * 100
    assert mask(f"token: {value} end") == ("token: [secret:token] end", 1)


def test_several_secrets_in_one_text_and_a_second_pass_changes_nothing() -> None:
    text = "password: hunter2, PIN 4711 and AKIA" + "IOSFODNN7EXAMPLE"
    masked, count = mask(text)
    assert (masked, count) == ("password: [secret:password], PIN [secret:pin] and [secret:aws-key]", 3)
    assert mask(masked) == (masked, 0)


@pytest.mark.parametrize(
    ("digits", "card"),
    [
        ("4111111111111111", True),
        ("5555 5555 5555 4444", True),
        ("3530-1113-3330-0000", True),
        ("4111111111111112", False),
        ("4444444444444444", False),
        ("1784104200120000", False),
        ("9876543210123456", False),
        ("", False),
    ],
)
def test_card_numbers_need_an_issuer_and_the_luhn_digit(digits: str, card: bool) -> None:
    assert is_card(digits) is card


JSON_ROWS: list[tuple[Any, Any, int]] = [
    ({"password": "x"}, {"password": "[secret:password]"}, 1),
    ({"token": "abc", "tokens": 123}, {"token": "[secret:token]", "tokens": 123}, 1),
    ({"apiKey": "k", "client_secret": "s"}, {"apiKey": "[secret:secret]", "client_secret": "[secret:secret]"}, 2),
    ({"headers": {"Authorization": "Bearer z"}}, {"headers": {"Authorization": "[secret:secret]"}}, 1),
    ({"password": 4711, "pin": "1"}, {"password": "[secret:password]", "pin": "[secret:password]"}, 2),
    ({"password": ["a", {"note": "b"}]}, {"password": ["[secret:password]", {"note": "b"}]}, 1),
    (
        {"nextPageToken": "abc", "session_key": "s1", "key": "v"},
        {"nextPageToken": "abc", "session_key": "s1", "key": "v"},
        0,
    ),
    ({"password": "", "secret": None, "token": True}, {"password": "", "secret": None, "token": True}, 0),
    ({"password": "${DB}", "token": "[secret:token]"}, {"password": "${DB}", "token": "[secret:token]"}, 0),
    (["my password is hunter2", 3, None], ["my password is [secret:password]", 3, None], 1),
    ("plain", "plain", 0),
    ({"arguments": '{"password": "hunter2"}'}, {"arguments": '{"password": "[secret:password]"}'}, 1),
]


@pytest.mark.parametrize(("value", "masked", "count"), JSON_ROWS)
def test_json_values_are_masked_by_text_and_by_key(value: Any, masked: Any, count: int) -> None:
    before = json.dumps(value)
    assert mask_json(value) == (masked, count)
    assert json.dumps(value) == before, "the value given is not changed"


def test_json_depth_is_not_bounded_by_the_stack() -> None:
    value: Any = "my password is hunter2"
    for _ in range(5_000):
        value = [value]
    masked, count = mask_json(value)
    for _ in range(5_000):
        (masked,) = masked
    assert (masked, count) == ("my password is [secret:password]", 1)


def test_json_keys_that_hold_secrets_are_masked_without_losing_entries() -> None:
    first, second = "ghp_" + BODY, "ghp_" + BODY[::-1]
    masked, count = mask_json({first: 1, second: 2})
    assert (masked, count) == ({"[secret:github-token]": 1, "[secret:github-token]'": 2}, 2)


HOSTILE = [
    *("password ", "password: ", "token=", "key:", "pin ", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-", "sk-a", "://:"),
    *("://a:b", "4111 ", "411111111", "AKIA", "Bearer ", "authorization:", "a", "=", '"', "'", "密码是", "密码", "\\"),
    *("パスワードは", "passphrase is a bc de ", "password for a ", "password (", "a.", "eyJaaaaaaaa.", "[secret:", " "),
    *(
        "-----BEGIN PRIVATE KEY-----\nabcd ",
        "password is password is ",
        "key=a1b2c3d4e5f6g7h8i9j0",
        "\t",
        "\n",
        "key=a1",
    ),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_of_100_000_characters_takes_less_than_a_second(unit: str) -> None:
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    started = time.process_time()
    find(text)
    assert time.process_time() - started < 1.0
