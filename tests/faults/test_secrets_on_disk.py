"""Ten secrets of different kinds: in no layer, in no byte of store or index, in no log, error or answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Put together here so that no scanner takes this file for a leak.
SECRETS = {
    "an OpenAI key": "sk-" + "proj-" + "Zr8Qv2Lm9Xt4Wc7Yb1Nd6Kf3Hg5Jp0Sa",
    "an AWS access key": "AKIA" + "Q7ZRW2MXK9TB4LVC",
    "a GitHub token": "ghp_" + "x8Kq2Zr9Lm4Wt7Yc1Vb6Nd3Hf5Jg0PsAaQeR",
    "a Slack token": "xoxb-" + "482915736204-917364825013-" + "Kq8Zr2Lm9Xt4Wc7Yb1Nd6Kf3",
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9."
    + "eyJzdWIiOiI5MTczNjQ4MjUifQ."
    + "Vq8Zr2Lm9Xt4Wc7Yb1Nd6Kf3Hg5Jp0SaTuLwXyE",
    "a bearer header": "Zq7vRk2mXw9LtBc4YnHd",
    "a password": "tr0ub4dor&Zebra77",
    "a Chinese password": "Xk29mvQz81",
    "a URL's password": "p4ssw0rdInUrl99",
    "a private key": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + "kZqWxVbNmLpRtYhGfDsA",
}
SENTENCES = {
    "an OpenAI key": "My granite key is {}.",
    "an AWS access key": "Use granite account {} please.",
    "a GitHub token": "I like to push granite with {} every day.",
    "a Slack token": "The granite bot has {} as its token.",
    "a JSON web token": "The granite session is {} for now.",
    "a bearer header": "Send granite with Authorization: Bearer {} always.",
    "a password": "Remember that my granite password is {} from now on.",
    "a Chinese password": "我的花岗岩密码是{}，请记住。",
    "a URL's password": "granite lives at https://mika:{}@db.example.org/granite",
    "a private key": "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\nis for granite.",
}

CHILD = r"""
import json, logging, sys
from pathlib import Path
from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

logging.basicConfig(level=logging.DEBUG)
data, spoken, transcript = Path(sys.argv[1]), json.loads(sys.stdin.read()), Path(sys.argv[2])
out = []
with Memory.open(settings=Settings(data_dir=data, extraction_interval=2)) as memory:
    for number, text in enumerate(spoken):
        receipt = memory.remember(session="s", run_id=f"r{number}", chat_type="direct", sender_is_owner=True, messages=[
            {"role": "user", "content": text, "note": text, "sender": "ann"},
            {"role": "assistant", "content": [{"type": "text", "text": "You said: " + text}]},
            {"role": "tool", "content": "output: " + text},
        ])
        out.append([receipt.redactions, receipt.status])
        memory.search(text)
        memory.recall(text, session="s")
        try:
            memory.search(text, max_results=0)
        except errors.MemorySqliteError as error:
            out.append(str(error))
    report = memory.import_transcripts([transcript], session="t")
    out.append([report.messages, report.redactions])
    memory.index(full=True)
    for hit in memory.search("granite", max_results=100).hits:
        out.append([hit.excerpt, hit.title, str(hit.provenance)])
        out.append(memory.get(hit.reference).text)
    out.append(memory.status())
print(json.dumps(out, ensure_ascii=False))
"""

BYTES = r"""
import json, sys
from pathlib import Path
secrets = json.loads(sys.stdin.read())
found = []
for path in Path(sys.argv[1]).rglob("*"):
    if path.is_file():
        content = path.read_bytes().lower()
        for name, secret in secrets.items():
            for form in (secret, secret[4:], secret[:-4]):
                if form.lower().encode() in content:
                    found.append([path.name, name])
print(json.dumps(sorted(map(tuple, found))))
"""


def test_ten_secrets_leave_no_byte(tmp_path: Path) -> None:
    """Remembered, imported, searched for, recalled, rebuilt: the text around each secret is kept and found, the secret
    itself is in no file below the data directory, not on stdout and not on stderr with logging at its loudest."""
    spoken = [SENTENCES[name].format(secret) for name, secret in SECRETS.items()]
    transcript = tmp_path / "t.jsonl"
    lines = [{"role": "user", "content": f"From a transcript. {text}", "extra": {"deep": [text]}} for text in spoken]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = tmp_path / "data"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(data), str(transcript)],
        input=json.dumps(spoken),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    receipts = [answer for answer in answers if isinstance(answer, list) and answer[-1] == "stored"]
    assert [status for _, status in receipts] == ["stored"] * len(SECRETS)
    assert all(redactions >= 3 for redactions, _ in receipts), receipts
    assert sum("granite" in str(answer).lower() for answer in answers) > 10, "what stands around a secret is found"
    for name, secret in SECRETS.items():
        assert secret not in done.stdout, name
        assert secret not in done.stderr, name
    scan = subprocess.run(
        [sys.executable, "-c", BYTES, str(data)], input=json.dumps(SECRETS), capture_output=True, text=True, check=True
    )
    assert json.loads(scan.stdout) == []


def test_redaction_off_keeps_the_words(tmp_path: Path) -> None:
    """The scan above would see a secret if there were one: with ``redact_secrets`` off it is in the store's bytes."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory\n"
        "from memory_sqlite.config import Settings\n"
        "with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]), redact_secrets=False)) as memory:\n"
        "    memory.remember(session='s', messages=[{'role': 'user', 'content': sys.stdin.read()}])\n"
    )
    data = tmp_path / "data"
    secret = SECRETS["a GitHub token"]
    subprocess.run([sys.executable, "-c", script, str(data)], input=f"granite {secret}", text=True, check=True)
    scan = subprocess.run(
        [sys.executable, "-c", BYTES, str(data)],
        input=json.dumps({"x": secret}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ["memory.sqlite", "x"] in json.loads(scan.stdout)
