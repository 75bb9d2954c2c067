"""The rule the prompt cache lives by: whatever happens, each input begins with the whole of the one before."""

from __future__ import annotations

import asyncio
import glob
import itertools
import os
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_servers.kit import of_servers, servers, stub
from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.core.session import Session
from spindle.lookback.inspection import Inspection, inspect_thread
from spindle.model.scripted import ScriptedModel, calls, drops, fails, item_of, says, thinks, waits
from spindle.protocol.events import TERMINAL
from spindle.protocol.items import decode_json
from spindle.protocol.ops import (
    Interrupt,
    OverrideTurnContext,
    RefreshMcpServers,
    Shutdown,
    Submission,
    ToolOutput,
    UserInput,
    UserTurn,
)
from spindle.thread.reading import RolloutData, read_rollout

pytestmark = pytest.mark.slow

PLAN = {"plan": [{"step": "a", "status": "pending"}]}

parts = st.lists(
    st.sampled_from(
        [
            lambda n: thinks("hm"),
            lambda n: says("note \u2028 é"),
            lambda n: calls("update_plan", PLAN, f"p{n}"),
            lambda n: calls("no_such_tool", {}, f"u{n}"),
            lambda n: calls("exec_command", "{bad", f"b{n}"),
            lambda n: item_of({"type": "hologram", "id": "h"}),
            lambda n: item_of(
                {"type": "function_call", "name": "x", "arguments": " {} ", "call_id": f"v{n}", "id": "odd"}
            ),
        ]
    ),
    min_size=1,
    max_size=4,
)
samples = st.lists(st.tuples(parts, st.sampled_from(["ok", "drop", "fail"])), max_size=3)
changes = st.sampled_from(
    [
        {"sandbox_policy": {"type": "read-only"}},
        {"sandbox_policy": {"type": "workspace-write"}},
        {"approval_policy": "untrusted"},
        {"approval_policy": "never"},
        {"model": "gpt-5.1"},
        {"model": "gpt-5.2-codex"},
        {"personality": "friendly"},
        {"collaboration_mode": {"mode": "plan"}},
        {"collaboration_mode": {"mode": "default"}},
    ]
)
actions = st.one_of(
    st.tuples(st.just("turn"), samples),
    st.tuples(st.just("steer"), samples),
    st.tuples(st.sampled_from(["program", "steering program"]), samples),
    st.tuples(st.just("interrupt"), parts),
    st.tuples(st.just("override"), changes),
    st.tuples(st.just("resume"), st.booleans()),
)

TOOLS = (("work", "die", "change"), ("work", "die", "change", "more"), ())
"""What an MCP server may offer. `die` ends it; `change` makes it say that its tools are others by now."""
SERVERS = [servers(tiny=stub({"tools": tools, "die_on": "die", "change_on": "change"})) for tools in TOOLS]


def using(tool: str) -> Any:
    """A sample in which the model uses a tool of the server, there or not."""
    return ([lambda n: calls(f"mcp__tiny__{tool}", {"text": n}, f"m{n}")], "ok")


server_samples = st.lists(st.sampled_from([using(tool) for tool in TOOLS[1]]), max_size=3)
server_actions = st.one_of(
    st.tuples(st.just("turn"), server_samples),
    st.tuples(st.just("steer"), server_samples),
    st.tuples(st.just("interrupt"), parts),
    st.tuples(st.just("override"), changes),
    st.tuples(st.just("resume"), st.booleans()),
    st.tuples(st.just("refresh"), st.integers(0, 2)),
)


class Machine:
    """Runs actions against sessions of one growing thread and keeps every request ever sent."""

    def __init__(self, home: str, cwd: str) -> None:
        self.home, self.cwd = home, cwd
        self.config: dict[str, Any] = {}
        self.refreshed = {0: 0}
        """Which of `TOOLS` are offered, by the number of the first request that has them."""
        self.count = 0
        self.sent: list[Any] = []
        self.thread_id: str | None = None
        self.session: Session
        self.model: ScriptedModel

    async def open(self, *, fork: bool = False) -> None:
        self.model = ScriptedModel()
        config = load_config(
            cwd=self.cwd,
            env={"CODEX_HOME": self.home, "HOME": self.home},
            flags={"model": "gpt-5.2-codex", "sandbox_mode": "danger-full-access", "approval_policy": "never"},
            config=self.config,
        )
        self.session = await open_session(
            SessionRequest(
                config=config, source="exec", originator="t", client=self.model, thread=self.thread_id, fork=fork
            )
        )
        self.thread_id = self.session.thread_id
        self.events = self.session.subscribe()
        self.actor = asyncio.ensure_future(self.session.run())

    async def close(self) -> None:
        self.session.submit(Submission("", Shutdown()))
        await self.actor
        self.sent += [asked.raw for asked in self.model.requests]

    def script(self, plan: Any) -> None:
        for items, ending in plan:
            self.count += 1
            made = [make(f"{self.count}-{k}") for k, make in enumerate(items)]
            if ending == "drop":
                made.append(drops("half", retry_after_s=0))
            elif ending == "fail":
                made.append(fails("no"))
            self.model.script(made)
        self.model.script(says("end"), says("end"), says("end"))

    async def wait(self, *kinds: Any) -> None:
        async for event in self.events:
            if isinstance(event.msg, kinds):
                return

    async def act(self, action: str, argument: Any) -> None:
        prompt = [{"type": "text", "text": f"prompt {self.count}"}]
        self.count += 1
        sub = f"s{self.count}"
        match action:
            case "turn" | "steer":
                self.model._responses.clear()
                self.script(argument)
                self.session.submit(Submission(sub, UserTurn(items=prompt)))
                if action == "steer":
                    self.session.submit(Submission(sub + "x", UserInput(items=prompt, mode="steer")))
                await self.wait(*TERMINAL)
            case "program" | "steering program":
                self.model._responses.clear()
                self.script(argument)
                said = ToolOutput(name="ci", namespace="night", output=f"brought {self.count}" * 9_000)
                if action == "program":
                    self.session.submit(Submission(sub, UserTurn(items=[], tool_output=said)))
                else:
                    self.session.submit(Submission(sub, UserTurn(items=prompt)))
                    self.session.submit(Submission(sub + "x", UserInput(items=[], tool_output=said, mode="steer")))
                await self.wait(*TERMINAL)
            case "interrupt":
                self.model._responses.clear()
                made = [make(f"{self.count}-{k}") for k, make in enumerate(argument)]
                self.model.script([*made, waits(30), says("never")])
                self.session.submit(Submission(sub, UserTurn(items=prompt)))
                while len(self.model.requests) == 0 or self.model._responses:
                    await asyncio.sleep(0)
                self.session.submit(Submission("", Interrupt()))
                await self.wait(*TERMINAL)
            case "override":
                self.session.submit(Submission(sub, OverrideTurnContext(**argument)))
            case "refresh":
                self.config = SERVERS[argument]
                self.session.submit(Submission(sub, RefreshMcpServers(config=self.config)))
                await self.session.settle()
                self.refreshed[len(self.sent) + len(self.model.requests)] = argument
            case "resume":
                # A thread in which nothing was said, perhaps only started over, leaves no file to resume.
                if glob.glob(f"{self.home}/sessions/**/*{self.session.thread_id}.jsonl", recursive=True):
                    await self.close()
                    await self.open(fork=argument)


async def run(script: list[tuple[str, Any]], config: dict[str, Any] | None = None) -> Machine:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        machine = Machine(home, cwd)
        machine.config = config or {}
        await machine.open()
        for action, argument in script:
            await asyncio.wait_for(machine.act(action, argument), 30)
        await machine.close()
        return machine


async def play(script: list[tuple[str, Any]]) -> list[Any]:
    return (await run(script)).sent


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(actions, min_size=2, max_size=7))
def test_each_input_begins_with_the_one_before_and_the_rest_never_changes(script: list[tuple[str, Any]]) -> None:
    sent = asyncio.run(play(script))
    for before, after in itertools.pairwise(sent):
        assert after.input[: len(before.input)] == before.input
        assert after.instructions == before.instructions and after.tools == before.tools


def check_served(machine: Machine) -> None:
    """Whatever the server did, the model is offered what the last refresh found; all else continues as always."""
    offered = 0
    for number, request in enumerate(machine.sent):
        offered = machine.refreshed.get(number, offered)
        assert of_servers(request) == sorted(f"mcp__tiny__{tool}" for tool in TOOLS[offered])
    for number, (before, after) in enumerate(itertools.pairwise(machine.sent), 1):
        assert after.input[: len(before.input)] == before.input
        assert after.instructions == before.instructions
        assert after.tools == before.tools or number in machine.refreshed


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(server_actions, min_size=2, max_size=6))
def test_servers_that_die_or_change_break_nothing_and_only_a_refresh_changes_tools(
    script: list[tuple[str, Any]],
) -> None:
    check_served(asyncio.run(run(script, SERVERS[0])))


def test_that_property_can_fail_too() -> None:
    """The machine reaches a death, a restart, a changed list, and refreshes with and without another list."""
    script = [
        ("turn", [using("work"), using("die"), using("work")]),
        ("turn", [using("change"), using("work")]),
        ("turn", [using("work")]),
        ("refresh", 0),
        ("turn", [using("die")]),
        ("refresh", 1),
        ("turn", [using("more")]),
        ("refresh", 2),
        ("resume", True),
        ("turn", [using("work")]),
    ]
    machine = asyncio.run(run(script, SERVERS[0]))
    check_served(machine)
    told = [item for item in map(decode_json, machine.sent[-1].input) if item["type"] == "function_call_output"]
    outputs = [item["output"].partition(" ")[0] + item["output"].rpartition(" ")[2] for item in told]
    assert [output for output in outputs if output.startswith("err:")] == ['err:7"'] * 2
    assert sum(output.startswith("Wall") for output in outputs) == 6
    assert len({request.tools for request in machine.sent}) == 3


async def read_back(script: list[tuple[str, Any]]) -> tuple[list[Any], Inspection]:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        machine = Machine(home, cwd)
        await machine.open()
        for action, argument in script:
            await asyncio.wait_for(machine.act(action, argument), 20)
        history = machine.session.thread.history
        await machine.close()
        assert history.writer is not None
        is_recorded = os.path.exists(history.writer.path)
        data = (
            read_rollout(history.writer.path)
            if is_recorded
            else RolloutData(path="", thread_id="", meta={}, records=[])
        )
        return machine.sent, inspect_thread(data)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(actions, min_size=2, max_size=7))
def test_the_record_tells_each_input_that_was_answered(script: list[tuple[str, Any]]) -> None:
    sent, found = asyncio.run(read_back(script))
    inputs = iter([[decode_json(raw) for raw in request.input] for request in sent])
    for request in found.report.requests:
        told = found.input_of(request.number)
        assert told in inputs, "in the order in which they were sent"
        assert not request.cache.is_alarm


def test_the_property_can_fail() -> None:
    """The machine reaches retries, failures, interrupts, forks and settings changes."""
    script = [
        ("turn", [([lambda n: calls("update_plan", PLAN, n)], "drop"), ([lambda n: thinks("x")], "ok")]),
        ("override", {"sandbox_policy": {"type": "read-only"}}),
        ("interrupt", [lambda n: calls("update_plan", PLAN, n)]),
        ("resume", True),
        ("turn", [([lambda n: says("x")], "fail")]),
    ]
    sent = asyncio.run(play(script))
    assert len(sent) == 4
    assert len({request.prompt_cache_key for request in sent}) == 2
    assert any(b"<turn_aborted>" in raw for raw in sent[-1].input)
    assert sum(b"<permissions instructions>" in raw for raw in sent[-1].input) >= 2
