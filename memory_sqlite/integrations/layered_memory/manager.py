"""The product's search manager of one agent. Facts: section 5 of the layered-memory reference.

Methods take the host's camelCase objects as mappings. Called by hosts; made by ``plugin``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memory_sqlite import paths
from memory_sqlite.clock import Clock
from memory_sqlite.crypto import secret
from memory_sqlite.integrations.layered_memory import reading
from memory_sqlite.integrations.layered_memory.agents import AgentMemory
from memory_sqlite.integrations.layered_memory.caller import Caller, session_of
from memory_sqlite.integrations.layered_memory.results import Results, check_query, max_results_of, min_score_of


class LayeredManager:
    """``search``, ``readFile``, ``status``, ``sync``, the probes and ``close`` under their names in Python."""

    def __init__(self, memory: AgentMemory, clock: Clock, released: Callable[[], None] | None = None) -> None:
        self._memory = memory
        self._clock = clock
        self._released = released

    def search(self, query: str, options: Mapping[str, Any] | None = None) -> Results:
        """Result objects, best first; ``options``: ``maxResults``, ``minScore``, ``sessionKey``, ``signal``.

        Without a trusted ``sessionKey`` nothing is found, and ``warning`` says so. Raises ``InvalidArgument`` naming
        the option, ``Cancelled`` once ``signal`` (a ``threading.Event``) is set.
        """
        options = options or {}
        signal = options.get("signal")
        most, least = max_results_of(options, self._memory.settings), min_score_of(options)
        return self._memory.find(
            Caller(self._memory.agent, session_of(options.get("sessionKey"))),
            check_query(query),
            max_results=most,
            min_score=least,
            cancelled=signal.is_set if signal is not None else None,
        )

    def read_file(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A page of a virtual day file; ``params``: ``relPath``, ``from``, ``lines``, and ours: ``sessionKey``.

        Raises ``PathNotAllowed``, ``AccessDenied``, ``InvalidArgument``.
        """
        return reading.read_file(self._memory, params)

    def status(self) -> dict[str, Any]:
        """The product's status object."""
        settings = self._memory.settings
        profiles = "-with-agent-profiles" if settings.profile_scope == "agent" else ""
        return {
            "backend": "builtin",
            "provider": "local-lexical",
            "files": self._memory.day_files(),
            "workspaceDir": str(paths.agent_directory(settings.data_dir, self._memory.agent)),
            "sources": ["memory"],
            "vector": {"enabled": False, "semanticAvailable": False, "available": False},
            "custom": {
                "encrypted": secret.from_settings(settings) is not None,  # another state does not open
                "retentionDays": settings.retention_days,
                "isolation": f"agent+physical-session{profiles}",
                "profileScope": settings.profile_scope,
                "pendingWrites": self._memory.pending_writes,
            },
        }

    def sync(self) -> int:
        """Apply the retention rule now; returns how many day files were deleted."""
        return self._memory.clean()

    def probe_embedding_availability(self) -> dict[str, Any]:
        """This search uses words, not embeddings."""
        return {
            "ok": False,
            "checked": True,
            "checkedAtMs": self._clock.now_ms(),
            "error": "local lexical search does not use embeddings",
        }

    def probe_vector_availability(self) -> bool:
        """Always false."""
        return False

    def close(self) -> None:
        """Let go of the agent's files once the write that is going on is done; hooks that come later open it again."""
        if self._released is not None:
            self._released()
