"""The words of the house as types: what goes in, what comes out.

Plain frozen dataclasses without behaviour beyond trivial derivations, so that every room (and later every worker) can
exchange them without importing another room. No pydantic here: this module is on the search path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from memory_sqlite.values import dataclass, field

Layer = Literal["L0", "L1", "L2", "L3"]
Source = Literal["memory", "sessions"]
OriginClass = Literal["owner", "agent", "untrusted", "system"]
ChatType = Literal["direct", "group", "channel", "unknown"]
SessionKind = Literal["interactive", "cron", "heartbeat", "subagent", "unknown"]
DocumentKind = Literal["note", "record", "message"]
Coverage = Literal["complete", "partial"]

LAYERS: tuple[Layer, ...] = ("L0", "L1", "L2", "L3")
SOURCES: tuple[Source, ...] = ("memory", "sessions")
CHAT_TYPES: tuple[ChatType, ...] = ("direct", "group", "channel", "unknown")
SESSION_KINDS: tuple[SessionKind, ...] = ("interactive", "cron", "heartbeat", "subagent", "unknown")
ORIGIN_CLASSES: tuple[OriginClass, ...] = ("owner", "agent", "untrusted", "system")
INTERNAL_KINDS: frozenset[str] = frozenset({"cron", "heartbeat", "subagent"})
"""Sessions of these kinds make no L1 to L3 and are not indexed: their traffic is the host's, not a person's."""


# --- what was said -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One utterance, normalised: valid Unicode text, a role, and whatever the host said about it.

    ``at`` is milliseconds since the epoch (UTC) or ``None`` when the host gave no time. ``raw`` is the host's record as
    compact JSON, unknown keys included. ``host_id`` is the id the host's user would recognise (several transcript
    entries may share it); ``entry_ids`` are the ids of the transcript lines it was built from.
    """

    role: str
    text: str
    raw: str
    host_id: str | None = None
    entry_ids: tuple[str, ...] = ()
    name: str | None = None
    sender: str | None = None
    at: int | None = None
    is_tool_output: bool = False
    redactions: int = 0
    cut_from_bytes: int | None = None
    """Size in UTF-8 bytes before it was shortened to ``max_record_bytes``; ``None`` when it is whole."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a host or a transcript header says about one session. ``None`` means: not said."""

    key: str
    chat_type: ChatType | None = None
    kind: SessionKind | None = None
    sender_is_owner: bool | None = None
    project: str | None = None
    started_at: int | None = None
    host_key: str | None = None
    """The host's key of a session that its transcript names by another name."""


# --- what was remembered from it -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fact:
    """One L3 candidate found in a user's words, before it is stored.

    ``kind`` is ``preference``, ``identity`` or ``instruction``. ``slot`` names what the fact is about, in a normal form
    (``preference:coffee``, ``identity:name``): a later fact of the same slot with another ``value`` or ``polarity``
    supersedes the earlier one; the same slot, value and polarity reinforces it. In compatible mode it is ``None``.
    """

    content: str
    kind: Literal["preference", "identity", "instruction"]
    slot: str | None = None
    value: str | None = None
    polarity: Literal[1, -1] = 1


@dataclass(frozen=True, slots=True)
class Record:
    """A stored L1, L2 or L3 record."""

    id: str
    layer: Layer
    type: Literal["episodic", "scenario", "profile"]
    content: str
    keywords: tuple[str, ...]
    session: str
    token: str
    path: str
    """Virtual path, as the layered-memory product's citations name it; line = ``ordinal``."""
    ordinal: int
    created_at: int
    event_at: int
    origin: OriginClass
    status: Literal["active", "superseded"]
    kind: str | None = None
    sender: str | None = None
    run_id: str | None = None
    importance: int | None = None
    triggers: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    reinforced: int = 1
    superseded_by: str | None = None


# --- what can be searched ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document with 1-based inclusive line numbers. ``text`` is what is shown and searched."""

    text: str
    start_line: int
    end_line: int
    heading: str = ""
    """Heading path above the span, outermost first, joined with `` > ``."""
    triggers: tuple[str, ...] = ()
    importance: int | None = None
    projects: tuple[str, ...] = ()
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One indexable unit with its chunks, ready for a generation.

    ``key`` is unique within its kind: a note's path, a record's id, a message's store id. ``session_id`` is the store's
    integer id of the session it belongs to (``None`` for notes). ``owner_private`` says that the owner's direct
    sessions may see it; a document of a session is always visible to that session itself. ``at`` is event time in ms.
    """

    kind: DocumentKind
    key: str
    source: Source
    path: str
    """Where ``get`` finds it and what citations name: a note's path, a record's virtual path, ``sessions/<token>``."""
    chunks: tuple[Chunk, ...]
    hash: str
    at: int | None
    layer: Layer | None = None
    title: str = ""
    session_id: int | None = None
    owner_private: bool = False
    origin: OriginClass = "owner"
    role: str | None = None
    speaker: str | None = None
    record_kind: str | None = None
    position: int | None = None
    """For a message: its 1-based place in the session; neighbours are positions next to it."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Shown with a hit and never searched: ``session`` (key), ``token``, ``message_id``, ``sender``, ``run_id``."""
    size: int | None = None
    mtime_ns: int | None = None
    inode: int | None = None
    device: int | None = None


# --- what comes out ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """Character offsets (code points) into the excerpt, half open."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer of a search. Session hits are one message each; note hits one chunk; record hits one record."""

    reference: str
    path: str
    start_line: int
    end_line: int
    excerpt: str
    matches: tuple[Span, ...]
    score: float
    source: Source
    layer: Layer | None
    citation: str
    provenance: Mapping[str, Any]
    """``origin`` (origin class), ``kind`` (note, record, message); where known ``session``, ``sender``, ``run_id``."""
    time: str | None
    """Event time, ISO-8601 UTC with milliseconds, or ``None`` for an undated note."""
    heading: str = ""
    title: str = ""
    session: str | None = None
    message_id: str | None = None
    speaker: str | None = None
    importance: int | None = None
    triggers: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    """Citations of near-identical hits collapsed into this one."""
    explanation: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The answer of a search. No ``hits`` with ``coverage == "complete"`` and ``withheld == 0`` means: no match."""

    query: str
    hits: tuple[Hit, ...]
    coverage: Coverage = "complete"
    stale: bool = False
    warnings: tuple[str, ...] = ()
    withheld: int = 0
    """How many candidates matched but may not be seen by this session (a lower bound, at most a few hundred)."""
    disabled: bool = False
    routes: tuple[str, ...] = ()
    """By which ways candidates were looked for: ``lexical``, then the vector route where there was one."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The answer of a get. ``status`` is ``ok``, ``not_found`` or ``disabled``; denial is an error, never a result."""

    status: Literal["ok", "not_found", "disabled"]
    reference: str
    path: str
    text: str = ""
    from_line: int = 1
    lines: int = 0
    truncated: bool = False
    next_from: int | None = None
    next_offset: int = 0
    """Where to read on inside line ``next_from``: above 0 only when that line alone was too long for one answer."""
    source: Source | None = None
    layer: Layer | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one ``remember`` call. ``duplicate`` when every turn in it was already known."""

    status: Literal["stored", "duplicate", "disabled", "empty"]
    session: str
    turns: tuple[int, ...] = ()
    """Ordinals, within the session, of the turns this call stored or matched."""
    messages: int = 0
    episodes: int = 0
    scenarios: int = 0
    facts: tuple[str, ...] = ()
    """References of the L3 records that were created or reinforced."""
    superseded: tuple[str, ...] = ()
    redactions: int = 0
    shortened: int = 0
    searchable: bool = True
    """False when the turn is safe in the store but the index could not take it yet; the next open applies it."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """One thing that could not be read: where, and why. Never contains text of the source."""

    path: str
    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class VectorReport:
    """What filing vectors did and what is left. ``complete``: every text has a vector, but for those the provider
    refused; ``partial``: more came meanwhile, or the memory was closed; ``unpaid``: the provider charges and nobody
    said that so much may be sent; ``failed``: see ``reason``."""

    state: Literal["complete", "partial", "unpaid", "failed"]
    provider: str
    model: str | None = None
    dimensions: int | None = None
    embedded: int = 0
    """Passages that got a vector which was asked of the provider."""
    reused: int = 0
    """Passages that got the vector of an equal text."""
    refused: int = 0
    missing: int | None = 0
    """Passages without a vector, the refused ones among them; ``None`` where they could not be counted."""
    characters: int | None = 0
    """About how many characters would be sent for them; equal texts are counted each time."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one ``index`` run did."""

    status: Literal["ok", "partial", "disabled"]
    generation: int | None
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    applied_changes: int = 0
    seconds: float = 0.0
    problems: tuple[SourceProblem, ...] = ()
    vectors: VectorReport | None = None
    """``None`` where no embedding provider is set."""


@dataclass(frozen=True, slots=True)
class ResetReport:
    """What one ``reset`` did: the numbers of generations it took away and of those that somebody still has open (they
    go when they are closed), and how the new one was built (``None`` when memory is disabled)."""

    status: Literal["ok", "partial", "disabled"]
    dropped: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    index: IndexReport | None = None
    vectors_kept: int = 0
    """Vectors that went over into the new index, because some were paid for or because that was asked."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """How long what was imported is kept. ``days`` by layer, ``None``: for ever. ``first_at`` and ``last_at`` (ISO-8601
    UTC): when something of these ``sessions`` first expires and when the last of L0 to L2 has, if nothing more is said
    in them; ``None`` where nothing does."""

    days: Mapping[str, int | None]
    sessions: int = 0
    first_at: str | None = None
    last_at: str | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What one transcript import did; ``refused`` counts lines, with their numbers in ``problems``."""

    status: Literal["ok", "partial", "disabled"]
    files: int = 0
    sessions: int = 0
    turns_stored: int = 0
    turns_known: int = 0
    messages: int = 0
    episodes: int = 0
    facts: int = 0
    shortened: int = 0
    redactions: int = 0
    refused: int = 0
    ignored: int = 0
    forgotten: int = 0
    """Turns that were not stored, because they or their session were forgotten."""
    unknown_sessions: int = 0
    """Imported sessions of which nobody said what chat they were: only they themselves and the operator see them."""
    unchanged: int = 0
    """Files that were not read, because they have not changed since they were last imported whole."""
    seconds: float = 0.0
    problems: tuple[SourceProblem, ...] = ()
    scenarios: int = 0
    dry_run: bool = False
    """Nothing was stored: this is what would have been."""
    expires: Expiry | None = None
    """Until when it is kept; ``None`` when disabled, and in a dry run."""


@dataclass(frozen=True, slots=True)
class RecallBlock:
    """The block a host puts before a prompt. ``text`` is empty when nothing may or should be injected."""

    text: str
    hits: tuple[Hit, ...] = ()
    reason: Literal["ok", "nothing", "timeout", "error", "disabled", "cancelled"] = "ok"
    elapsed_ms: float = 0.0
    warnings: tuple[str, ...] = ()


def to_json(value: Any) -> Any:
    """Turn any of the types above into JSON-ready values; tuples become lists, mappings stay mappings."""
    slots = getattr(type(value), "__dataclass_fields__", None)
    if slots is not None:
        return {name: to_json(getattr(value, name)) for name in slots}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_json(item) for item in value]
    return value
