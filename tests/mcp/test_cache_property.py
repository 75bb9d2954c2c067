"""Whatever MCP servers do, the tools of a conversation change only by a refresh, and the ledger says so."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp.kit import servers, stub
from spindle.model.scripted import calls
from spindle.protocol.ops import RefreshMcpServers, Submission
from turn.test_cache_property import Watched, check
from turn.test_prefix_property import changes, parts

TOOLS = (["work", "die", "change"], ["work", "die", "change", "more"], [])
STUBS = [stub({"tools": tools, "die_on": "die", "change_on": "change"}) for tools in TOOLS]


def using(tool: str) -> Any:
    """A sample in which the model uses a tool of the server, there or not."""
    return ([lambda n: calls(f"mcp__tiny__{tool}", {"text": n}, f"m{n}")], "ok")


samples = st.lists(st.sampled_from([using("work"), using("die"), using("change"), using("more")]), max_size=3)
actions = st.one_of(
    st.tuples(st.just("turn"), samples),
    st.tuples(st.just("steer"), samples),
    st.tuples(st.just("interrupt"), parts),
    st.tuples(st.just("override"), changes),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("rollback"), st.integers(1, 2)),
    st.tuples(st.just("resume"), st.booleans()),
    st.tuples(st.just("refresh"), st.integers(0, 2)),
)


class Served(Watched):
    """A thread whose tools come in part from a server that dies, changes its mind, and is refreshed."""

    def __init__(self, home: str, cwd: str) -> None:
        super().__init__(home, cwd)
        self.config = servers(tiny=STUBS[0])

    async def act(self, action: str, argument: Any) -> None:
        if action != "refresh":
            await super().act(action, argument)
            return
        self.session.submit(Submission("f", RefreshMcpServers(config=servers(tiny=STUBS[argument]))))
        await self.session.settle()
        self.since.add("tools_changed")


async def play(script: list[tuple[str, Any]]) -> Served:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        machine = Served(home, cwd)
        await machine.open()
        for action, argument in script:
            await asyncio.wait_for(machine.act(action, argument), 30)
        await machine.close()
        return machine


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(actions, min_size=3, max_size=6))
def test_every_break_is_declared_and_named_by_what_caused_it(script: list[tuple[str, Any]]) -> None:
    check(asyncio.run(play(script)))


def test_neither_a_death_nor_a_changed_list_breaks_anything_and_a_refresh_does() -> None:
    script = [
        ("turn", [using("work"), using("die"), using("work")]),
        ("turn", [using("change"), using("work")]),
        ("refresh", 0),
        ("turn", [using("work")]),
        ("refresh", 1),
        ("turn", [using("more")]),
    ]
    machine = asyncio.run(play(script))
    check(machine)
    assert [entry.causes for _, entry, _ in machine.noted if entry.causes] == [("tools_changed",)]
    assert len({request.tools for request in machine.sent}) == 2
