"""Work that could not be done or was stopped: indexing, embedding, workers, queries."""

from __future__ import annotations

from typing import Literal

from memory_sqlite.errors.base import MemorySqliteError


class WorkspaceUnavailable(MemorySqliteError):
    """The workspace does not exist or is not a directory."""

    code = "workspace_unavailable"
    exit_code = 66
    default_hint = "Pass --workspace with the directory that holds MEMORY.md and memory/."


class IndexUnavailable(MemorySqliteError):
    """The derived index cannot be opened and cannot be rebuilt here and now."""

    code = "index_unavailable"
    exit_code = 69
    default_hint = "Run `memory-sqlite index --full`; the index is derived and can always be rebuilt."


class ExtraMissing(MemorySqliteError):
    """What was asked for needs a package that is not installed; it comes with an extra."""

    code = "extra_missing"
    exit_code = 69
    default_hint = "Install the extra that the message names, e.g. `pip install 'memory-sqlite[watch]'`."


class EmbeddingFailed(MemorySqliteError):
    """The embedding provider is down, slow, or answers with what are no vectors; keyword search works without it."""

    code = "embedding_failed"
    exit_code = 75
    retryable = True
    default_hint = "Check that the provider of `memory-sqlite config` can be reached, then run `memory-sqlite index`."


class Cancelled(MemorySqliteError):
    """The caller cancelled, or the deadline passed, before an answer was there."""

    code = "cancelled"
    exit_code = 75
    retryable = True


class Overloaded(MemorySqliteError):
    """More requests are waiting for workers than a pool takes; this one was refused at once and nothing was done."""

    code = "overloaded"
    exit_code = 75
    retryable = True
    default_hint = "Wait for an answer before asking more, or ask from fewer threads."


class WorkerLost(MemorySqliteError):
    """The worker process that had the request died or answered wrongly; the next request gets a new worker."""

    code = "worker_lost"
    exit_code = 75
    retryable = True


class QueryInvalid(MemorySqliteError, ValueError):
    """SQL that cannot be run: a syntax error, an unknown table or column, two statements, a wrong parameter."""

    code = "query_invalid"
    exit_code = 2
    default_hint = "See the tables, columns and examples in docs/query.md."


class QueryRefused(MemorySqliteError):
    """SQL that would do more than read: write, attach, change a setting, look at what is not open to queries."""

    code = "query_refused"
    exit_code = 5
    default_hint = "Queries read the views that docs/query.md lists, JSONL files and transcripts."


class QueryLimit(MemorySqliteError):
    """A query took more time or memory than it may; ``kind`` says which. It was stopped and left nothing behind."""

    code = "query_limit"
    exit_code = 1
    default_hint = "Narrow it down, or give it more with --timeout or --memory."

    def __init__(self, kind: Literal["time", "memory"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class MemoryClosed(MemorySqliteError):
    """The ``Memory`` was closed before the call."""

    code = "closed"
    exit_code = 1
    default_hint = "Open it again with Memory.open()."
