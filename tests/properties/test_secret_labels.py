"""Labels of secrets are looked for around their stems only, and none is missed or cut by that."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.text import secret_context

PARTS = (
    *secret_context._STEMS,
    *("passphrase", "pass_phrase", "seed", "recovery", "one-time ", "one time ", "word", "2fa ", "backup-", "cvc2"),
    *("verification code", "sharedaccess_key", "secret access key", "encryption", "account ", "api", "apiキー"),
    *(
        "pin number",
        "pinコード",
        "暗証番号",
        "アクセスキー",
        "秘密鍵",
        "シークレットキー",
        "client",
        "webhook ",
        "確認コード",
    ),
    *(" ", "-", "_", "x", "9", "\n", "今"),
)


def spans(found: object) -> list[tuple[int, int, str | None]]:
    return [(*match.span(), match.lastgroup) for match in found]  # type: ignore[attr-defined]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=24).map("".join))
def test_labels_around_stems_are_the_labels_of_the_whole_text(text: str) -> None:
    """The same finds as of the pattern run over everything: same place, same kind, same order."""
    assert spans(secret_context._labels(text)) == spans(secret_context._LABEL.finditer(text))


def test_labels_that_lie_close_and_far_apart() -> None:
    """A long text between two labels, a stem that is none, labels that share characters."""
    text = "key" + "passkeyword" * 3 + " " * 500 + "one-time passcode" + "otpin" + "x" * 300 + "sharedaccess_key"
    found = spans(secret_context._labels(text))
    assert found == spans(secret_context._LABEL.finditer(text))
    assert len(found) > 5
