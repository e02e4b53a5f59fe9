"""The turn outbox against a simple model, in random sequences of turns, failures, crashes, forgetting and drains."""

from __future__ import annotations

import asyncio
import runpy
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_sqlite import Memory
from memory_sqlite.host.engines import recovery
from memory_sqlite.host.engines.turn_rows import AdmittedTurn

PARTS: Any = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "contract" / "engine_parts.py")),
)
SESSIONS = ("agent:main:direct:a", "agent:main:direct:b", "agent:main:direct:c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["turn", "turn", "turn", "accept", "admit", "drain", "fail", "heal", "crash", "forget", "rewrite"]
        ),
        st.integers(0, len(SESSIONS) - 1),
    ),
    min_size=1,
    max_size=25,
)


class Run:
    """The real host beside what must come of it: turns that are owed to the engine, in the order of their session."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.engine = PARTS.Engine()
        self.transcripts = PARTS.MemoryTranscripts("main")
        for number, session in enumerate(SESSIONS):
            self.transcripts.begin(session, f"20000000-0000-4000-8000-{number:012d}")
        self.owed: dict[str, list[str]] = {session: [] for session in SESSIONS}
        self.never: set[str] = set()
        self.count = 0
        self.start()

    def start(self) -> None:
        """A host begins, also after another one has crashed."""
        self.kit = PARTS.Kit(self.memory, self.engine, transcripts=self.transcripts)
        self.kit.transcripts = self.transcripts

    def admitted(self, session: str) -> tuple[str, AdmittedTurn]:
        self.count += 1
        key = f"t{self.count}"
        turn = AdmittedTurn(self.kit.admit(key, f"say {key}", session), "notes", "notes-plugin")
        return key, turn

    async def step(self, what: str, session: str) -> None:
        if what == "turn":
            self.count += 1
            key = f"t{self.count}"
            turn = await self.kit.begin(key, f"say {key}", session)
            durable = turn.durable
            await turn.finish(self.kit.well(self.kit.answer(session=session)))
            await turn.close()
            self.owed[session] += [key] if durable else []
        elif what in ("accept", "admit"):
            await recovery.discard_unaccepted(
                self.kit.outbox, session
            )  # only one runs a session, and it begins with a recovery
            key, turn = self.admitted(session)
            self.kit.outbox.admit(turn)
            end = self.kit.answer(session=session)
            if what == "accept":
                assert self.kit.outbox.accept(turn, end)
                self.owed[session].append(key)
            else:
                self.never.add(key)
        elif what == "drain":
            await self.kit.host.drain()
        elif what == "fail":
            self.engine.fails["commit_turn"] = RuntimeError("no")
        elif what == "heal":
            self.engine.fails.clear()
        elif what == "crash":
            self.start()
        elif what == "forget":
            self.memory.forget(sessions=[session])
            self.owed[session] = [key for key in self.owed[session] if key in self.engine.ledger]
        elif entries := self.transcripts.messages(session):
            with self.transcripts.view("main", session) as view:
                first = view.between(1, 1)[0]
            self.transcripts.rewrite(session, first.entry_id, entries[0])
            # whatever was not read before is of another generation now, and can never be read
            self.owed[session] = [
                key for key in self.owed[session] if key in self.engine.ledger or self.kit.kept(key) == "ready"
            ]

    def check(self) -> None:
        taken = list(self.engine.ledger)
        for session in SESSIONS:
            mine = [key for key in self.owed[session] if key in self.engine.ledger]
            assert mine == [key for key in taken if key in mine], "order of the session"
        assert not self.never & set(taken), "only admitted"
        assert len(taken) == len(set(taken))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_every_accepted_turn_reaches_the_engine_once_in_order(steps: list[tuple[str, int]]) -> None:
    """However turns end, engines fail, hosts crash, transcripts are rewritten and sessions are forgotten: at the end
    what was accepted and can still be read is with the engine, once, in order; nothing else is; nothing is left."""

    async def scene(memory: Memory) -> None:
        run = Run(memory)
        for what, place in steps:
            await run.step(what, SESSIONS[place])
            run.check()
        run.engine.fails.clear()
        run.start()
        await run.kit.host.recover_all()
        run.check()
        assert set(run.engine.ledger) >= {key for keys in run.owed.values() for key in keys}
        outbox = run.kit.outbox
        assert outbox.due() == [] and not any(outbox.is_pending(session) for session in SESSIONS)

    with tempfile.TemporaryDirectory() as place, Memory.open(Path(place) / "data") as memory:
        asyncio.run(scene(memory))
