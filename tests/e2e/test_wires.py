"""One program over every wire: the same task, the same result; and one thread over all of them."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from app_server.client import Client
from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from installed import Spindle
from websocket_server import WebSocketServer, answers
from wire_rules import chat_prefix, messages_prefix, responses_problems

WIRES = ("responses", "chat", "messages")
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+one\n+zwölf\n*** End Patch\n"
TASK = (
    turn(reasoning("**Looking**"), message("I look."), call("exec_command", {"cmd": "printf made > made.txt"}, "c1")),
    turn(call("exec_command", {"cmd": "cat made.txt"}, "c2"), custom_call("apply_patch", PATCH, "c3")),
    turn(call("update_plan", {"plan": [{"step": "all", "status": "completed"}]}, "c4")),
    turn(message("done – 🎉")),
)


def provider(name: str, server: FakeServer) -> str:
    return (
        f'[model_providers.{name}]\nname = "{name}"\nbase_url = "{server.base_url}"\nwire_api = "{name}"\n'
        'env_key = "FAKE_API_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
    )


def with_every_wire(spindle: Spindle, server: FakeServer) -> None:
    spindle.configure("\n".join(provider(name, server) for name in WIRES))


def shown(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a program is told, but for what no two runs have in common."""
    told = []
    for event in events:
        text = json.dumps({name: value for name, value in event.items() if name != "thread_id"})
        told.append(json.loads(text))
    return told


def test_one_task_leaves_the_same_files_and_tells_the_same_on_every_wire(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    with_every_wire(spindle, server)
    results = []
    for wire in WIRES:
        server.script(*TASK)
        run = spindle("exec", "--json", "--yolo", "-c", f"model_provider={wire}", "make it")
        assert run.code == 0, run.out + run.err
        files = {path.name: path.read_bytes() for path in workspace.iterdir() if path.is_file()}
        for name in ("made.txt", "new.txt"):
            (workspace / name).unlink()
        results.append((shown(run.events), files))
    assert server.problems == []
    assert results[0][1]["new.txt"] == "one\nzwölf\n".encode()
    for wire, result in zip(WIRES[1:], results[1:], strict=True):
        assert result == results[0], wire


def test_a_thread_can_change_its_provider_at_every_turn(
    spindle: Spindle, server: FakeServer, spindle_cmd: list[str], workspace: Path
) -> None:
    with_every_wire(spindle, server)
    client = Client([*spindle_cmd, "app-server", "--listen", "stdio://"], workspace, spindle.environment)
    try:
        client.initialize()
        thread = client.start_thread(modelProvider="responses")
        for number in range(12):
            wire = WIRES[number * 5 % 3]
            thought = reasoning(f"thought {number}", encrypted=f"SEALED-{wire}-{number}", item_id=f"rs_{number}")
            server.script(
                turn(thought, call("exec_command", {"cmd": f"echo out-{number}"}, "call_0")),
                turn(message(f"answer {number}")),
            )
            ended, _ = client.turn(thread, f"prompt {number}", modelProvider=wire)
            assert ended["status"] == "completed", ended
    finally:
        client.close()
    assert server.problems == []
    asked = [(request.path.rpartition("/")[2], request.json) for request in server.turns_asked]
    assert len(asked) == 24
    sealed = {f"SEALED-responses-{number}" for number in range(12)}
    for path, body in asked:
        text = json.dumps(body)
        assert path != "responses" or responses_problems(body, sealed) == []
        for wire in WIRES:  # what one server sealed goes to no other
            assert wire == path or f"SEALED-{wire}-" not in text
    last = json.dumps(asked[-1][1])
    for number in range(12):
        assert all(words in last for words in (f"prompt {number}", f"out-{number}")), number
    mine = [body for path, body in asked if path == "messages"]
    assert "SEALED-messages-1" in json.dumps(mine[-1]), "it comes back to where it was made"
    for path, prefix in (("messages", messages_prefix), ("completions", chat_prefix)):
        told = [prefix(body) for of, body in asked if of == path]
        for before, after in pairwise(told):
            assert after[: len(before)] == before, path


async def test_a_thread_over_a_websocket_is_the_one_it_would_be_over_http(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    steps = []
    for number, step in enumerate(TASK):
        plain = [{key: value for key, value in item.items() if not key.startswith("_")} for item in step.items]
        kinds = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
        named = [{**item, "id": f"{kinds[item['type']]}_{number}_{at}"} for at, item in enumerate(plain)]
        steps.append(answers(*named, response_id=f"resp_{number}", usage={"input_tokens": 100, "output_tokens": 10}))
    sockets = WebSocketServer(tuple(steps))
    await sockets.start()
    spindle.configure(
        provider("responses", server)
        + f'[model_providers.sockets]\nname = "sockets"\nbase_url = "{sockets.base_url}"\nenv_key = "FAKE_API_KEY"\n'
        "supports_websockets = true\nrequest_max_retries = 0\nstream_max_retries = 0\n"
    )
    server.script(*TASK)
    told = []
    try:
        for name in ("responses", "sockets"):
            command = ("exec", "--json", "--yolo", "-c", f"model_provider={name}", "make it")
            run = await asyncio.to_thread(spindle, *command)
            assert run.code == 0, run.out + run.err
            told.append(shown(run.events))
            for made in ("made.txt", "new.txt"):
                (workspace / made).unlink()
    finally:
        await sockets.stop()
    assert told[1] == told[0]
    assert (len(sockets.handshakes), sockets.goodbyes) == (1, [1000])
    assert [sent.get("previous_response_id") for sent in sockets.sent] == [None, "resp_0", "resp_1", "resp_2"]
    assert [len(asked["input"]) for asked in sockets.asked] == [len(r.json["input"]) for r in server.turns_asked]
    for before, after in pairwise(sockets.asked):
        assert after["input"][: len(before["input"])] == before["input"]
        assert {**after, "input": 0} == {**before, "input": 0}
