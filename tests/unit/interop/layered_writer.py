"""A writer of the layered-memory product's layouts, made from its description alone: it shares no code with ours.

``Writer(root, layout, secret)`` writes turns as that product would: G0 below the data directory, one line a message;
G1 below the agent; G2 below the session's token, with the isolation key and the check file.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY = bytes(range(32))
SECRET = "a-demo-secret-with-at-least-32-bytes!"
FOLDERS = {"L0": "conversations", "L1": "memories", "L2": "scenarios", "L3": "profiles"}
TYPES = {"L0": "conversation", "L1": "episodic", "L2": "scenario", "L3": "profile"}


def dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text)


def token_of(session: str) -> str:
    return hmac.new(KEY, session.encode(), hashlib.sha256).hexdigest()[:32]


def directory_of(agent: str) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", agent.lower()).strip("-")[:32] or "agent"
    return f"{slug}-{hashlib.sha256(agent.encode()).hexdigest()[:12]}"


def seal(text: str, secret: str, nonce: bytes) -> str:
    sealed = AESGCM(hashlib.sha256(secret.encode()).digest()).encrypt(nonce, text.encode(), None)
    parts = {"iv": nonce, "tag": sealed[-16:], "data": sealed[:-16]}
    return dump({"v": 1, **{name: base64.b64encode(part).decode() for name, part in parts.items()}})


def unseal(line: str, secret: str) -> str:
    parts = {name: base64.b64decode(part) for name, part in json.loads(line).items() if name != "v"}
    key = hashlib.sha256(secret.encode()).digest()
    return AESGCM(key).decrypt(parts["iv"], parts["data"] + parts["tag"], None).decode()


class Writer:
    """Turns and records appended one after the other."""

    def __init__(self, root: Path, layout: str, secret: str | None = None, agent: str = "main") -> None:
        self.root, self.layout, self.secret, self.agent = root, layout, secret, agent
        self._count = 0
        root.mkdir(parents=True, exist_ok=True)
        if layout == "G2":
            (root / ".isolation-key").write_bytes(KEY)
            check = dump({"value": "openclaw-memory-v1", "encrypted": secret is not None})
            (root / ".encryption-check").write_text(self._encoded(check) + "\n")

    @property
    def home(self) -> Path:
        return self.root if self.layout == "G0" else self.root / "agents" / directory_of(self.agent)

    def turn(
        self, session: str, texts: list[str], run: str | None = None, sender: str | None = None, **when: str
    ) -> str:
        """One L0 record, alternating user and assistant; returns its id."""
        day, at = when.get("day", "2026-07-15"), when.get("at", "2026-07-15T08:30:00.120Z")
        said = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
        number = self._id()
        if self.layout == "G0":
            for place, message in enumerate(said):
                record = {"id": f"{number}{place}", **message, "timestamp": 1_784_104_200_120, "sessionKey": session}
                self.append("conversations", day, record)
            return f"{number}0"
        self.append(
            self.folder(session, "L0"), day, self._record(number, "L0", session, run, sender, at, messages=said)
        )
        return number

    def record(
        self,
        level: str,
        session: str,
        content: str,
        run: str | None = None,
        sender: str | None = None,
        shared: bool = False,
        **when: Any,
    ) -> str:
        """One L1 to L3 record; ``shared`` files it for the whole agent."""
        day, at = when.get("day", "2026-07-15"), when.get("at", "2026-07-15T08:30:00.123Z")
        number = self._id()
        if self.layout == "G0":
            record = {"id": number, "content": content, "type": "episodic", "sessionKey": session, "createdAt": at}
            self.append("records", day, record)
            return number
        words = when.get("keywords", ["花岗", "granite"])
        record = self._record(number, level, session, run, sender, at, content=content, keywords=words)
        self.append("agent-profiles" if shared else self.folder(session, level), day, record)
        return number

    def folder(self, session: str, level: str) -> str:
        place = f"sessions/{token_of(session)}/" if self.layout == "G2" else ""
        return f"{place}{FOLDERS[level]}"

    def append(self, folder: str, day: str, record: dict[str, Any] | str) -> Path:
        """One line; a string is written as it is, also without its end."""
        path = self.home / folder / f"{day}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(record if isinstance(record, str) else self._encoded(dump(record)) + "\n")
        return path

    def _record(
        self, number: str, level: str, session: str, run: str | None, sender: str | None, at: str, **more: Any
    ) -> dict[str, Any]:
        record: dict[str, Any] = {"id": number, "level": level, "type": TYPES[level]}
        if level != "L0":
            record |= {"content": more["content"], "keywords": more["keywords"]}
        record |= {"agentId": self.agent, "sessionKey": session}
        record |= {} if sender is None else {"senderId": sender}
        record |= {} if run is None else {"runId": run}
        record |= {"messages": more["messages"]} if level == "L0" else {}
        return record | {"createdAt": at}

    def _encoded(self, text: str) -> str:
        if self.secret is None:
            return text
        self._count += 1
        return seal(text, self.secret, self._count.to_bytes(12, "big"))

    def _id(self) -> str:
        self._count += 1
        return f"1784104200120_{self._count:012x}"
