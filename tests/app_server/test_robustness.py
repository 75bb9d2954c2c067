"""What clients must not be able to break: odd strings, deep nesting, many threads. And pieces of text stay pieces."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app_server.client import Client
from e2e.proto_client import Proto
from fake_server import FakeServer, encode_event, message, sends_raw, stream_events
from spindle.frontends.app_server.registry import METHODS
from spindle.protocol.foreign import FREE_TEXT

Start = Any


def test_a_nul_character_is_named_by_its_field_for_every_method(client: Client) -> None:
    asked = 0
    for method in METHODS.values():
        for field in msgspec.structs.fields(method.params):
            if field.name in FREE_TEXT:
                continue
            for value in ("a\0b", ["a\0b"], {"a\0b": "c"}):
                error = client.error(method.name, {field.encode_name: value})
                if "requires experimentalApi" in error["message"]:
                    continue
                assert error["code"] == -32602, (method.name, error)
                assert error["message"].startswith(f"Invalid request: `{field.encode_name}"), error
                asked += 1
    assert asked > 100


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("thread/start", {"cwd": "LONG"}),
        ("thread/list", {"cwd": "LONG", "cursor": "5b5b5b"}),
        ("skills/list", {"cwds": ["LONG"]}),
        ("config/read", {"cwd": "LONG"}),
        ("config/value/write", {"keyPath": "a", "value": 1, "mergeStrategy": "replace", "filePath": "LONG"}),
        ("command/exec", {"command": ["LONG"], "cwd": "LONG"}),
        ("command/exec", {"command": ["true"], "env": {"A=B": "c", "": "d"}}),
        ("command/exec", {"command": ["true"], "timeoutMs": 2**62}),
        ("command/exec", {"command": ["true"], "timeoutMs": -1}),
        ("fuzzyFileSearch", {"query": "a", "roots": ["LONG"]}),
        ("fs/readFile", {"path": "LONG"}),
        ("thread/read", {"threadId": "LONG"}),
    ],
)
def test_what_the_system_refuses_is_a_sentence(client: Client, method: str, params: dict[str, Any]) -> None:
    text = json.dumps(params).replace("LONG", "/" + "x" * 5000)
    answer = client.ask(method, json.loads(text))
    assert "internal error" not in json.dumps(answer), answer


def test_a_deeply_nested_line_is_answered_under_its_id_and_the_server_goes_on(client: Client) -> None:
    for number, depth in enumerate((129, 1000, 100_000)):
        client.write(f'{{"id":"deep-{number}","method":"thread/list","params":{"[" * depth + "]" * depth}}}')
        client.write("[" * depth)
        answer = client.answer_to(f"deep-{number}")
        assert (answer["error"]["code"], "nested" in answer["error"]["message"]) == (-32600, True)
    assert client.result("thread/loaded/list") == {"data": [], "nextCursor": None}


def test_complaints_nobody_reads_hold_up_nothing(client: Client) -> None:
    """stderr is a pipe here that is not read before the end."""
    for _ in range(3000):
        client.write("this line is no message, and so are all those after it")
    assert client.result("thread/loaded/list") == {"data": [], "nextCursor": None}


PIECES = [f"piece {n}; " for n in range(500)]


def burst() -> bytes:
    """A whole answer in one write: what the model sent as pieces comes in few reads."""
    events = stream_events((message("".join(PIECES), item_id="m", deltas=1),), {}, None, None)
    place = {"output_index": 0, "item_id": "m", "content_index": 0}
    deltas = [{"type": "response.output_text.delta", **place, "delta": piece} for piece in PIECES]
    kept = [event for event in events if event["type"] != "response.output_text.delta"]
    return b"".join(map(encode_event, [*kept[:2], *deltas, *kept[2:]]))


def test_pieces_of_text_that_came_in_one_read_arrive_as_pieces(client: Client, server: FakeServer) -> None:
    server.script(sends_raw(burst()))
    _, seen = client.turn(client.start_thread(), "go")
    notes = [said["params"]["delta"] for said in seen if said.get("method") == "item/agentMessage/delta"]
    assert notes == PIECES


def test_so_they_do_through_proto(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    server.script(sends_raw(burst()))
    proto = Proto([*spindle_cmd, "proto"], workspace, environment)
    proto.say("1", "go")
    events = [event["msg"] for event in proto.until("task_complete")]
    assert proto.close() == 0
    for kind in ("agent_message_content_delta", "agent_message_delta"):
        assert [event["delta"] for event in events if event["type"] == kind] == PIECES


def open_files(process: subprocess.Popen[bytes]) -> list[str]:
    found: list[str] = []
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            found.append(os.readlink(entry))
    return found


def test_idle_threads_hold_no_descriptors_and_take_them_again_when_they_are_used(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    command = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *spindle_cmd, "app-server"]
    client = Client(command, workspace, environment)
    client.initialize()
    threads: list[str] = []
    for number in range(110):
        threads.append(client.start_thread())
        if number % 2 == 0:
            assert client.turn(threads[-1], f"first of {number}")[0]["status"] == "completed"
    assert len([name for name in open_files(client.process) if "rollout-" in name]) <= 4
    assert len(open_files(client.process)) < 25
    assert client.turn(threads[0], "second")[0]["status"] == "completed"
    shown = client.result("thread/read", {"threadId": threads[0], "includeTurns": True})["thread"]
    assert len(shown["turns"]) == 2
    for thread_id in threads[::2]:
        client.result("thread/archive", {"threadId": thread_id})
    assert not [name for name in open_files(client.process) if "rollout-" in name]
    assert client.close() == 0


def test_a_released_thread_that_another_process_went_on_with_is_loaded_anew(
    client: Client, spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "here")
    for _ in range(5):
        client.start_thread()
    there = [*spindle_cmd, "exec", "resume", thread_id, "there"]
    done = subprocess.run(there, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0, done.stderr
    content = [{"type": "text", "text": "again"}]
    error = client.error("turn/start", {"threadId": thread_id, "input": content})
    assert "another process has gone on with this thread" in error["message"]
    resumed = client.result("thread/resume", {"threadId": thread_id})["thread"]
    assert len(resumed["turns"]) == 2
    assert client.turn(thread_id, "again")[0]["status"] == "completed"
    said = server.turns_asked[-1].body.decode()
    assert all(word in said for word in ("here", "there", "again"))
