"""An export as a file: written whole or not at all, read line by line within bounds, with a checksum over its bytes.

Lives here: gzip by suffix, SHA-256, decoding one line strictly. Not here: the file's name and mode (``output``), what
the lines say (``jsonl_format``). Called by ``jsonl_export``, ``jsonl_check`` and ``jsonl_import``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.interop import output
from memory_sqlite.interop.jsonl_format import FORMAT, Record

_GZIP: Final = b"\x1f\x8b"
_HEADER_MAX_BYTES: Final = 64 * limits.KIB
"""A header is some 500 bytes; more is not looked at to recognise one."""


class Writer:
    """The lines of a new export. ``lines`` counts them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.lines = 0

    def write(self, kind: str, fields: Record) -> None:
        """One line. Raises ``RecordTooLarge`` for one that no reader would take."""
        text = json.dumps({"kind": kind, **fields}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        data = text.encode("utf-8") + b"\n"
        if len(data) > limits.TRANSCRIPT_LINE_MAX_BYTES:
            raise errors.RecordTooLarge(
                f"a row of kind {kind} is larger than a line may be ({limits.TRANSCRIPT_LINE_MAX_BYTES} bytes)",
                hint="Nothing was written; a waiting turn of that size can be given up by its host.",
            )
        self._digest.update(data)
        self._stream.write(data)
        self.lines += 1

    def end(self) -> None:
        """The last line, with the number of lines before it and the checksum of their bytes."""
        self.write("end", {"lines": self.lines, "sha256": self._digest.hexdigest()})


@contextmanager
def writing(path: Path, clock: Clock, *, overwrite: bool) -> Iterator[Writer]:
    """A new file under another name, mode 0600, that takes its own name when the block ends well, and else goes.

    ``.gz`` at the end of the name compresses. Raises ``OutputExists``, ``InvalidArgument``, ``DiskFull``,
    ``StoreReadOnly``.
    """
    with output.new_file(path, clock, overwrite=overwrite) as file:
        if path.name.endswith(".gz"):
            # without name and time in it the same memory gives the same bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:
                yield Writer(packed)  # type: ignore[arg-type]
        else:
            yield Writer(file)


class Source:
    """An export to read, from its beginning as often as needed, always the same open file. Close it."""

    def __init__(self, path: Path) -> None:
        """Raises ``InvalidArgument`` for what is not there, cannot be read or is no regular file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise errors.InvalidArgument(f"{path.name}: no such file or directory") from None
        except OSError as error:
            raise errors.InvalidArgument(f"{path.name} cannot be read ({error.strerror})") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise errors.InvalidArgument(f"{path.name} is not a regular file")
        self._file = os.fdopen(descriptor, "rb", buffering=limits.MIB)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of every line, its end included. Raises ``ExportInvalid``."""
        self._file.seek(0)
        packed = self._file.read(2) == _GZIP
        self._file.seek(0)
        stream: IO[bytes] = gzip.GzipFile(fileobj=self._file, mode="rb") if packed else self._file  # type: ignore[assignment]
        number = 0
        while True:
            number += 1
            try:
                data = stream.readline(limits.TRANSCRIPT_LINE_MAX_BYTES + 1)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise errors.ExportInvalid("the compressed data ends early or is damaged", number) from error
            except OSError as error:
                raise errors.ExportInvalid(f"the file cannot be read further ({error.strerror})", number) from error
            if not data:
                return
            if len(data) > limits.TRANSCRIPT_LINE_MAX_BYTES:
                raise errors.ExportInvalid(f"longer than {limits.TRANSCRIPT_LINE_MAX_BYTES} bytes", number)
            if not data.endswith(b"\n"):
                raise errors.ExportInvalid("the file is cut: this line does not end", number)
            yield number, data

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()


def is_export(path: Path) -> bool:
    """Whether a file begins with the header of an export, of whatever version; never raises for a file."""
    try:
        with Source(path) as source:
            for _, data in source.lines():
                return len(data) <= _HEADER_MAX_BYTES and decode(data, 1).get("format") == FORMAT
    except (errors.InvalidArgument, errors.ExportInvalid):
        pass
    return False


def decode(data: bytes, number: int) -> Record:
    """One line as an object. Raises ``ExportInvalid`` for anything that strict JSON does not allow, also numbers that
    are none, names that come twice, and nesting beyond ``limits.EXPORT_DEPTH_MAX``."""
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise errors.ExportInvalid("not UTF-8", number) from None
    except RecursionError:
        raise errors.ExportInvalid("nested too deeply", number) from None
    except _Refused as error:
        raise errors.ExportInvalid(str(error), number) from None
    except ValueError:
        raise errors.ExportInvalid("not valid JSON", number) from None
    if not isinstance(value, dict):
        raise errors.ExportInvalid("not a JSON object", number)
    if is_deeper(value, limits.EXPORT_DEPTH_MAX):
        raise errors.ExportInvalid("nested too deeply", number)
    return value


def is_deeper(value: Any, most: int) -> bool:
    """Whether a JSON value nests deeper than so many lists and objects; without the interpreter's stack."""
    level: list[Any] = [value]
    for _ in range(most):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += [child for child in item.values() if isinstance(child, dict | list)]
            elif isinstance(item, list):
                inner += [child for child in item if isinstance(child, dict | list)]
        if not inner:
            return False
        level = inner
    return True


class _Refused(ValueError):
    """JSON that Python reads and we do not."""


def _no_constant(name: str) -> NoReturn:
    raise _Refused("NaN and the infinities are not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("a name comes twice in one object")
    return found


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Refused("a number is larger than any number here")
    return number


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_float)
