"""Whatever happens in a thread, its requests can be built again from its record, byte for byte."""

from __future__ import annotations

import asyncio
import glob
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spindle.errors import ModelError
from spindle.lookback.replay import Replayed, replay_thread
from spindle.model.scripted import calls, fails, says, thinks
from spindle.protocol.events import TERMINAL
from spindle.protocol.ops import Compact, StartOver, Submission, ThreadRollback
from spindle.thread.reading import read_rollout
from turn.test_prefix_property import PLAN, SERVERS, Machine, actions, server_actions, using

pytestmark = pytest.mark.slow

more_actions = st.one_of(
    actions,
    st.tuples(st.just("compact"), st.sampled_from(["by model", "with words", "overflow", "start over"])),
    st.tuples(st.just("rollback"), st.integers(1, 3)),
)


class Recorder(Machine):
    """The same machine, which can also shorten the thread and go back in it."""

    async def act(self, action: str, argument: Any) -> None:
        self.count += 1
        sub = f"r{self.count}"
        if action == "compact":
            self.model._responses.clear()
            if argument == "overflow":
                self.model.script(fails(ModelError("too long", "context_window_exceeded")))
            self.model.script(says("the summary"))
            words = "keep the names" if argument == "with words" else None
            op = StartOver() if argument == "start over" else Compact(instructions=words)
            self.session.submit(Submission(sub, op))
            await self.wait(*TERMINAL)
        elif action == "rollback":
            self.session.submit(Submission(sub, ThreadRollback(num_turns=argument)))
            await self.session.settle()
        else:
            await super().act(action, argument)


async def recorded(script: list[tuple[str, Any]], config: dict[str, Any] | None = None) -> list[tuple[Replayed, int]]:
    """What comes of each thread that a script makes, with the number of requests that were made in it."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        machine = Recorder(home, cwd)
        machine.config = config or {}
        await machine.open()
        for action, argument in script:
            await asyncio.wait_for(machine.act(action, argument), 30)
        await machine.close()
        found: list[tuple[Replayed, int]] = []
        for path in glob.glob(f"{home}/sessions/**/*.jsonl", recursive=True):
            data = read_rollout(path)
            sent = sum(request.prompt_cache_key == data.thread_id for request in machine.sent)
            if sent:
                found.append((replay_thread(data), sent))
        assert sum(sent for _, sent in found) == len(machine.sent)
        return found


def check(script: list[tuple[str, Any]], config: dict[str, Any] | None = None) -> None:
    for replayed, sent in asyncio.run(recorded(script, config)):
        assert replayed.first_difference is None
        assert (replayed.requests, replayed.identical) == (sent, sent)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(more_actions, min_size=2, max_size=7))
@example([("compact", "start over"), ("resume", False)])
def test_every_request_of_every_thread_is_built_again_from_its_record(script: list[tuple[str, Any]]) -> None:
    check(script)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(server_actions, min_size=2, max_size=6))
def test_so_are_those_of_threads_whose_tools_change(script: list[tuple[str, Any]]) -> None:
    check(script, SERVERS[0])


def test_the_property_reaches_what_it_is_about() -> None:
    """Compactions of every kind, forks, a rollback, changed tools: each of them is in this one script."""
    work = ([lambda n: thinks("hm"), lambda n: calls("update_plan", PLAN, n)], "drop")
    script = [
        ("turn", [work, using("work")]),
        ("compact", "by model"),
        ("turn", [work]),
        ("compact", "overflow"),
        ("refresh", 1),
        ("turn", [using("more")]),
        ("resume", False),
        ("rollback", 1),
        ("turn", [work]),
        ("resume", True),
        ("turn", [work]),
        ("compact", "start over"),
        ("turn", [work]),
    ]
    found = asyncio.run(recorded(script, SERVERS[0]))
    assert sorted((replayed.requests, replayed.identical, sent) for replayed, sent in found) == [
        (4, 4, 4),
        (14, 14, 14),
    ]
