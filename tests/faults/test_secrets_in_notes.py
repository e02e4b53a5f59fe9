"""Secrets in notes, in ids and in labels: none reaches a byte of the index or the store, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.text.secrets import mask, mask_label

# Put together here so that no scanner takes this file for a leak.
GITHUB = "ghp_" + "x8Kq2Zr9Lm4Wt7Yc1Vb6Nd3Hf5Jg0PsAaQe{}"
TOKEN = GITHUB.format("R1")
SECRETS = {
    "an OpenAI key": ("My granite key is {}.", "sk-" + "proj-" + "Zr8Qv2Lm9Xt4Wc7Yb1Nd6Kf3Hg5Jp0Sa"),
    "an AWS access key": ("Use granite account {} please.", "AKIA" + "Q7ZRW2MXK9TB4LVC"),
    "a GitHub token": ("I push granite with {} every day.", TOKEN),
    "a Slack token": ("The granite bot has {}.", "xoxb-" + "482915736204-917364825013-" + "Kq8Zr2Lm9Xt4Wc7Yb1Nd6Kf3"),
    "a JSON web token": (
        "The granite session is {}.",
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiI5MTczNjQ4MjUifQ." + "Vq8Zr2Lm9Xt4Wc7Yb1Nd6Kf3Hg5Jp0SaTuLwXyE",
    ),
    "a bearer header": ("Send granite Authorization: Bearer {} always.", "Zq7vRk2mXw9LtBc4YnHd"),
    "a password": ("Remember that my granite password is {} from now on.", "tr0ub4dor&Zebra77"),
    "a Chinese password": ("我的花岗岩密码是{}，请记住。", "Xk29mvQz81"),
    "a URL's password": ("granite at https://mika:{}@db.example.org/granite", "p4ssw0rdInUrl99"),
    "a private key": (
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\nis for granite.",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + "kZqWxVbNmLpRtYhGfDsA",
    ),
}


def bytes_below(folder: Path) -> bytes:
    """Everything in the files below a folder, in lower case as an index would hold it."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()).lower()


def write_notes(workspace: Path) -> None:
    body = "\n\n".join(sentence.format(secret) for sentence, secret in SECRETS.values())
    head = f"---\ntitle: key {TOKEN}\ntags: [{TOKEN}]\n---\n# Heading {TOKEN}\n\n"
    (workspace / "memory" / "keys.md").write_text(f"{head}{body}\n\nThe basalt line comes last.\n", encoding="utf-8")


def test_ten_secrets_of_a_note_leave_no_byte_in_the_index(tmp_path: Path, workspace: Path) -> None:
    """By ``index``, a full build and the look of a search: the words around each secret are found, no secret is in a
    file, an answer or a recalled block; the note itself is what it was, and lines are counted as in it."""
    write_notes(workspace)
    note = (workspace / "memory" / "keys.md").read_text(encoding="utf-8")
    last = note.splitlines().index("The basalt line comes last.") + 1
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.index()
        memory.index(full=True)
        said = repr(memory.search("granite 花岗岩", max_results=50)) + memory.recall("granite password").text
        assert "[secret:password]" in said
        hit = memory.search("basalt").hits[0]
        assert hit.end_line == last
        assert memory.get("memory/keys.md", from_line=last, lines=1).text == "The basalt line comes last.\n"
        assert TOKEN in memory.get("memory/keys.md").text, "reading a note reads the file"
        (workspace / "memory" / "keys.md").write_text(note + "\nMore granite.\n", encoding="utf-8")
        said += repr(memory.search("more granite"))
    held = bytes_below(tmp_path / "data")
    for name, (_, secret) in SECRETS.items():
        assert secret.lower().encode() not in held, name
        assert secret not in said, name


def test_with_redaction_off_the_index_holds_the_note_as_it_is(tmp_path: Path, workspace: Path) -> None:
    write_notes(workspace)
    with Memory.open(
        settings=Settings(data_dir=tmp_path / "data", workspace=workspace, redact_secrets=False)
    ) as memory:
        memory.index()
        assert TOKEN in memory.search("granite push").hits[0].excerpt
    assert TOKEN.lower().encode() in bytes_below(tmp_path / "data")


def test_a_token_in_an_id_a_run_or_a_project_is_masked_and_ids_stay_different(tmp_path: Path) -> None:
    """Two messages whose ids are two tokens are two messages, and each is recognised when it comes again."""
    ids = [GITHUB.format(end) for end in ("S2", "T3", "U4", "V5")]

    def say(memory: Memory, number: int) -> str:
        message = {"role": "user", "content": f"granite number {number}", "id": ids[number], "name": ids[2]}
        return memory.remember(session="s", run_id=f"run-{ids[number]}", project=ids[3], messages=[message]).status

    with Memory.open(tmp_path / "data") as memory:
        assert [say(memory, 0), say(memory, 1), say(memory, 0), say(memory, 1)] == [
            "stored",
            "stored",
            "duplicate",
            "duplicate",
        ]
        found = {hit.message_id for hit in memory.search("granite", sources=["sessions"]).hits}
        assert len(found) == 2
    held = bytes_below(tmp_path / "data")
    for secret in ids:
        assert secret.lower().encode() not in held


@pytest.mark.parametrize("label", ["msg_01", "4111111111111111", "m 1 password: x9Zk2mQ8", "agent:main:main", ""])
def test_ordinary_ids_stay_what_they_are(label: str) -> None:
    """A host must recognise its own ids: numbers that could be cards and words around a value change nothing."""
    assert mask_label(label) == label


def test_masking_keeps_lines_where_it_is_asked_to() -> None:
    text = "a\r\n-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\nlast"
    masked, count = mask(text, keep_lines=True)
    assert count == 1
    assert masked.splitlines().index("last") == 4
    assert "QUJD" not in masked
