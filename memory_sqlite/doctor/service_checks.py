"""Findings about what answers beside the files: the embedding provider, the engine of vectors, worker processes.

A provider is asked only with --deep, and one that charges is not asked for a vector at all. Called by ``examine``.
"""

from __future__ import annotations

import os
import socket
from typing import Final
from urllib.parse import urlsplit

from memory_sqlite import errors
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.generations import vector_rows
from memory_sqlite.search.vectors import extension

_PROBE: Final = "probe"
_CONNECT_S: Final = 5.0
_WORKER_S: Final = 30.0
"""A cold worker answers after some 200 ms; on a machine that swaps it may take many times as long."""


def embedding(place: Place) -> list[Finding]:
    """Whether the provider that is set can be had, and with --deep whether it answers."""
    provider = place.settings.embedding_provider
    if provider is None:
        raise Skipped("embeddings are switched off", "off")
    from memory_sqlite.embeddings import registry

    try:
        opened = registry.open_provider(place.settings)
    except errors.MemorySqliteError as error:
        return [Finding("embedding_unusable", {"provider": _known(provider), "reason": error.code})]
    assert opened is not None, "one is set"
    try:
        if not place.deep:
            raise Skipped("the provider is asked with --deep")
        if opened.cost == "paid":
            return _reached(place, provider)
        timeout_s = place.settings.embedding_batch_timeout_ms / 1000
        try:
            opened.load(timeout_s)
            opened.embed_query(_PROBE, timeout_s)
        except Exception as error:  # a plugin may raise anything
            reason = error.code if isinstance(error, errors.MemorySqliteError) else type(error).__name__
            return [Finding("embedding_failed", {"provider": _known(provider), "reason": reason})]
        return []
    finally:
        opened.close()


def _reached(place: Place, provider: str) -> list[Finding]:
    """Whether somebody listens where a provider that charges is: nothing is sent to it."""
    if provider != "openai":
        raise Skipped("the provider charges, and only a question would tell whether it answers")
    variable = place.settings.embedding_api_key_env
    if variable is not None and not os.environ.get(variable, "").strip():
        return [Finding("embedding_failed", {"provider": provider, "reason": "no_key"})]
    from memory_sqlite.embeddings.openai import BASE_URL

    parts = urlsplit(place.settings.embedding_base_url or BASE_URL)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _CONNECT_S).close()
    except OSError as error:
        return [Finding("embedding_failed", {"provider": provider, "reason": type(error).__name__})]
    return []


def _known(provider: str) -> str:
    """The name of a provider of ours; a plugin's id is what somebody made up."""
    from memory_sqlite.embeddings.registry import BUILT_IN

    return provider if provider in BUILT_IN else "plugin"


def vector_engine(place: Place) -> list[Finding]:
    """What compares vectors here."""
    if place.settings.embedding_provider is None:
        raise Skipped("embeddings are switched off", "off")
    from importlib.util import find_spec

    with place.pair() as pair:
        loads = extension.load(pair.index)
        filed = sum(vector_rows.filed(pair.index, space) for space in vector_rows.spaces(pair.index))
    if loads or find_spec("numpy") is not None:
        return []
    return [Finding("vector_engine_missing", {"vectors": filed})]


def worker(place: Place) -> list[Finding]:
    """A worker process is started, asked what the current generation says of itself, and ended."""
    from memory_sqlite.processes.gone import Gone
    from memory_sqlite.processes.retrieval import Retrieval

    with place.pair() as pair:
        path, number = pair.path, pair.current.number
    workers = Retrieval(key=place.file_key())
    try:
        if not workers.available:
            raise Skipped("no worker processes can be had here")
        try:
            workers.state(path, number, deadline_s=_WORKER_S)
        except (Gone, errors.IndexUnavailable):
            return []  # it answered: the generation was retired meanwhile, or is at fault, which is told elsewhere
        except errors.MemorySqliteError as error:
            return [Finding("worker_failed", {"reason": error.code})]
        except OSError as error:  # it could not even be started
            return [Finding("worker_failed", {"reason": type(error).__name__})]
        return []
    finally:
        workers.close()
