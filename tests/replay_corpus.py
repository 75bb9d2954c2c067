"""The threads whose requests must not change by accident: how each of `fixtures/replay` is made.

`.venv/bin/python scripts/replay-corpus` makes them anew, over a scripted model server, with a clock that stands still
and in a folder of always the same name. Each scene is a thread, or several, with something in it that shapes requests.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fake_server import FakeServer, Received, Turn, call, custom_call, message, reasoning, refuses, turn
from sessions import Driver
from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.model.scripted import ScriptedModel, drops, says, thinks
from spindle.protocol.clock import FixedClock
from spindle.protocol.ops import Compact, Interrupt, Op, OverrideTurnContext, StartOver, ThreadRollback, UserInput
from wires import PNG

FOLDER = Path(__file__).parent / "fixtures" / "replay"
STAGE = Path("/var/tmp/spindle-replay-corpus")
"""Where the scenes are played. Its name stands in the requests."""
WIRES = ("responses", "chat", "messages")
PLAN = {"plan": [{"step": "look", "status": "completed"}]}
PATCH = "*** Begin Patch\n*** Add File: {name}\n+from the patch\n*** End Patch\n"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
SHORT = "You are a coding agent. Be brief."
FEW_TOOLS = {"web_search": "disabled", "spindle": {"recollection": False}, "features": {"collaboration_modes": False}}
OVERFLOW = {"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}}


class Stage:
    """A home, a workspace and a model server, for one scene."""

    def __init__(self, server: FakeServer, drivers: AsyncExitStack) -> None:
        self.server = server
        self.clock = FixedClock()
        self.environment = {"CODEX_HOME": str(STAGE / "home"), "HOME": str(STAGE / "user"), "SHELL": "/bin/sh"}
        self._drivers = drivers

    async def open(
        self,
        provider: str = "responses",
        *,
        config: dict[str, Any] | None = None,
        model: str = "gpt-5.2-codex",
        **how: Any,
    ) -> Driver:
        common = {"base_url": self.server.base_url, "request_max_retries": 1, "stream_max_retries": 2}
        tables = {wire: {"name": wire, "wire_api": wire, "env_key": "CORPUS_KEY", **common} for wire in WIRES}
        given = {"model_provider": provider, "model_providers": tables, **FEW_TOOLS, **(config or {})}
        loaded = load_config(
            cwd=str(STAGE / "work"),
            env={**self.environment, "CODEX_OSS_BASE_URL": self.server.base_url},
            flags={"model": model, "approval_policy": "never", "sandbox_mode": "danger-full-access"},
            config=given,
        )
        how = {"base_instructions": SHORT, **how}
        request = SessionRequest(config=loaded, originator="corpus", source="exec", clock=self.clock, **how)
        driver = Driver(await open_session(request), how.get("client") or ScriptedModel())
        self._drivers.push_async_callback(driver.close)
        return driver

    async def ask(self, driver: Driver, text: str, *answers: Any, **fields: Any) -> None:
        self.server.script(*answers)
        await driver.end_of(driver.begin(text, **fields))
        self.clock.advance(60)

    async def op(self, driver: Driver, op: Op, *answers: Any) -> None:
        self.server.script(*answers)
        await driver.end_of(driver.submit(op))


Scene = Callable[[Stage], Awaitable[None]]


async def conversation(stage: Stage, wire: str) -> None:
    """Reasoning, calls of functions and of free text, what they gave, two turns, and the same thread resumed."""
    driver = await stage.open(wire)
    thought = reasoning("looking around", encrypted="sealed", item_id="rs_1")
    both = turn(thought, call("update_plan", PLAN, "c1"), custom_call("apply_patch", PATCH.format(name="a"), "c2"))
    await stage.ask(driver, "begin – “quoted” \u2028", both, turn(message("done", item_id="msg_1")))
    await stage.ask(driver, "go on", turn(call("no_such_tool", {}, "c3")), turn(call("update_plan", "{bad", "c4")))
    await driver.close()
    driver = await stage.open(wire, thread=driver.session.thread_id)
    await stage.ask(driver, "and once more", turn(message("resumed")), final_output_json_schema=SCHEMA)


async def as_it_comes(stage: Stage) -> None:
    """With the base text and the tools that everybody has."""
    driver = await stage.open(base_instructions=None, config={"spindle": {}, "features": {}, "web_search": "cached"})
    await stage.ask(driver, "begin", turn(call("update_plan", PLAN, "c1")), turn(message("done")))


async def commands(stage: Stage) -> None:
    """What a command printed, also where it is too long to be shown whole."""
    driver = await stage.open()
    short, long = {"cmd": "printf 'one\\ntwo\\n'"}, {"cmd": "seq 1 4000"}
    await stage.ask(driver, "run", turn(call("exec_command", short, "c1")), turn(call("exec_command", long, "c2")))


async def settings(stage: Stage) -> None:
    """Effort, model, plan mode, sandbox and personality change between turns."""
    driver = await stage.open()
    await stage.ask(driver, "one", turn(message("1")), effort="high", summary="detailed")
    driver.submit(OverrideTurnContext(collaboration_mode={"mode": "plan"}))
    await stage.ask(driver, "two", turn(message("<proposed_plan>\n1. look\n</proposed_plan>")))
    driver.submit(OverrideTurnContext(collaboration_mode={"mode": "default"}, personality="friendly"))
    await stage.ask(driver, "three", turn(message("3")), model="gpt-5.1", sandbox_policy={"type": "read-only"})


async def providers(stage: Stage) -> None:
    """One thread, asked of every wire in turn; what only its maker can read goes back to it alone."""
    driver = await stage.open("messages")
    for number, wire in enumerate(("messages", "responses", "chat", "messages")):
        thought = reasoning(f"thought {number}", encrypted=f"sealed {number}", item_id=f"rs_{number}")
        answer = turn(thought, call("update_plan", PLAN, f"c{number}"))
        await stage.ask(driver, f"ask {wire}", answer, turn(message(f"said {number}")), model_provider=wire)


async def pictures(stage: Stage) -> None:
    """A picture from a person; a server that takes none; a model that sees none."""
    driver = await stage.open()
    shown = [{"type": "text", "text": "what is this?"}, {"type": "image", "image_url": PNG}]
    driver.submit(OverrideTurnContext(model="gpt-5.2-codex"))
    stage.server.script(turn(message("a dot")))
    await driver.end_of(driver.submit(UserInput(items=shown)))
    no_pictures = {"error": {"message": "image_url is only supported by certain models", "code": "invalid_value"}}
    await stage.ask(driver, "in chat", refuses(400, no_pictures), turn(message("fine")), model_provider="chat")


async def compactions(stage: Stage) -> None:
    """A summary by the model, after one that did not fit; then a fresh start."""
    driver = await stage.open()
    await stage.ask(driver, "one", turn(call("update_plan", PLAN, "c1")), turn(message("first")))
    await stage.op(driver, Compact(), refuses(400, OVERFLOW), turn(message("the summary")))
    await stage.ask(driver, "two", turn(call("update_plan", PLAN, "c2")), turn(message("second")))
    await stage.op(driver, Compact(instructions="keep the plan"), turn(message("another summary")))
    await stage.ask(driver, "three", turn(message("third")))
    await stage.op(driver, StartOver())
    await stage.ask(driver, "four", turn(message("fourth")))


async def compactions_elsewhere(stage: Stage) -> None:
    """On the other wires the tools stay listed while the summary is asked for."""
    for wire in ("chat", "messages"):
        driver = await stage.open(wire)
        await stage.ask(driver, "one", turn(call("update_plan", PLAN, "c1")), turn(message("first")))
        await stage.op(driver, Compact(), turn(message("the summary")))
        await stage.ask(driver, "two", turn(message("second")))


async def compaction_by_the_server(stage: Stage) -> None:
    """The model's own server shortens the thread."""
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}
    sealed = {"type": "compaction", "encrypted_content": "sealed thread"}
    model = ScriptedModel([thinks("hm"), says("first")], says("second"), compactions=[[kept, sealed]])
    driver = await stage.open("openai", client=model, config={"model_provider": "openai"})
    await driver.turn("one")
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("two")


async def cleared_by_rule(stage: Stage) -> None:
    """Old outputs are cleared by rule."""
    rule = {"mode": "edit", "rule": {"trigger": {"type": "tool_uses", "value": 4}}}
    driver = await stage.open(config={"spindle": {"recollection": False, "context": rule}})
    steps = [turn(call("exec_command", {"cmd": f"seq {n} 300"}, f"c{n}"), usage={"input": 9000}) for n in range(8)]
    await stage.ask(driver, "work", *steps, turn(message("done")))


async def branches(stage: Stage) -> None:
    """A fork, whose parent's requests are not its own; a rollback; a turn that goes on from an earlier response."""
    driver = await stage.open()
    await stage.ask(driver, "one", turn(message("1"), response_id="resp-a"))
    await stage.ask(driver, "two", turn(message("2"), response_id="resp-b"))
    await driver.close()
    driver = await stage.open(thread=driver.session.thread_id, fork=True)
    await stage.ask(driver, "three", turn(message("3")))
    driver.submit(ThreadRollback(num_turns=2))
    await driver.idle()
    await stage.ask(driver, "four", turn(message("4")))


async def troubles(stage: Stage) -> None:
    """Answers that break off, servers that fail at first, an interrupt, and input that comes while a turn runs."""
    driver = await stage.open()
    broken = turn(call("update_plan", PLAN, "c1"), message("lost"), drop_after=4)
    await stage.ask(driver, "one", refuses(500), broken, turn(message("1")))
    stage.server.script(turn(message("never"), hang_after=1))
    sub_id = driver.begin("two")
    while len(stage.server.turns_asked) < 4:
        await asyncio.sleep(0.01)
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    stage.server.script(turn(call("exec_command", {"cmd": "true"}, "c2")), turn(message("3")))
    sub_id = driver.begin("three")
    driver.submit(UserInput(items=[{"type": "text", "text": "and this"}], mode="steer"))
    await driver.end_of(sub_id)


async def dropped_streams(stage: Stage) -> None:
    """A model that a program brings along, and retries."""
    model = ScriptedModel([thinks("hm"), says("a"), drops("half", retry_after_s=0)], says("b"))
    driver = await stage.open(client=model)
    await driver.turn("one")


async def lessons(stage: Stage) -> None:
    """Servers that refuse something are asked again without it: no tools for free text, no schema, no functions."""
    driver = await stage.open("chat", model="tiny-coder-1b")
    no_schema = {"error": {"message": "response_format json_schema is not supported", "param": "response_format"}}
    no_options = {"error": {"message": "unknown field stream_options"}}
    answers = refuses(400, no_options), refuses(400, no_schema), turn(message('{"n": 1}'))
    await stage.ask(driver, "one", *answers, final_output_json_schema=SCHEMA)
    no_tools = {"error": {"message": "registry/library/tiny does not support tools", "type": "api_error"}}
    in_words = '```json\n{"name": "update_plan", "arguments": {"plan": []}}\n```'
    await stage.ask(driver, "two", refuses(400, no_tools), turn(message(in_words)), turn(message("done")))
    driver = await stage.open("responses", model="tiny-coder-1b")
    no_custom = {
        "error": {"message": "Invalid value: 'custom'. Supported values are: 'function'", "param": "tools[1].type"}
    }
    no_role = {"error": {"message": "role 'developer' is not supported"}}
    await stage.ask(driver, "three", refuses(400, no_custom), refuses(400, no_role), turn(message("fine")))


async def forgotten_reasoning(stage: Stage) -> None:
    """The server cannot read its own reasoning any more."""
    driver = await stage.open()
    await stage.ask(driver, "one", turn(reasoning("hm", encrypted="sealed", item_id="rs_1"), message("1")))
    unreadable = {
        "error": {"code": "invalid_encrypted_content", "message": "The encrypted content could not be verified."}
    }
    await stage.ask(driver, "two", refuses(400, unreadable), turn(message("2")))
    await stage.ask(driver, "three", turn(message("3")))


async def sub_agents(stage: Stage) -> None:
    """A sub-agent has a thread of its own."""
    driver = await stage.open(config={"features": {**FEW_TOOLS["features"], "collab": True}})

    def answers(received: Received) -> Turn:
        given = received.json["input"]
        if any("look at a" in str(item.get("content")) for item in given):
            return turn(message("a is empty"))
        called = {item.get("call_id"): item.get("output", "") for item in given}
        if "c2" in called:
            return turn(message("done"))
        if "c1" in called:
            return turn(call("wait", {"ids": re.findall("[0-9a-f]{8}-[0-9a-f-]{27}", called["c1"])}, "c2"))
        return turn(call("spawn_agent", {"message": "look at a"}, "c1"))

    stage.server.otherwise(answers)
    await stage.ask(driver, "delegate")


SCENES: dict[str, Scene] = {
    **{f"conversation-{wire}": (lambda stage, wire=wire: conversation(stage, wire)) for wire in WIRES},
    "as-it-comes": as_it_comes,
    "commands": commands,
    "settings": settings,
    "providers": providers,
    "pictures": pictures,
    "compactions": compactions,
    "compactions-elsewhere": compactions_elsewhere,
    "compaction-by-the-server": compaction_by_the_server,
    "cleared-by-rule": cleared_by_rule,
    "branches": branches,
    "troubles": troubles,
    "dropped-streams": dropped_streams,
    "lessons": lessons,
    "forgotten-reasoning": forgotten_reasoning,
    "sub-agents": sub_agents,
}


async def _play(scene: Scene, server: FakeServer) -> None:
    async with AsyncExitStack() as drivers:
        stage = Stage(server, drivers)
        os.environ.update(stage.environment)
        await scene(stage)


class StageTaken(Exception):
    """Another user has left a stage behind, which only they can take down."""


@contextmanager
def sole_player() -> Iterator[None]:
    """All plays of this machine share one stage, whoever runs them: they wait for each other."""
    with socket.socket(socket.AF_UNIX) as name:
        while True:
            try:
                # A name without a file: it is free again when its process is gone, and no other user's umask matters.
                name.bind(f"\0{STAGE}")
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    break  # no such names on this system
                time.sleep(0.05)
        yield


def play(name: str) -> dict[str, bytes]:
    """The threads of a scene, by the name of their fixture. Raises StageTaken."""
    with sole_player():
        return _play_alone(name)


def _play_alone(name: str) -> dict[str, bytes]:
    shutil.rmtree(STAGE, ignore_errors=True)
    if STAGE.exists():
        raise StageTaken(f"{STAGE} is left over from another user")
    for folder in ("home", "user", "work"):
        (STAGE / folder).mkdir(parents=True)
    before = dict(os.environ)
    os.environ["CORPUS_KEY"] = "key-of-the-corpus"
    try:
        # The model is told the name of the person's shell, and not every person's is bash.
        with FakeServer() as server, patch("spindle.workspace.shell._login_shell", lambda: "/bin/bash"):
            asyncio.run(_play(SCENES[name], server))
        assert not server.problems, server.problems
        paths = sorted((STAGE / "home").rglob("rollout-*.jsonl"))
        texts = [_steady(path.read_bytes(), server.port) for path in paths]
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(STAGE, ignore_errors=True)
    names = [name] if len(texts) == 1 else [f"{name}-{number}" for number in range(1, len(texts) + 1)]
    return dict(zip(names, texts, strict=True))


def _steady(text: bytes, port: int) -> bytes:
    """The port is another one each time, and what stands for the account follows it."""
    text = text.replace(b"127.0.0.1:%d" % port, b"127.0.0.1:1")
    return re.sub(rb'"account":"[0-9a-f]{16}"', b'"account":"of-the-corpus"', text)
