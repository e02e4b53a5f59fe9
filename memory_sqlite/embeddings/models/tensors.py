"""Weights read from safetensors files: named arrays, mapped from the file and not copied.

The format is a length (8 bytes, little-endian), that many bytes of JSON with type, shape and offsets of every tensor,
and the numbers (https://github.com/huggingface/safetensors, "Format"). It can hold data and nothing else. Mapped pages
are shared between processes and given back by the system when memory is short. Called by the models.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
_TYPES: Final = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
_HEADER_MAX: Final = 1 << 20
"""A header of 105 tensors takes 11 KiB."""


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Every tensor of a file by its name. Raises ``OSError`` and ``ValueError`` for what is no such file."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= min(_HEADER_MAX, size - 8):
            raise ValueError("the header of the weights is out of bounds")
        header: dict[str, Any] = json.loads(stream.read(length))
    mapped = np.memmap(path, np.uint8, "r", 8 + length)
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = np.dtype(_TYPES[entry["dtype"]])
        start, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if end - start != prod(shape) * kind.itemsize or not 0 <= start <= end <= mapped.size:
            raise ValueError("a tensor of the weights is out of bounds")
        found[name] = mapped[start:end].view(kind).reshape(shape)
    return found
