"""Models so small that a test writes them: random weights in the files' real formats."""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from memory_sqlite.embeddings.catalogue import Kind, LocalModel
from memory_sqlite.embeddings.protocol import InputLimits, Weight

WORDS = ["[PAD]", "[UNK]", *(f"[unused{n}]" for n in range(99)), "[CLS]", "[SEP]", "[MASK]", "the", "router", "tea",
         "memory", "text", "##s", "##er", ".", ",", "a", "e", "\u4eca", "\u5929", "0", "##1", "##0"]  # fmt: skip
"""The marks have the numbers that the real vocabulary gives them."""
WIDTH, INNER, LAYERS, HEADS = 24, 48, 6, 12


def safetensors(path: Path, tensors: dict[str, Any]) -> None:
    header, data = {}, b""
    for name, value in tensors.items():
        raw = value.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def minilm_weights(seed: int = 7) -> dict[str, Any]:
    random = np.random.default_rng(seed)

    def some(*shape: int) -> Any:
        return random.normal(0, 0.3, shape).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": some(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": some(512, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.LayerNorm.weight": 1 + some(WIDTH),
        "embeddings.LayerNorm.bias": some(WIDTH),
    }
    for number in range(LAYERS):
        at = f"encoder.layer.{number}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            found |= {f"{at}{name}.weight": some(WIDTH, WIDTH), f"{at}{name}.bias": some(WIDTH)}
        found |= {f"{at}intermediate.dense.weight": some(INNER, WIDTH), f"{at}intermediate.dense.bias": some(INNER)}
        found |= {f"{at}output.dense.weight": some(WIDTH, INNER), f"{at}output.dense.bias": some(WIDTH)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{at}{name}.weight": 1 + some(WIDTH), f"{at}{name}.bias": some(WIDTH)}
    return found


def write_minilm(directory: Path, weights: dict[str, Any] | None = None) -> dict[str, str]:
    """A MiniLM; returns the digests of its files."""
    directory.mkdir(parents=True, exist_ok=True)
    safetensors(directory / "model.safetensors", weights or minilm_weights())
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return {name: sha256((directory / name).read_bytes()).hexdigest() for name in ("model.safetensors", "vocab.txt")}


def packed(weights: Any) -> tuple[bytes, Any]:
    """Rows of weights in blocks of 32 as the E5S1 file has them, and what they are worth after that."""
    blocks = weights.reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 7).astype(np.float16)
    numbers = np.clip(np.rint(blocks / scale.astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    halves = numbers[:, :16] | (numbers[:, 16:] << 4)
    data = b"".join(s.tobytes() + h.tobytes() for s, h in zip(scale, halves, strict=True))
    return data, ((numbers.astype(np.float32) - 8) * scale.astype(np.float32)).reshape(weights.shape)


PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -4.0), ("\u2581que", -5.0),
          ("ry", -5.0), (":", -3.0), ("\u2581passage", -6.0), ("\u2581tea", -5.0), ("te", -6.0), ("a", -5.5),
          ("\u2581router", -7.0), ("\u4eca\u5929", -6.0), ("\u4eca", -7.0), ("\u5929", -7.0), ("s", -5.0)]  # fmt: skip


def write_e5(directory: Path, width: int = 32, inner: int = 64, layers: int = 2, heads: int = 4) -> dict[str, Any]:
    """An E5S1 file; returns its weights by name as they are after unpacking, matrices as (out, in)."""
    random = np.random.default_rng(3)
    found: dict[str, Any] = {}
    sections: list[tuple[str, int, int, bytes]] = []

    def add(name: str, shape: tuple[int, ...], pack: bool, base: float = 0.0) -> None:
        weights = (base + random.normal(0, 0.3, shape)).astype(np.float32)
        data, worth = packed(weights) if pack else (weights.tobytes(), weights)
        found[name] = worth
        sections.append((name, int(pack), weights.size, data))

    add("emb.word", (len(PIECES), width), True)
    add("emb.pos", (16, width), False)
    add("emb.type", (2, width), False)
    add("emb.ln.w", (width,), False, 1.0)
    add("emb.ln.b", (width,), False)
    for n in range(layers):
        for name in ("q", "k", "v", "ao"):
            add(f"l{n}.{name}.w", (width, width), True)
            add(f"l{n}.{name}.b", (width,), False)
        for name in ("aln", "oln"):
            add(f"l{n}.{name}.w", (width,), False, 1.0)
            add(f"l{n}.{name}.b", (width,), False)
        add(f"l{n}.fi.w", (inner, width), True)
        add(f"l{n}.fi.b", (inner,), False)
        add(f"l{n}.fo.w", (width, inner), True)
        add(f"l{n}.fo.b", (width,), False)
    letters = b"".join(piece.encode() for piece, _ in PIECES)
    ends = np.cumsum([0, *(len(piece.encode()) for piece, _ in PIECES)]).astype("<u4").tobytes()
    scores = np.array([score for _, score in PIECES], "<f4").tobytes()
    mapping = struct.pack("<IBI", 0xFF54, 1, ord("t")) + struct.pack("<IB", 0x7F, 0)
    head = b"E5S1" + struct.pack("<Iiiiiiiifi", 1, width, layers, heads, inner, len(PIECES), 16, 2, 1e-12, 32)
    head += struct.pack("<iiiiiQ", len(PIECES), 0, 2, 1, 3, len(letters)) + ends + scores + letters
    head += struct.pack("<iI", 2, len(mapping)) + mapping
    entries = [(name.encode(), kind, size, data) for name, kind, size, data in sections]
    at = len(head) + 4 + sum(2 + len(name) + 1 + 4 + 8 + 8 for name, *_ in entries)
    listed, tail = struct.pack("<i", len(entries)), b""
    for name, kind, size, data in entries:
        offset = at + len(tail)
        listed += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, size, offset, len(data))
        tail += data
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "e5-small-q4.bin").write_bytes(head + listed + tail)
    return found


def local_model(package: str, kind: Kind, files: dict[str, str], dimensions: int = WIDTH) -> LocalModel:
    return LocalModel(
        provider="local", name="tiny", kind=kind, package=package, folder="model", files=tuple(files.items()),
        dimensions=dimensions, weight=Weight(), limits=InputLimits(400, 32, 2_000), install="pip install tiny",
    )  # fmt: skip
