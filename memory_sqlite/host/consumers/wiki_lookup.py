"""Memory references as opaque lookups of a wiki: ``memory-ref:`` and the reference as percent-encoded JSON.

The form is the product's, so that a lookup made there is understood here. A lookup is no grant: whoever uses it is
looked at again. Pure. Not here: searching and reading (``wiki``).
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote, unquote

from memory_sqlite import errors, limits
from memory_sqlite.runtime.shapes import Reference
from memory_sqlite.runtime.wire import from_wire, to_wire

PREFIX: Final = "memory-ref:"
_UNESCAPED: Final = "-_.!~*'()"
"""What ``encodeURIComponent`` leaves as it is, beside letters and digits."""
_INVALID: Final = "Invalid memory reference."


def lookup_of(reference: Reference) -> str:
    """The lookup that names a reference."""
    said = to_wire(reference)
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    try:
        return PREFIX + quote(text, safe=_UNESCAPED)
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can say it, UTF-8 cannot
        return PREFIX + quote(json.dumps(said, separators=(",", ":")), safe=_UNESCAPED)


def is_reference(lookup: str) -> bool:
    """Whether a lookup names something of the memory, and no page of a wiki."""
    return lookup.startswith(PREFIX)


def reference_of(lookup: str) -> Reference:
    """The reference that a lookup names. Raises ``InvalidArgument``."""
    if not is_reference(lookup) or len(lookup) > limits.WIKI_LOOKUP_MAX_CHARS:
        raise errors.InvalidArgument(_INVALID)
    try:
        said = json.loads(unquote(lookup.removeprefix(PREFIX), errors="strict"))
        if isinstance(said, dict) and all(said.get(name, "") is not None for name in ("revision", "fragment")):
            reference = from_wire(Reference, said)
            if reference.provider_id and reference.id:
                return reference
    except (ValueError, RecursionError):  # ``InvalidArgument`` is a ``ValueError``, too
        pass
    raise errors.InvalidArgument(_INVALID)
