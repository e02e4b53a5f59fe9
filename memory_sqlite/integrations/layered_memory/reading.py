"""``readFile``: records read back by virtual path, as the product's lines.

Facts: section 5.1 of the layered-memory reference (forms, order of the checks, their messages, paging). No file is
opened, so no link can be followed. Called by ``manager``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import apsw

from memory_sqlite import errors
from memory_sqlite.integrations.layered_memory.agents import AgentMemory, profiles_of
from memory_sqlite.integrations.layered_memory.caller import Caller, session_of
from memory_sqlite.sources.record_lines import Folder, Selection, encoded, lines
from memory_sqlite.transcripts import sessions

_DAY: Final = r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})\.jsonl"
_SESSION_FILE: Final = re.compile(
    rf"sessions/(?P<token>[0-9a-f]{{32}})/(?P<folder>memories|scenarios|profiles)/{_DAY}", re.ASCII
)
_PROFILE_FILE: Final = re.compile(rf"agent-profiles/{_DAY}", re.ASCII)
_OUTSIDE: Final = "[memory] refusing to read outside the agent memory directory"
_FORM: Final = "[memory] only session-capability or agent-profile memory files may be read"


def read_file(memory: AgentMemory, params: Mapping[str, Any]) -> dict[str, Any]:
    """A page of a day file: ``{text, path, from, lines, truncated, nextFrom?}``; ``from`` counts records from 0.

    The path of a session's file is the capability, as in the product; with ``sessionKey`` it must be that session's.
    Agent profiles have a path that anybody can guess, so they need a ``sessionKey`` that may see them. A file that is
    not there is an empty page. Raises ``PathNotAllowed``, ``AccessDenied``, ``InvalidArgument``.
    """
    path = _checked_path(params.get("relPath"))
    start = _whole(params.get("from", 0), "from", least=0)
    given = params.get("lines")
    most = memory.settings.max_read_lines
    count = most if given is None else min(_whole(given, "lines", least=1), most)
    session = _SESSION_FILE.fullmatch(path)
    profile = _PROFILE_FILE.fullmatch(path)
    in_scope = memory.settings.profile_scope == "agent"
    if not (profile and in_scope) and not (session and not (in_scope and session["folder"] == "profiles")):
        raise errors.PathNotAllowed(_FORM)
    caller = Caller(memory.agent, session_of(params.get("sessionKey")))
    opened = memory.opened(create=False)
    if opened is None:
        return _page(path, start, [], None)
    with opened.store.readers.borrow() as connection:
        if session is not None:
            selection = _of_session(connection, caller, session["token"])
            folder, day = cast(Folder, session["folder"]), session["day"]
        else:
            assert profile is not None
            selection, folder, day = _of_profiles(connection, caller), "agent-profiles", profile["day"]
        found = list(lines(connection, folder, day, selection, after=start, limit=count + 1))
    following = found[count].ordinal - 1 if len(found) > count else None
    return _page(path, start, [encoded(line, memory.agent) for line in found[:count]], following)


def _page(path: str, start: int, records: list[str], following: int | None) -> dict[str, Any]:
    page: dict[str, Any] = {
        "text": "".join(record + "\n" for record in records),
        "path": path,
        "from": start,
        "lines": len(records),
        "truncated": following is not None,
    }
    if following is not None:
        page["nextFrom"] = following
    return page


def _checked_path(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise errors.InvalidArgument("[memory] relPath must be a non-empty string")
    inside = posixpath.normpath(value)
    if posixpath.isabs(value) or inside in (".", "..") or inside.startswith("../") or "\0" in value:
        raise errors.PathNotAllowed(_OUTSIDE)
    return value


def _whole(value: object, name: str, *, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise errors.InvalidArgument(f"[memory] {name} must be an integer of at least {least}")
    return min(value, 2**62)  # SQLite counts in 64 bits; there is nothing behind either way


def _of_session(connection: apsw.Connection, caller: Caller, token: str) -> Selection:
    if caller.session is not None:
        row = sessions.by_key(connection, sessions.check_key(caller.session))
        if row is None or row.token != token:
            raise errors.AccessDenied("[memory] this session may not read the memory of another session")
    return Selection("s.token = ?", (token,))


def _of_profiles(connection: apsw.Connection, caller: Caller) -> Selection:
    if caller.session is None:
        raise errors.AccessDenied("[memory] agent profiles need a trusted session key")
    return profiles_of(caller.audience(connection))
