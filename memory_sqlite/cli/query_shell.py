"""The shell of ``memory-sqlite query``: statements until Ctrl-D, each under the same bounds and refusals.

It has no command that opens or writes anything. Its history lives as long as it does and is in no file: statements can
hold the words of a memory, and a store may be encrypted. Called by ``query``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from memory_sqlite import errors
from memory_sqlite.cli.output import Output, columns, plain
from memory_sqlite.cli.query_output import FORMATS

_PROMPT, _MORE = "memory> ", "   ...> "
_WORDS: Final = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN LEFT USING AS AND OR NOT LIKE GLOB IN IS NULL BETWEEN COUNT SUM AVG"
    " MIN MAX DISTINCT HAVING WITH RECURSIVE UNION ALL CASE WHEN THEN ELSE END EXPLAIN jsonl(' transcript('"
)
HELP: Final = (
    (".help", "this list"),
    (".views", "the views of the memory"),
    (".columns VIEW", "the columns of a view"),
    (f".format {'|'.join(FORMATS)}", "how rows are shown"),
    (".explain SELECT …", "what SQLite would do, without doing it"),
    (".quit", "leave; so does Ctrl-D"),
)

Ask = Callable[[str, bool], None]
"""Run one statement (or only explain it) and show what it gives."""


class Shell:
    """One conversation. ``names`` gives views and columns, ``read`` a line; it raises ``EOFError`` at the end."""

    def __init__(
        self, ask: Ask, names: Callable[[], dict[str, list[str]]], output: Output, read: Callable[[str], str] = input
    ) -> None:
        self.form = "table"
        self._ask = ask
        self._names = names
        self._output = output
        self._read = read

    def run(self) -> None:
        """Until the end of input. What fails is said, and the next line is asked for."""
        self._output.line("SQL over this memory and over JSONL files; it only reads. End with ; and ask for .help")
        pending = ""
        while True:
            try:
                line = self._read(_MORE if pending else _PROMPT)
            except EOFError:
                self._output.line()
                return
            except KeyboardInterrupt:
                self._output.line()
                pending = ""
                continue
            if not pending and line.strip().startswith("."):
                if not self._command(line.strip()):
                    return
                continue
            pending = f"{pending}\n{line}" if pending else line
            if is_complete(pending):
                statement, pending = pending, ""
                self._guarded(statement, False)
            elif not pending.strip():
                pending = ""

    def _guarded(self, sql: str, explain: bool) -> None:
        try:
            self._ask(sql, explain)
        except errors.MemorySqliteError as error:
            self._output.complain(f"{error.message}" + (f"\n{error.hint}" if error.hint else ""))
        except KeyboardInterrupt:
            self._output.complain("stopped")

    def _command(self, line: str) -> bool:
        """One line that begins with a dot; whether to go on."""
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word in (".quit", ".exit"):
            return False
        if word == ".help":
            for shown in columns([list(row) for row in HELP]):
                self._output.line(shown)
        elif word == ".views":
            for name in self._names():
                self._output.line(name)
        elif word == ".columns" and rest in self._names():
            self._output.line(", ".join(self._names()[rest]))
        elif word == ".format" and rest in FORMATS:
            self.form = rest
        elif word == ".explain" and rest:
            self._guarded(rest, True)
        else:
            self._output.complain(f"{plain(word)}: not known like this; .help lists what there is")
        return True


def is_complete(sql: str) -> bool:
    """Whether a statement ends here: with a semicolon outside quotes and comments."""
    from memory_sqlite.query.sql_text import tokens

    found = tokens(sql)
    return bool(found) and found[-1].text == ";"


def completions(text: str, names: dict[str, list[str]]) -> list[str]:
    """What a word may become: views, columns, words of SQL, the shell's own commands."""
    known: Iterable[str] = [word.split()[0] for word, _ in HELP] if text.startswith(".") else _words(names)
    return [word for word in known if word.lower().startswith(text.lower())]


def _words(names: dict[str, list[str]]) -> list[str]:
    return list(dict.fromkeys([*names, *(column for some in names.values() for column in some), *_WORDS.split()]))


def use_readline(names: Callable[[], dict[str, list[str]]]) -> None:
    """Line editing, Tab and a history of its own for this process, where the system has it."""
    try:
        import readline
    except ImportError:
        return
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        nonlocal found
        if state == 0:
            found = completions(text, names())
        return found[state] if state < len(found) else None

    readline.clear_history()
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()=<>+-*/|")
    readline.parse_and_bind("tab: complete")
