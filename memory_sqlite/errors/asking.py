"""What is asked is wrong, unknown or not allowed: arguments, settings, agents, sessions, paths."""

from __future__ import annotations

from memory_sqlite.errors.base import MemorySqliteError


class InvalidArgument(MemorySqliteError, ValueError):
    """An argument has the wrong type, shape or range; the message names it."""

    code = "invalid_argument"
    exit_code = 2
    default_hint = "Correct the named argument and call again."


class InvalidConfiguration(MemorySqliteError, ValueError):
    """A setting has the wrong type or is out of bounds; the message names the field and where it came from."""

    code = "invalid_configuration"
    exit_code = 2
    default_hint = "Correct it there; `memory-sqlite config --schema` lists every setting and its bounds."


class UnknownAgent(MemorySqliteError):
    """Reading was asked of an agent that has no store; nothing is created by reading."""

    code = "unknown_agent"
    exit_code = 4
    default_hint = "Check the spelling of --agent; an agent comes into being with its first remember, import or index."


class AccessDenied(MemorySqliteError):
    """The session given may not read what was named."""

    code = "access_denied"
    exit_code = 5
    default_hint = "Ask as the operator (without --session) or from the session that owns it."


class PathNotAllowed(MemorySqliteError):
    """A path leaves the workspace, is not a note, or goes through a link."""

    code = "path_not_allowed"
    exit_code = 5
    default_hint = "Name MEMORY.md, USER.md, a Markdown file below memory/, or a configured extra path."


class RecordTooLarge(MemorySqliteError):
    """One message or record is larger than ``max_record_bytes``; nothing of the call was stored."""

    code = "record_too_large"
    exit_code = 2
    default_hint = 'Pass oversize="truncate" to keep it shortened with a mark, or raise max_record_bytes.'


class SessionConflict(MemorySqliteError):
    """A session is already known to be of another chat type or kind."""

    code = "session_conflict"
    exit_code = 2
    default_hint = "Use another session key; what a session is does not change once it is known."


class SessionHeld(MemorySqliteError):
    """What was to be forgotten belongs to a session under a legal hold; nothing was forgotten."""

    code = "session_held"
    exit_code = 77
    default_hint = "`memory-sqlite hold` lists what is held; `memory-sqlite hold SESSION --release` ends a hold."
