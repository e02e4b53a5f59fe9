"""The context engine: what of a conversation and of memory goes before a prompt, and turns committed exactly once.

Lives here: the engine's contract (``shapes``), our engine, and the delta cursor over stored transcripts. Not here: the
host's side of it (``host``: selection, outbox, fence), recall (``recall``),
storing a turn (``layers``, ``transcripts``).
"""
