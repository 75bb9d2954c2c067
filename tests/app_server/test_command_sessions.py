"""`command/exec` with an id of the client's own: streams, input, terminals, and the end of them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from app_server.client import WAIT_S, Client, wait_for_pid
from app_server.conftest import Start
from fake_server import FakeServer


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def output(client: Client, process_id: str, stream: str = "stdout") -> str:
    """What was streamed so far."""
    told = [message["params"] for message in client.seen if message.get("method") == "command/exec/outputDelta"]
    parts = [note["deltaBase64"] for note in told if (note["processId"], note["stream"]) == (process_id, stream)]
    return b"".join(base64.b64decode(part) for part in parts).decode()


def wait_for_output(client: Client, process_id: str, text: str) -> None:
    client.note("command/exec/outputDelta", lambda _: text in output(client, process_id))


def test_output_is_streamed_apart_and_not_repeated_in_the_answer(client: Client) -> None:
    script = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    done = client.result("command/exec", {"command": script, "processId": "p", "streamStdoutStderr": True})
    assert done == {"exitCode": 3, "stdout": "", "stderr": ""}
    assert (output(client, "p"), output(client, "p", "stderr")) == ("out\n", "err\n")
    told = [message["params"]["deltaBase64"] for message in client.seen if "params" in message]
    assert told.count("") == 0, "a stream that ends says nothing"


def test_a_running_command_takes_input_until_it_is_closed(client: Client) -> None:
    running = client.send("command/exec", {"command": ["cat"], "processId": "p", "streamStdin": True})
    assert client.result("command/exec/write", {"processId": "p", "deltaBase64": packed("one ")}) == {}
    last = {"processId": "p", "deltaBase64": packed("two"), "closeStdin": True}
    assert client.result("command/exec/write", last) == {}
    assert client.answer_to(running)["result"] == {"exitCode": 0, "stdout": "one two", "stderr": ""}
    gone = client.error("command/exec/write", last)
    assert gone == {"code": -32600, "message": 'no active command/exec for process id "p"'}


def test_a_terminal_has_the_size_that_was_asked_for_and_can_be_resized(client: Client) -> None:
    script = "stty size; read line; stty size; echo got $line; test -t 2 && echo terminal"
    params = {"command": ["sh", "-c", script], "processId": "p", "tty": True, "size": {"rows": 11, "cols": 22}}
    running = client.send("command/exec", params)
    wait_for_output(client, "p", "11 22")
    assert client.result("command/exec/resize", {"processId": "p", "size": {"rows": 33, "cols": 44}}) == {}
    client.result("command/exec/write", {"processId": "p", "deltaBase64": packed("hi\n")})
    assert client.answer_to(running)["result"]["exitCode"] == 0
    assert "33 44" in output(client, "p") and "got hi" in output(client, "p") and "terminal" in output(client, "p")


def test_a_command_is_terminated_with_what_it_started(client: Client, workspace: Path) -> None:
    script = f"sleep 600 & echo $! > {workspace}/pid; wait"
    free = {"type": "dangerFullAccess"}
    params = {"command": ["sh", "-c", script], "processId": "p", "sandboxPolicy": free}
    running = client.send("command/exec", {**params, "disableTimeout": True})
    pid = wait_for_pid(workspace / "pid")
    assert "duplicate active" in client.error("command/exec", params)["message"]
    assert client.result("command/exec/terminate", {"processId": "p"}) == {}
    assert client.answer_to(running)["result"]["exitCode"] in (137, 143)
    assert not os.path.exists(f"/proc/{pid}")
    assert "no active command/exec" in client.error("command/exec/terminate", {"processId": "p"})["message"]


def test_a_command_ends_with_the_client_that_started_it(start: Start, workspace: Path) -> None:
    client = start()
    client.initialize()
    script = f"echo $$ > {workspace}/pid; exec sleep 600"
    params = {"command": ["sh", "-c", script], "processId": "p", "disableTimeout": True}
    client.send("command/exec", {**params, "sandboxPolicy": {"type": "dangerFullAccess"}})
    pid = wait_for_pid(workspace / "pid")
    assert client.close() == 0
    assert not os.path.exists(f"/proc/{pid}")


def test_output_beyond_the_cap_is_left_out_and_that_is_said(client: Client) -> None:
    command = ["sh", "-c", "echo 1234567890"]
    assert client.result("command/exec", {"command": command, "outputBytesCap": 4})["stdout"] == "1234"
    client.result(
        "command/exec", {"command": command, "processId": "p", "streamStdoutStderr": True, "outputBytesCap": 4}
    )
    note = client.note("command/exec/outputDelta")
    assert (base64.b64decode(note["deltaBase64"]), note["capReached"]) == (b"1234", True)
    long = client.result("command/exec", {"command": ["seq", "400000"], "disableOutputCap": True})
    assert long["stdout"].count("\n") == 400_000


def test_a_streaming_command_stays_in_the_sandbox(client: Client, workspace: Path) -> None:
    command = ["sh", "-c", f"touch {workspace}/made"]
    asked = {"command": command, "processId": "p", "sandboxPolicy": {"type": "readOnly"}}
    for how in ({"tty": True}, {"streamStdin": True}, {"streamStdoutStderr": True}):
        assert client.result("command/exec", {**asked, **how})["exitCode"] != 0
    assert not (workspace / "made").exists()


@pytest.mark.parametrize(
    ("params", "code", "says"),
    [
        ({"tty": True}, -32600, "tty or streaming requires a client-supplied processId"),
        ({"streamStdin": True}, -32600, "tty or streaming requires a client-supplied processId"),
        ({"size": {"rows": 1, "cols": 1}}, -32602, "command/exec size requires tty: true"),
        ({"tty": True, "processId": "p", "size": {"rows": 0, "cols": 1}}, -32602, "rows and cols"),
        ({"timeoutMs": 5, "disableTimeout": True}, -32602, "both timeoutMs and disableTimeout"),
        ({"outputBytesCap": 5, "disableOutputCap": True}, -32602, "both outputBytesCap and disableOutputCap"),
        ({"outputBytesCap": -1}, -32602, "outputBytesCap must not be negative"),
    ],
)
def test_what_does_not_go_together_is_refused(client: Client, params: dict[str, Any], code: int, says: str) -> None:
    error = client.error("command/exec", {"command": ["true"], **params})
    assert error["code"] == code and says in error["message"]


def test_input_for_a_command_that_takes_none_is_refused(client: Client) -> None:
    running = client.send("command/exec", {"command": ["sleep", "600"], "processId": "p"})
    bad = client.error("command/exec/write", {"processId": "p", "deltaBase64": "%%"})
    assert bad["code"] == -32602 and "deltaBase64" in bad["message"]
    refused = client.error("command/exec/write", {"processId": "p", "deltaBase64": packed("x")})
    assert "streamStdin" in refused["message"]
    small = client.error("command/exec/resize", {"processId": "p", "size": {"rows": 10, "cols": 20}})
    assert "no terminal" in small["message"]
    client.result("command/exec/terminate", {"processId": "p"})
    client.answer_to(running)


def test_a_command_that_does_not_read_holds_nobody_up(client: Client, server: FakeServer) -> None:
    running = client.send("command/exec", {"command": ["sleep", "600"], "processId": "p", "streamStdin": True})
    big = client.send("command/exec/write", {"processId": "p", "deltaBase64": packed("x" * 300_000)})
    assert client.result("thread/loaded/list")["data"] == []
    client.result("command/exec/terminate", {"processId": "p"})
    assert client.answer_to(running)["result"]["exitCode"] in (137, 143)
    assert "not taken" in client.answer_to(big)["error"]["message"] and WAIT_S


def test_a_folder_that_is_not_there_is_named(client: Client) -> None:
    said = client.error("command/exec", {"command": ["pwd"], "cwd": "/no/such/folder"})["message"]
    assert said == "cwd '/no/such/folder' is not a folder"
