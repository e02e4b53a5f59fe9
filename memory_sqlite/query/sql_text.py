"""What can be told from the text of a statement before SQLite sees it: where it ends, which JSONL tables it names.

A table-valued function has the same columns wherever it is used, while files differ. So ``jsonl('…')`` becomes a table
of its own for each pattern, ``"jsonl$1"('…')``, whose columns are the keys found there. Only names are replaced, never
what is in quotes or comments. Pure. Called by ``running`` and the command line's shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.values import dataclass

JSONL: Final = "jsonl"

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
    |(?P<open>['"`\[].*)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<parameter>\?\d*|[:@$]\w+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_READING: Final = frozenset({"select", "with", "values", "explain", "pragma", "("})
"""How a statement begins that may be one that only reads; SQLite's authorizer decides. VACUUM INTO, for one, writes a
file and is none."""
_SCHEMAS: Final = frozenset({"main", "search_index"})
_CATALOGUES: Final = frozenset(
    {"sqlite_schema", "sqlite_master", "sqlite_temp_schema", "sqlite_temp_master", "sqlite_sequence", "sqlite_stat1",
     "sqlite_stat4"}
)  # fmt: skip
"""What leads past the views: every other name of a table is covered by one (``opening``)."""
_WORDS: Final = """cross except full group having inner intersect join left limit natural on order outer right union
    using where window indexed not"""
_AFTER_A_TABLE: Final = frozenset(_WORDS.split())
"""Words that may follow a table in FROM and are no name for it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is not white space: its kind and where it stands. ``open`` is a quote that does not end."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class JsonlTable:
    """One JSONL table of a statement: ``name`` is its module, ``pattern`` and ``wanted`` what was said to it."""

    name: str
    pattern: str
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement ready for SQLite."""

    sql: str
    tables: tuple[JsonlTable, ...]


def is_unicode(text: str) -> bool:
    """Whether it holds no lone surrogate, which SQLite cannot be given."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def tokens(sql: str) -> list[Token]:
    """Everything but white space and comments."""
    return [
        Token(match.lastgroup or "", match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(sql)
        if match.lastgroup != "space"
    ]


def statement(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Statement:
    """The one statement of ``sql``. Raises ``QueryInvalid`` for none, for two, for one that is too long,
    ``QueryRefused`` for one that could not be a question."""
    if len(sql) > limits.QUERY_SQL_MAX_CHARS:
        raise errors.QueryInvalid(f"the SQL is longer than {limits.QUERY_SQL_MAX_CHARS} characters")
    if "\0" in sql or not is_unicode(sql):
        raise errors.QueryInvalid("the SQL holds a NUL character or half a character")
    found = tokens(sql)
    while found and found[-1].text == ";":
        found.pop()
    if not found:
        raise errors.QueryInvalid("there is no SQL")
    if any(token.text == ";" for token in found):
        raise errors.QueryInvalid("one query is one statement; there is more after the first semicolon")
    if found[0].text.lower() not in _READING:
        raise errors.QueryRefused("a query only reads: it begins with SELECT, WITH, VALUES or EXPLAIN")
    _check_names(found)
    return _with_tables(sql[: found[-1].end], found, parameters)


def _check_names(found: list[Token]) -> None:
    """Raises ``QueryRefused`` for a table by the name of its database, and for SQLite's own tables.

    The authorizer does not see all of it: of columns that only USING or NATURAL compares SQLite asks nothing (tried).
    """
    for token, following in zip(found, [*found[1:], None], strict=True):
        if token.kind not in ("word", "quoted", "string"):
            continue
        name = (token.text if token.kind == "word" else token.text[1:-1]).lower()
        if name in _CATALOGUES or (name in _SCHEMAS and following is not None and following.text == "."):
            raise errors.QueryRefused("that table is not open to queries; the views have names without a dot")


def _with_tables(sql: str, found: list[Token], parameters: Sequence[Any] | Mapping[str, Any]) -> Statement:
    tables: dict[tuple[str, str], JsonlTable] = {}
    pieces: list[str] = []
    at = asked = 0  # ``asked``: the number of the last parameter, as SQLite counts them
    for index, token in enumerate(found):
        asked = _counted(token, asked)
        if token.kind != "word" or token.text.lower() != JSONL or (index and found[index - 1].text == "."):
            continue
        call = _call(found[index + 1 :], parameters, asked)
        if call is None:
            continue
        pattern, wanted, end, is_named = call
        table = tables.setdefault((pattern, wanted), JsonlTable(f"{JSONL}${len(tables) + 1}", pattern, wanted))
        pieces += (sql[at : token.start], f'"{table.name}"', sql[token.end : end], "" if is_named else f" AS {JSONL}")
        at = end
    return Statement("".join((*pieces, sql[at:])), tuple(tables.values()))


def _call(
    rest: list[Token], parameters: Sequence[Any] | Mapping[str, Any], asked: int
) -> tuple[str, str, int, bool] | None:
    """What stands in the brackets, where they end, and whether a name follows; ``None`` for what is not known yet."""
    said: list[str] = []
    shape = [token.text if token.kind == "sign" else "" for token in rest[:5]]
    if shape[:1] != ["("]:
        return None
    close = 2 if shape[2:3] == [")"] else 4 if shape[2:3] == [","] and shape[4:5] == [")"] else 0
    if not close:
        return None
    for token in rest[1:close:2]:
        value = _value(token, parameters, asked)
        asked = _counted(token, asked)
        if value is None:
            return None
        said.append(value)
    after = rest[close + 1] if len(rest) > close + 1 else None
    is_named = after is not None and (
        after.kind == "quoted" or (after.kind == "word" and after.text.lower() not in _AFTER_A_TABLE)
    )
    return said[0], said[1] if len(said) > 1 else "", rest[close].end, is_named


def _number(token: Token) -> int:
    """Of ``?12``; SQLite knows none of more than five digits."""
    return int(token.text[1:]) if len(token.text) <= 6 else 0


def _counted(token: Token, asked: int) -> int:
    """The number of the last parameter after this token: ``?`` is one more than the highest so far."""
    if token.kind != "parameter" or token.text[0] != "?":
        return asked
    return asked + 1 if len(token.text) == 1 else max(asked, _number(token))


def _value(token: Token, parameters: Sequence[Any] | Mapping[str, Any], asked: int) -> str | None:
    """A literal, or the value of a parameter, where it is text."""
    value: object = None
    if token.kind == "string":
        value = token.text[1:-1].replace("''", "'")
    elif token.kind == "parameter" and isinstance(parameters, Mapping):
        value = parameters.get(token.text[1:])
    elif token.kind == "parameter" and token.text[0] == "?" and not isinstance(parameters, Mapping):
        number = _number(token) - 1 if len(token.text) > 1 else asked
        value = parameters[number] if 0 <= number < len(parameters) else None
    return value if isinstance(value, str) else None
