"""`--listen ws://`: who is let in, and that several clients see the same thread."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app_server.client import WAIT_S
from fake_server import FakeServer, message, turn
from spindle.errors import SpindleError
from spindle.frontends.token_file import read_token

Listening = tuple[str, str, subprocess.Popen[str]]


@pytest.fixture
def listening(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, tmp_path: Path
) -> Iterator[Listening]:
    """The address of a server, its token, and its process."""
    token = tmp_path / "token"
    command = [*spindle_cmd, "app-server", "--listen", "ws://127.0.0.1:0", "--token-file", str(token)]
    with subprocess.Popen(command, cwd=workspace, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("app-server: listening on ws://127.0.0.1:"), line
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        yield line.split()[-1], token.read_text().strip(), process
        process.terminate()


class Client:
    """One connection that has introduced itself."""

    def __init__(self, url: str, token: str, until: ExitStack) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.ws: ClientConnection = until.enter_context(
            connect(url, additional_headers=headers, proxy=None, max_size=None)
        )
        self.count = 0
        self.result("initialize", {"clientInfo": {"name": "ws", "version": "1"}})

    def result(self, method: str, params: Any) -> Any:
        self.count += 1
        self.ws.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while True:
            answer = json.loads(self.ws.recv(WAIT_S))
            if answer.get("id") == self.count and "method" not in answer:
                return answer["result"]

    def note(self, method: str) -> Any:
        while (said := json.loads(self.ws.recv(WAIT_S))).get("method") != method:
            pass
        return said["params"]


def test_two_clients_follow_one_thread_and_one_may_leave(listening: Listening, server: FakeServer) -> None:
    url, token, process = listening
    server.script(turn(message("hello")), turn(message("again")))
    with ExitStack() as until:
        first, second = Client(url, token, until), Client(url, token, until)
        thread_id = first.result("thread/start", {})["thread"]["id"]
        assert second.result("thread/resume", {"threadId": thread_id})["thread"]["id"] == thread_id
        content = [{"type": "text", "text": "hi"}]
        first.result("turn/start", {"threadId": thread_id, "input": content})
        assert first.note("turn/completed")["turn"] == second.note("turn/completed")["turn"]
        first.ws.close()
        second.result("turn/start", {"threadId": thread_id, "input": content})
        assert second.note("turn/completed")["turn"]["items"][0]["text"] == "again"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer TOKEN", "Origin": "http://127.0.0.1"}, 403),
        ({"Authorization": "Bearer TOKEN", "Origin": "null"}, 403),
    ],
)
def test_who_has_no_token_or_is_a_web_page_is_turned_away(
    listening: Listening, headers: dict[str, str], status: int
) -> None:
    url, token, _ = listening
    sent = {name: value.replace("TOKEN", token) for name, value in headers.items()}
    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=sent, proxy=None):
        pass
    assert refused.value.response.status_code == status


def test_a_foreign_name_for_this_machine_is_turned_away(listening: Listening) -> None:
    url, token, _ = listening
    port = int(url.rpartition(":")[2])
    sock = socket.create_connection(("127.0.0.1", port))
    sent = {"Authorization": f"Bearer {token}"}
    foreign = f"ws://evil.example:{port}"
    with pytest.raises(InvalidStatus) as refused, connect(foreign, sock=sock, additional_headers=sent, proxy=None):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ws://127.0.0.1:0"], "--token-file"),
        (["ws://0.0.0.0:0", "--token-file", "t"], "--allow-remote"),
        (["ws://127.0.0.1", "--token-file", "t"], "ws://HOST:PORT"),
        (["tcp://127.0.0.1:1"], "ws://HOST:PORT"),
        (["ws://127.0.0.1:0", "--token-file", "open"], "others can read"),
        (["ws://127.0.0.1:0", "--token-file", "short"], "at least 16"),
        (["ws://127.0.0.1:0", "--token-file", "pipe"], "not an ordinary file"),
    ],
)
def test_what_would_not_be_safe_is_refused_in_a_sentence(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path, arguments: list[str], told: str
) -> None:
    (tmp_path / "open").write_text("x" * 32)
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "short").write_text("x")
    (tmp_path / "short").chmod(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    done = subprocess.run(
        [*spindle_cmd, "app-server", "--listen", *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and told in done.stderr


def test_a_token_is_never_cut(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x" * 4096)
    token.chmod(0o600)
    assert read_token(str(token)) == "x" * 4096
    token.write_text("x" * 4097)
    with pytest.raises(SpindleError, match="more than 4096 characters"):
        read_token(str(token))


def test_a_token_that_another_user_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    assert read_token(str(token)) == token.read_text().strip()
    if os.geteuid() == 0:
        os.chown(token, 54321, 54321)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(SpindleError, match="belongs to another user"):
        read_token(str(token))
