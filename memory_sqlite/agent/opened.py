"""Opening an agent: settings, store, generation, workspace; and letting go of them again."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import apsw

from memory_sqlite import config, errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import secret as secrets
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.indexing.keeper import IndexKeeper
from memory_sqlite.indexing.notes import Progress
from memory_sqlite.storage import store as stores
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.store import Store
from memory_sqlite.values import dataclass, field

if TYPE_CHECKING:
    from memory_sqlite.agent.embedding import Embedding, Filer
    from memory_sqlite.agent.upkeep import Upkeep
    from memory_sqlite.processes.retrieval import Retrieval


class Closing(Protocol):
    """Something that is ended with the memory."""

    def close(self) -> None: ...


@dataclass
class Opened:
    """The rooms of one agent. ``looked_at`` is when the notes were last compared with the generation."""

    store: Store
    keeper: IndexKeeper
    workspace: Path | None
    settings: Settings
    looked_at: float | None = None
    problems: list[str] = field(default_factory=list)
    closed: bool = False
    workers: Retrieval | None = None
    """Retrieval worker processes, while this memory serves."""
    follower: Closing | None = None
    upkeep: Upkeep | None = None
    outdated: int | None = None
    """The number of a generation that another version built and that answers until its successor is there."""
    watches: list[Closing] = field(default_factory=list)
    """Watches of the notes, while they run."""
    embedding: Embedding | None = None
    """Where an embedding provider is set."""
    sync_error: str | None = None
    """The code of what kept the last refresh or ``index`` from bringing the index up to date; ``None``: nothing."""
    route: str | None = None
    """By which route the last search looked for meaning."""
    filer: Filer | None = None
    """What gives texts their vectors beside what this memory serves."""

    def fill_notes(self, index: apsw.Connection, progress: Progress | None = None) -> None:
        """Put the workspace's notes into a new generation; without a reachable workspace there are none."""
        if self.workspace is not None and self.workspace.is_dir():
            work = notes_index.plan(index, self.workspace, self.settings.extra_paths)
            notes_index.carry_out(
                index,
                work,
                progress=progress,
                forgotten=self.is_forgotten_note,
                redact=self.settings.redact_secrets,
            )

    def is_forgotten_note(self, path: str, digest: str) -> bool:
        """Whether this version of a note (SHA-256 of its bytes) is one that something was forgotten from."""
        subject = tombstones.subject(self.store.key, "note", path, digest)
        return bool(tombstones.bounds(self.store.connection, "note", subject))

    def has_unfinished_forgetting(self) -> bool:
        """Whether somebody began to forget something and did not come to the end; never for a reader, who cannot."""
        if self.store.read_only:
            return False
        return bool(self.store.connection.execute("SELECT EXISTS (SELECT 1 FROM forgettings)").get)

    def fill_beside(self) -> None:
        """Give texts their vectors as they come, in a thread, until this is closed; nothing without a provider."""
        if self.embedding is not None and self.filer is None and not self.store.read_only:
            from memory_sqlite.agent.embedding import Filer

            self.filer = Filer(self.embedding)

    def brought(self) -> None:
        """The index has something new, which may need vectors; returns at once."""
        if self.filer is not None:
            self.filer.wake()

    def close(self) -> None:
        """Close generation and store; a read that is under way ends on its own connections."""
        self.closed = True
        for watch in list(self.watches):
            watch.close()
        if self.filer is not None:
            self.filer.close()
        if self.embedding is not None:
            self.embedding.close()
        if self.upkeep is not None:
            self.upkeep.close()
        if self.follower is not None:
            self.follower.close()
        if self.workers is not None:
            self.workers.close()
        self.keeper.close()
        self.store.close()


def settings_for(
    settings: Settings | None,
    data_dir: str | os.PathLike[str] | None,
    agent: str | None,
    workspace: str | os.PathLike[str] | None,
) -> Settings:
    """The settings in force: those given, else file and environment; explicit arguments win over both."""
    given = {
        "data_dir": Path(data_dir).expanduser().absolute() if data_dir is not None else None,
        "agent": agent,
        "workspace": Path(workspace).expanduser().absolute() if workspace is not None else None,
    }
    arguments = {name: value for name, value in given.items() if value is not None}
    if settings is None:
        return config.load(arguments=arguments)[0]
    return replace(settings, **arguments) if arguments else settings  # type: ignore[arg-type]


def open_agent(
    settings: Settings,
    clock: Clock,
    *,
    read_only: bool,
    serving: bool = False,
    progress: Progress | None = None,
) -> Opened:
    """Open store and generation. For writing, a missing or outdated generation is built at once from the store.

    With ``serving``, retrieval workers are made and one of them is started without waiting for it, and an outdated
    generation that can still be read answers until ``upkeep`` has built the next one. It also answers where the next
    one cannot be built now: ``outdated`` says so, and the next open or ``index`` tries again.

    Raises ``UnknownAgent`` with the nearest name when reading an agent that does not exist.
    """
    agent = settings.agent
    secret = secrets.from_settings(settings)
    if read_only:
        try:
            store = stores.open_for_reading(settings.data_dir, agent, clock, secret)
        except errors.UnknownAgent as error:
            near = _nearest(settings.data_dir, agent)
            raise errors.UnknownAgent(error.message, hint=f"Did you mean {near!r}?" if near else None) from None
    else:
        store = stores.open_for_writing(settings.data_dir, agent, clock, secret)
    keeper = IndexKeeper(store, clock)
    try:
        opened = Opened(store, keeper, _workspace(store, settings), settings)
        if settings.embedding_provider is not None:
            from memory_sqlite.agent.embedding import Embedding  # most have none, and pay nothing for it

            opened.embedding = Embedding(settings, store, keeper)
        if not read_only:
            # a first generation is made without notes: the first search or `index` takes them in and can say how many
            first = keeper.number() is None
            if serving and keeper.can_answer():
                opened.outdated = keeper.number()
            else:
                try:
                    keeper.ensure(_nothing if first else partial(opened.fill_notes, progress=progress), progress)
                except (errors.StoreBusy, errors.DiskFull, errors.IndexUnavailable):
                    if not keeper.can_answer():
                        raise
                    opened.outdated = keeper.number()
        if serving and not store.media.is_read_only:  # workers open the files as they are
            _serve(opened)
    except BaseException:
        keeper.close()
        store.close()
        raise
    return opened


def _serve(opened: Opened) -> None:
    # loaded here alone: a command that asks once has no use for processes
    from memory_sqlite.agent.retrieving import Follower
    from memory_sqlite.processes.retrieval import Retrieval

    workers = Retrieval(key=opened.store.file_key)
    if workers.available:
        workers.pool.warm()
    opened.workers = workers
    opened.keeper.before_retiring.append(workers.let_go)
    opened.follower = Follower(opened, workers)


def _nothing(index: apsw.Connection) -> None:
    """A first generation begins without notes."""


def _nearest(data_dir: Path, agent: str) -> str | None:
    """The name of an existing agent that looks like a typing error away."""
    names = []
    for directory in stores.agents(data_dir):
        slug = directory.rpartition("-")[0]
        names.append(slug)
    import difflib

    close = difflib.get_close_matches(agent.lower(), names, n=1)
    return close[0] if close else None


def _workspace(store: Store, settings: Settings) -> Path | None:
    """The workspace given, kept for the next time where it exists (a mistyped one is not); else the one last given."""
    if settings.workspace is None:
        known = store.connection.execute("SELECT value FROM store_info WHERE key = 'workspace'").get
        return Path(known) if isinstance(known, str) else None
    workspace = settings.workspace
    if not store.read_only and workspace.is_dir():
        known = store.connection.execute("SELECT value FROM store_info WHERE key = 'workspace'").get
        if known != str(workspace):
            with store.transaction() as connection:
                connection.execute(
                    "INSERT INTO store_info VALUES ('workspace', ?)"
                    " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (str(workspace),),
                )
    return workspace
