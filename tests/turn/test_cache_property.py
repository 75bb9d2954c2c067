"""Whatever happens to a thread, the cache's ledger finds no break that nobody declared, and names the true cause."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.context.cache import CacheEntry
from spindle.model.scripted import calls, says
from spindle.protocol.events import TERMINAL, ThreadRolledBack
from spindle.protocol.ops import Compact, Submission, ThreadRollback
from turn.test_prefix_property import PLAN, Machine, changes, parts, samples

actions = st.one_of(
    st.tuples(st.just("turn"), samples),
    st.tuples(st.just("steer"), samples),
    st.tuples(st.just("interrupt"), parts),
    st.tuples(st.just("override"), changes),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("rollback"), st.integers(1, 2)),
    st.tuples(st.just("resume"), st.booleans()),
)


class Watched(Machine):
    """The same machine, with breaks of the prefix among its actions; keeps what each session's ledger noted."""

    def __init__(self, home: str, cwd: str) -> None:
        super().__init__(home, cwd)
        self.since: set[str] = set()
        """What was done since the last request of the thread that was answered."""
        self.noted: list[tuple[CacheEntry, CacheEntry, set[str]]] = []

    async def act(self, action: str, argument: Any) -> None:
        thread = self.session.thread
        entries = [entry for entry in thread.cache.ledger.entries if not entry.is_side]
        generation = thread.history.generation
        match action:
            case "compact":
                self.model._responses.clear()
                self.model.compactions.clear()
                self.model.script(says("summary"))
                self.session.submit(Submission("c", Compact()))
                await self.wait(*TERMINAL)
            case "rollback":
                self.session.submit(Submission("r", ThreadRollback(num_turns=argument)))
                await self.wait(ThreadRolledBack)
            case "override" if "model" in argument:
                await super().act(action, argument)
                await self.session.settle()
                self.since.add("model_changed")
            case _:
                await super().act(action, argument)
        if action == "resume":
            self.since.clear()
            return
        if action in ("compact", "rollback") and thread.history.generation != generation:
            self.since.add("compaction" if action == "compact" else action)
        now = [entry for entry in thread.cache.ledger.entries if not entry.is_side]
        for before, entry in zip(now[max(0, len(entries) - 1) :], now[max(1, len(entries)) :], strict=False):
            self.noted.append((before, entry, set(self.since)))
            self.since.clear()
        if len(now) == 1 and not entries:
            self.since.clear()


async def play(script: list[tuple[str, Any]]) -> Watched:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        machine = Watched(home, cwd)
        await machine.open()
        for action, argument in script:
            await asyncio.wait_for(machine.act(action, argument), 20)
        await machine.close()
        return machine


def check(machine: Watched) -> None:
    for before, entry, done in machine.noted:
        assert not entry.is_alarm, (entry, done)
        assert set(entry.causes) <= done, (entry, done)
        # A short thread may begin as before even after a compaction; then nothing broke.
        assert (not entry.causes) == (entry.prefix_items == before.items and entry.model == before.model)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(actions, min_size=3, max_size=8))
def test_every_break_is_declared_and_named_by_what_caused_it(script: list[tuple[str, Any]]) -> None:
    check(asyncio.run(play(script)))


def test_the_machine_meets_every_kind_of_break() -> None:
    work = [([lambda n: calls("update_plan", PLAN, n)], "ok")]
    script = [
        ("turn", work),
        ("compact", None),
        ("turn", work),
        ("turn", work),
        ("rollback", 1),
        ("turn", work),
        ("override", {"model": "gpt-5.1"}),
        ("turn", work),
    ]
    machine = asyncio.run(play(script))
    check(machine)
    assert {cause for _, entry, _ in machine.noted for cause in entry.causes} == {
        "compaction",
        "rollback",
        "model_changed",
    }
