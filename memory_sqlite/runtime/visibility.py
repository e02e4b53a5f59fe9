"""Who may read what through our provider: from the authority a host vouches for to a view of the store.

An operator with the scope to read sees the agent; an ``owner-private`` audience what is the owner's; a ``conversation``
audience its own root conversation; a valid recall pass what it admits; everybody else nothing. A view is never derived
from a session's key, a reference or a cache: a session without audience or pass has none, whatever it is called.

Not here: whether the authority still holds (``callers``, and the host), what a pass admits (``recall_pass``), how a
view filters rows (``transcripts.audience``). Called by ``provider`` and ``handle``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.model import SOURCES, Source
from memory_sqlite.runtime import recall_pass
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    ConversationAudience,
    ConversationRecall,
    HostAuthority,
    OperatorAuthority,
    OwnerPrivateAudience,
    SessionAuthority,
)
from memory_sqlite.runtime.recall_pass import Requester
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.audience import NOBODY_YET, OPERATOR, Audience

PROVIDER_ID: Final = "memory-sqlite"
READ_SCOPES: Final = frozenset({"operator.read", "operator.admin"})

_OWNER: Final = Audience(operator=False, owner_private=True)


@dataclass(frozen=True)
class Access:
    """What one caller may read. ``refusal`` says why it may read nothing, in words fit for a warning."""

    kind: Literal["operator", "owner-private", "conversation", "pass", "nothing"]
    caller: str
    """Tells one kind of caller from another, for what is bound to a caller (cursors)."""
    conversation: str | None = None
    recall: ConversationRecall | None = None
    requester: Requester | None = None
    refusal: str | None = None

    def require(self) -> None:
        """Raise ``AccessDenied`` when nothing may be read."""
        if self.refusal is not None:
            raise errors.AccessDenied(self.refusal)

    @property
    def sources(self) -> tuple[Source, ...]:
        """What a search may look in at all."""
        return ("sessions",) if self.recall is not None and self.recall.corpus == "sessions" else SOURCES


@dataclass(frozen=True)
class View:
    """What the store says that an access comes to, at this moment."""

    audience: Audience
    access: Access
    pass_valid: bool = False
    anchor: int | None = None
    """The session that a valid pass was granted to: it shows what was said elsewhere."""

    @property
    def refusal(self) -> str | None:
        """Why nothing may be read after all, in words fit for a warning: the pass is not good for this session."""
        is_good = self.access.recall is None or self.pass_valid
        return None if is_good else "the recall pass is not valid for this session"

    def require(self) -> None:
        """Raise ``AccessDenied`` when nothing may be read."""
        if self.refusal is not None:
            raise errors.AccessDenied(self.refusal)

    def admits(self, store: apsw.Connection, agent_id: str, source: str, session_key: str | None) -> bool:
        """Whether a hit that the audience may see is shown: under a pass, only what the pass admits."""
        if self.access.recall is None or self.access.requester is None:
            return True
        facts = recall_pass.facts_of(store, agent_id, source, session_key)
        return recall_pass.admits(self.access.recall, self.pass_valid, self.access.requester, facts)


def access_of(agent_id: str, authority: CallerAuthority, config: Mapping[str, Any]) -> Access:
    """What a caller may read of an agent.

    Raises ``CallerNotCurrent`` for an audience of another agent, ``InvalidConfiguration``, and ``InvalidArgument`` for
    an authority that is none of the contract's.
    """
    if isinstance(authority, OperatorAuthority):
        if READ_SCOPES.isdisjoint(authority.scopes):
            return _nothing("operator", "this operator lacks the scope operator.read")
        return Access("operator", "operator")
    if isinstance(authority, HostAuthority):
        return _nothing("host", "a host operation reads no memory")
    if not isinstance(authority, SessionAuthority):
        raise errors.InvalidArgument("authority must be an operator's, a session's or a host operation's")
    audience = authority.audience
    if audience is not None and audience.agent_id != agent_id:
        raise errors.CallerNotCurrent("memory audience belongs to another agent")
    caller = f"session\0{authority.session_key}"
    if authority.sandboxed and not admits_sandboxed(config):
        return _nothing(caller, "sandboxed sessions read no memory here")
    if authority.conversation_recall is not None:
        # a pass narrows whatever else the session may see: it was granted for this
        return _of_pass(agent_id, authority, authority.conversation_recall, caller)
    if isinstance(audience, OwnerPrivateAudience):
        return Access("owner-private", f"owner-private\0{caller}")
    if isinstance(audience, ConversationAudience):
        return Access("conversation", f"conversation\0{audience.session_key}\0{caller}", audience.session_key)
    if audience is not None:
        raise errors.InvalidArgument("audience must be owner-private or a conversation")
    return _nothing(caller, "this session has no memory audience")


def _nothing(caller: str, refusal: str) -> Access:
    return Access("nothing", caller, refusal=refusal)


def _of_pass(agent_id: str, authority: SessionAuthority, recall: ConversationRecall, caller: str) -> Access:
    if isinstance(authority.audience, ConversationAudience):
        return _nothing(caller, "a recall pass is for private conversations")
    requester = Requester(agent_id, authority.session_key, authority.sandboxed)
    bound = f"pass\0{recall.anchor_session_key}\0{recall.corpus}\0{caller}"
    return Access("pass", bound, recall=recall, requester=requester)


def view_of(access: Access, store: apsw.Connection) -> View:
    """What the access comes to now. A conversation that was never heard of has nothing to show yet."""
    if access.kind == "operator":
        return View(OPERATOR, access)
    if access.kind == "owner-private":
        return View(_OWNER, access)
    if access.kind == "conversation":
        assert access.conversation is not None, "a conversation's access names it"
        # the partition is the key's: a reset gives the session another id and goes on under the same key
        row = sessions.by_key(store, sessions.check_key(access.conversation))
        return View(NOBODY_YET if row is None else Audience(operator=False, session_id=row.id), access)
    if access.recall is not None and access.requester is not None:
        anchor = recall_pass.conversations_of(store, access.requester.agent_id, access.recall.anchor_session_key)
        valid = recall_pass.is_valid(access.recall, access.requester, anchor)
        row = sessions.by_key(store, access.recall.anchor_session_key) if valid else None
        return View(_OWNER if valid else NOBODY_YET, access, valid, None if row is None else row.id)
    return View(NOBODY_YET, access)


def admits_sandboxed(config: Mapping[str, Any]) -> bool:
    """``plugins.entries.memory-sqlite.config.sandboxed``: ``allow`` (the default) or ``deny``."""
    at: Any = config
    for name in ("plugins", "entries", PROVIDER_ID, "config"):
        at = at.get(name) if isinstance(at, Mapping) else None
    said = at.get("sandboxed", "allow") if isinstance(at, Mapping) else "allow"
    if said not in ("allow", "deny"):
        raise errors.InvalidConfiguration(f"plugins.entries.{PROVIDER_ID}.config.sandboxed must be allow or deny")
    return bool(said == "allow")
