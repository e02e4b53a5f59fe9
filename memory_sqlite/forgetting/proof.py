"""The proof: a child process looks for pieces of what was forgotten in the bytes of every file.

Not here: which pieces (``samples``), the search itself (``byte_search``). Called by ``run``.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.forgetting import byte_search
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.limits import MIB, PROOF_DECRYPTED_MAX_BYTES
from memory_sqlite.values import dataclass

_WORK_BYTES: Final = 2 * 1024 * MIB
"""Bytes of files times pieces: about a second of searching."""
_LEAST_PIECES: Final = 16
_TIMEOUT_S: Final = 300


@dataclass(frozen=True, slots=True)
class Proof:
    """How many pieces were looked for, and the names of files that hold one; ``problem`` when it could not be done."""

    pieces: int
    files: tuple[str, ...] = ()
    problem: str | None = None


def search_bytes(
    directory: Path,
    samples: Samples,
    store: apsw.Connection,
    index: apsw.Connection | None,
    key: FileKey | None = None,
) -> Proof:
    """Look into every database file of an agent's directory, into encrypted ones with their key.

    A piece that store or index hold still, because somebody else said the same or a note says it, is no trace.
    """
    files = [path for path in sorted(directory.iterdir()) if ".sqlite" in path.name and path.is_file()]
    size = sum(path.stat().st_size for path in files) or 1
    pieces = samples.pieces(max(_LEAST_PIECES, _WORK_BYTES // size))
    if not pieces:
        return Proof(0)
    if key is not None:
        if size > PROOF_DECRYPTED_MAX_BYTES:
            return Proof(len(pieces), problem="the encrypted files are too large to be searched in memory")
        files = [path for path in files if path.name.endswith(".sqlite")]  # each with its write-ahead log
    answer = _ask(files, pieces, key)
    if isinstance(answer, str):
        return Proof(len(pieces), problem=answer)
    said = {number for numbers in answer.values() for number in numbers}
    still_said = {number for number in said if _is_said(store, index, pieces[number])}
    traces = tuple(Path(name).name for name, numbers in answer.items() if set(numbers) - still_said)
    return Proof(len(pieces), traces)


def _ask(files: list[Path], pieces: list[bytes], key: FileKey | None) -> dict[str, list[int]] | str:
    if "python" not in Path(sys.executable or "").name.lower():
        return "there is no Python interpreter to search the files with"
    asked: dict[str, object] = {
        "files": [str(path) for path in files],
        "pieces": [base64.b64encode(piece).decode("ascii") for piece in pieces],
    }
    if key is not None:
        library = str(Path(apsw.__file__).parents[1])
        asked["key"] = {"cipher": key.cipher, "raw": key.raw.hex(), "library": library}
    environment = {name: value for name, value in os.environ.items() if name.upper() in ("SYSTEMROOT", "PATH")}
    try:
        done = subprocess.run(
            # isolated and without site: nothing but the standard library is needed, and it starts in 10 ms
            [sys.executable, "-I", "-S", byte_search.__file__],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            env=environment,
            timeout=_TIMEOUT_S,
            check=True,
        )
        answer: dict[str, list[int]] = json.loads(done.stdout)
        return answer
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"the files could not be searched ({type(error).__name__})"


def _is_said(store: apsw.Connection, index: apsw.Connection | None, piece: bytes) -> bool:
    """Whether a row that stays holds the piece. It may begin or end within a character."""
    text = piece.decode("utf-8", "ignore")
    in_store = bool(
        store.execute(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE instr(text, ?1) OR instr(raw, ?1))"
            " OR EXISTS (SELECT 1 FROM records WHERE instr(content, ?1))",
            (text,),
        ).get
    )
    if in_store or index is None:
        return in_store
    return bool(index.execute("SELECT EXISTS (SELECT 1 FROM chunks WHERE instr(text, ?))", (text,)).get)
