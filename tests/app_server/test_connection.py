"""The handshake, the frames, and the end of a connection."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import spindle
from app_server.client import WAIT_S, Client, methods, wait_for_pid
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn


def test_nothing_is_answered_before_the_handshake_and_that_is_done_once(start: Start, home: Path) -> None:
    client = start()
    assert client.error("model/list") == {"code": -32600, "message": "Not initialized"}
    known = client.initialize(optOutNotificationMethods=None)  # a null is no value, wherever it stands
    assert known["userAgent"].startswith(f"tester/{spindle.__version__} (")
    assert known["userAgent"].endswith("(tester; 9.1)")
    # No version of Codex is claimed: an SDK that compares versions takes this one for a build without a number.
    assert known["serverInfo"] == {"name": "spindle", "version": f"0.0.0 (spindle {spindle.__version__})"}
    assert known["codexHome"] == str(home) and known["platformFamily"] == "unix"
    again = client.error("initialize", {"clientInfo": {"name": "tester", "version": "1"}})
    assert again["message"] == "Already initialized"


def test_what_is_wrong_with_a_request_is_its_answer(client: Client) -> None:
    missing = "01a1e0f4-0000-7000-8000-000000000000"

    def refusal(method: str, params: Any) -> str:
        error = client.error(method, params)
        assert error["code"] == -32600
        return error["message"]

    assert refusal("nosuch/method", {}).startswith("Invalid request: unknown variant `nosuch/method`")
    assert refusal("thread/resume", {}) == "Invalid request: missing field `threadId`"
    assert "cwd" in refusal("thread/start", {"cwd": 3})
    assert refusal("thread/start", [1]) == "Invalid request: params must be an object"
    assert refusal("turn/start", {"threadId": "x", "input": []}).startswith("invalid thread id: ")
    assert refusal("thread/resume", {"threadId": missing}) == f"no rollout found for thread id {missing}"
    assert refusal("turn/interrupt", {"threadId": missing, "turnId": "t"}) == f"thread not found: {missing}"


def test_lines_that_are_no_messages_do_no_harm(client: Client) -> None:
    client.write("this is not JSON")
    client.write("[1, 2]")
    client.write("")
    client.write('{"id": 900}')
    assert client.answer_to(900)["error"]["code"] == -32600
    client.write('{"jsonrpc": "2.0", "id": "s1", "method": "thread/loaded/list"}')
    assert client.answer_to("s1") == {"id": "s1", "result": {"data": [], "nextCursor": None}}
    client.write({"id": 12345, "result": {"decision": "accept"}})  # to a question that nobody asked
    assert client.result("thread/loaded/list", {})["data"] == []


def test_more_requests_than_can_be_answered_at_a_time_are_refused(client: Client) -> None:
    line = '{"method":"thread/list","id":"f%d","params":{}}'
    client.write("\n".join(line % number for number in range(400)))
    refused = client.wait(lambda message: message.get("error", {}).get("code") == -32001)
    assert "retry later" in refused["error"]["message"]
    for number in range(400):  # until then the next one could be refused as well
        client.answer_to(f"f{number}")
    assert client.result("thread/loaded/list", {})["data"] == []


def test_the_end_of_input_ends_turns_and_commands_and_is_a_success(
    client: Client, server: FakeServer, workspace: Path, home: Path
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo $$ > pid; sleep 600", "yield_time_ms": 30000}, "c1")))
    thread_id = client.start_thread(cwd=str(workspace))
    client.begin(thread_id, "go")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    pid = wait_for_pid(workspace / "pid")
    assert client.close() == 0
    assert not Path(f"/proc/{pid}").exists()
    assert client.note("turn/completed")["turn"]["status"] == "interrupted"
    (record,) = home.rglob("rollout-*.jsonl")
    assert '"turn_aborted"' in record.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_server_and_what_it_runs(
    client: Client, server: FakeServer, workspace: Path, home: Path, number: signal.Signals
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo $$ > pid; sleep 600", "yield_time_ms": 30000}, "c1")))
    client.begin(client.start_thread(), "go")
    pid = wait_for_pid(workspace / "pid")
    client.process.send_signal(number)
    assert client.process.wait(WAIT_S) == 128 + number
    assert not Path(f"/proc/{pid}").exists()
    client.reader.join()
    assert "turn/completed" not in methods(client.seen), "to the client the server is gone; nobody interrupted the turn"
    (record,) = home.rglob("rollout-*.jsonl")
    assert '"turn_aborted"' in record.read_text()


def test_a_client_that_does_not_read_holds_up_no_signal(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, home: Path, server: FakeServer
) -> None:
    server.script(turn(message("x" * (8 << 20), deltas=8)))
    with subprocess.Popen(
        [*spindle_cmd, "app-server"], cwd=workspace, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(number: int, method: str, params: Any) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n")
            process.stdin.flush()

        ask(0, "initialize", {"clientInfo": {"name": "deaf", "version": "1"}})
        process.stdout.readline()
        ask(1, "thread/start", {})
        while (answer := json.loads(process.stdout.readline())).get("id") != 1:
            pass
        content = [{"type": "text", "text": "go"}]
        ask(2, "turn/start", {"threadId": answer["result"]["thread"]["id"], "input": content})
        end = time.monotonic() + WAIT_S
        while not any('"task_complete"' in record.read_text() for record in home.rglob("rollout-*.jsonl")):
            assert time.monotonic() < end, "the turn waits for nobody"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 128 + signal.SIGTERM


def test_a_client_hears_nothing_of_what_it_opted_out_of(start: Start, server: FakeServer) -> None:
    server.script(turn(message("hello")))
    client = start()
    client.initialize(optOutNotificationMethods=["item/agentMessage/delta", "thread/started"])
    _, seen = client.turn(client.start_thread(), "hi")
    assert {"item/agentMessage/delta", "thread/started"}.isdisjoint(methods(client.seen))
    assert "item/completed" in methods(seen)


def test_problems_of_the_configuration_are_told_once(start: Start, home: Path) -> None:
    config = home / "config.toml"
    config.write_text("modell = 1\n" + config.read_text())
    client = start()
    client.initialize()
    warning = client.note("configWarning")
    assert "modell" in warning["summary"]
    client.start_thread()
    client.start_thread()
    assert methods(client.seen).count("configWarning") == 1
    assert not any("modell" in str(message) for message in client.seen if message.get("method") == "warning")


def test_separators_of_lines_inside_of_texts_are_escaped(client: Client, server: FakeServer) -> None:
    server.script(turn(message("one\u2028two")))
    done, _ = client.turn(client.start_thread(), "hi")
    assert done["items"][0]["text"] == "one\u2028two"
    assert any(b"one\\u2028two" in line for line in client.lines)
    assert not any("\u2028".encode() in line for line in client.lines)


def test_a_request_whose_id_has_a_fraction_is_refused_under_that_id(client: Client) -> None:
    client.write('{"id":1.5,"method":"thread/list","params":{}}')
    refused = client.wait(lambda said: said.get("id") == 1.5)
    assert refused["error"]["message"] == "Invalid request: the id of a request is a string or an integer"
