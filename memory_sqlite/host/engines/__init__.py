"""Hosting a context engine: selecting one, calling it safely, and delivering accepted turns to it.

Lives here: registration, the legacy path, one logical turn from admission to acknowledgement, quarantine, the turn
outbox and its recovery, the read fence, the protocol of a host's transcript. Not here: an engine (``context`` has
ours), memory providers (``host``). A host starts with ``engine_host.EngineHost``.
"""
