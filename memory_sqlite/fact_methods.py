"""The door's three methods for facts that a host states: storing them, asking for them by name, ending them.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: what a fact may be
(``layers.stated``), when words name one (``recall.naming``). Inherited by ``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.model import ChatType, Receipt, SessionInfo, SessionKind

if TYPE_CHECKING:
    from memory_sqlite.recall.facts import Facts


class FactMethods:
    """What ``Memory`` can do with stated facts."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # these four are ``Memory``'s own

        def _enter(self) -> Opened | None: ...

    def remember_facts(
        self,
        facts: Sequence[Mapping[str, Any]],
        *,
        session: str,
        chat_type: ChatType | None = None,
        kind: SessionKind | None = None,
        sender_is_owner: bool | None = None,
    ) -> Receipt:
        """Store facts that the host states, beside those found in what is said.

        A fact is ``{"content"}`` with optional ``name``, ``aliases``, ``scopes``, ``kind`` (of ``FACT_KINDS``),
        ``pinned`` and ``status`` (``superseded`` ends one). The newest of a name and scopes supersedes the one before.
        Names and aliases must hold a letter, a digit or a symbol: by punctuation nothing is found.
        A stranger's are never pinned, and never instructions.

        Raises ``InvalidArgument``, ``SessionConflict`` and the store's errors: then nothing of the call was stored.
        """
        from memory_sqlite.agent import stating

        if (opened := self._enter()) is None:
            return Receipt("disabled", session)
        asked = stating.prepare(SessionInfo(session, chat_type, kind, sender_is_owner), facts, self._settings)
        with self._lock:
            return stating.remember(opened, asked, self._settings, self._clock)

    def end_facts(self, references: Sequence[str]) -> list[str]:
        """End facts (``record:<id>``, as ``facts`` gives them): they hold no longer, are searched and recalled no more,
        and stay in the store until they are forgotten. For the operator.

        Returns those that were in force until now, each once. Raises ``InvalidArgument`` and the store's errors.
        """
        from memory_sqlite.agent import stating

        if (opened := self._enter()) is None:
            return []
        ids = stating.check_references(references)
        with self._lock:
            return stating.end(opened, ids)

    def facts(
        self,
        query: str | None = None,
        *,
        session: str | None = None,
        scopes: Sequence[str] | None = None,
        max_results: int | None = None,
    ) -> Facts:
        """The pinned facts, those that ``query`` names by a whole name or alias, and nothing else; without a query all.

        ``scopes`` default to the session's project, else to all; a fact without scopes holds in all. Pinned ones count
        in ``max_results`` (20, at most 200) and are never left out. Raises ``InvalidArgument``.
        """
        from memory_sqlite.recall import facts

        if (opened := self._enter()) is None:
            return facts.Facts(query, (), (), disabled=True)
        return facts.answer(opened, query, session, scopes, max_results)
