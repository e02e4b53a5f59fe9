"""Who asks and what for: filters as FTS expressions, applied before ranking.

Lives here: visibility (the one table of section "Who sees what" as an expression) and the caller's filters. Not here:
the tokens' spelling (``generations.layout``) and how the expression is run (``retrieve``). Called by the memory door,
``recall`` and ``retrieve``.
"""

from __future__ import annotations

from typing import Final

from memory_sqlite.generations.layout import PRIVATE_TOKEN, PROJECT_PREFIX, project_token, session_token
from memory_sqlite.model import DocumentKind, Layer, Source
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Viewer:
    """On whose behalf a search runs.

    The operator sees everything. Anybody else sees the documents of the session given, and with ``owner_private`` those
    that belong to the owner's direct sessions. A viewer with neither sees nothing.
    """

    operator: bool = False
    session_id: int | None = None
    owner_private: bool = False

    def expression(self) -> str | None:
        """The viewer as an FTS expression over the ``filter`` column; ``None`` for everything."""
        if self.operator:
            return None
        allowed = []
        if self.session_id is not None:
            allowed.append(session_token(self.session_id))
        if self.owner_private:
            allowed.append(PRIVATE_TOKEN)
        # a token that no row holds: a viewer without rights matches nothing
        return _any_of(allowed or ["nobody."])


OPERATOR = Viewer(operator=True)
_EVERYTHING: Final = '"source=memory." OR "source=sessions."'
"""NOT needs something to take away from."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What may be in the answer. ``None`` means: no restriction. Times are ms, ``since`` included, ``until`` not."""

    viewer: Viewer
    sources: tuple[Source, ...] = ("memory", "sessions")
    layers: tuple[Layer, ...] | None = None
    sessions: tuple[int, ...] | None = None
    projects: tuple[str, ...] | None = None
    kinds: tuple[DocumentKind, ...] | None = None
    since: int | None = None
    until: int | None = None
    boost_projects: tuple[str, ...] = ()
    """Projects that are active now: their entries rank a little higher, and nothing is left out."""
    active_projects: tuple[str, ...] | None = None
    """Where given, what belongs to projects and to none of these is left out; what belongs to none at all stays."""
    except_session: int | None = None
    """What was said in this session is left out, before near duplicates are collapsed into it."""

    def expression(self) -> str | None:
        """The caller's own restrictions, without the viewer, as an FTS expression; ``None`` for none."""
        clauses = []
        if set(self.sources) != {"memory", "sessions"}:
            clauses.append(_any_of([f"source={source}." for source in self.sources] or ["nobody."]))
        if self.layers is not None:
            clauses.append(_any_of([f"layer={layer.lower()}." for layer in self.layers] or ["nobody."]))
        if self.kinds is not None:
            clauses.append(_any_of([f"kind={kind}." for kind in self.kinds] or ["nobody."]))
        if self.sessions is not None:
            clauses.append(_any_of([session_token(session) for session in self.sessions] or ["nobody."]))
        if self.projects is not None:
            clauses.append(_any_of([project_token(project) for project in self.projects] or ["nobody."]))
        if self.active_projects is not None:
            active = " OR ".join(f'"{project_token(project)}"' for project in self.active_projects) or '"nobody."'
            clauses.append(f'filter : (({_EVERYTHING}) NOT ("{PROJECT_PREFIX}" * NOT ({active})))')
        if self.except_session is not None:
            said = f'"source=sessions." AND "{session_token(self.except_session)}"'
            clauses.append(f"filter : (({_EVERYTHING}) NOT ({said}))")
        return " AND ".join(clauses) if clauses else None

    def may_hold_messages(self) -> bool:
        """Whether a message can be an answer at all; else the contexts need no search."""
        return (
            "sessions" in self.sources
            and (self.layers is None or "L0" in self.layers)
            and (self.kinds is None or "message" in self.kinds)
            and self.projects is None
        )


def _any_of(tokens: list[str]) -> str:
    return "filter : (" + " OR ".join(f'"{token}"' for token in tokens) + ")"
