"""Whatever MCP servers do, the tools of a conversation change only by a refresh, and the ledger says so."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turn.test_cache_property import Watched, check
from turn.test_prefix_property import SERVERS, server_actions, using

actions = st.one_of(
    server_actions,
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("rollback"), st.integers(1, 2)),
)


class Served(Watched):
    """A thread whose tools come in part from a server that dies, changes its mind, and is refreshed."""

    def __init__(self, home: str, cwd: str) -> None:
        super().__init__(home, cwd)
        self.config = SERVERS[0]
        self.offered = self.answered = 0
        """The tools there are now, and those of the last request that was answered."""
        self.changed: list[bool] = []
        """Whether the tools of each noted request are others than those of the one before."""

    async def act(self, action: str, argument: Any) -> None:
        if action == "refresh":
            self.since.add("tools_changed")
            self.offered = argument
        await super().act(action, argument)
        for _ in self.noted[len(self.changed) :]:
            self.changed.append(self.offered != self.answered)
            self.answered = self.offered
        if action == "resume" or not [entry for entry in self.session.thread.cache.ledger.entries if not entry.is_side]:
            self.answered = self.offered


async def play(script: list[tuple[str, Any]]) -> Served:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        machine = Served(home, cwd)
        await machine.open()
        for action, argument in script:
            await asyncio.wait_for(machine.act(action, argument), 30)
        await machine.close()
        return machine


def check_tools(machine: Served) -> None:
    check(machine)
    assert ["tools_changed" in entry.causes for _, entry, _ in machine.noted] == machine.changed


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(actions, min_size=3, max_size=6))
def test_every_break_is_declared_and_named_by_what_caused_it(script: list[tuple[str, Any]]) -> None:
    check_tools(asyncio.run(play(script)))


def test_neither_a_death_nor_a_changed_list_breaks_anything_and_a_refresh_does() -> None:
    script = [
        ("turn", [using("work"), using("die"), using("work")]),
        ("turn", [using("change"), using("work")]),
        ("turn", [using("work")]),
        ("refresh", 0),
        ("turn", [using("work")]),
        ("refresh", 1),
        ("turn", [using("more")]),
    ]
    machine = asyncio.run(play(script))
    check_tools(machine)
    assert [entry.causes for _, entry, _ in machine.noted if entry.causes] == [("tools_changed",)]
    assert len({request.tools for request in machine.sent}) == 2
