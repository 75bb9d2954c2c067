"""`--listen tcp://` and `unix://`: who is let in, one engine for each connection, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle, wait_for
from spindle.frontends import socket_lines
from spindle.frontends.socket_lines import SocketPeer, peer_uid
from spindle.frontends.sockets import Listener, UnixAddress, serve

TOKEN = "a-token-of-many-characters"
FULL = ("-s", "danger-full-access")
WAIT_S = 20.0


class Talk:
    """One connection to the server: lines out, events in."""

    def __init__(self, url: str) -> None:
        scheme, _, where = url.partition("://")
        if scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(WAIT_S)
            self.socket.connect(where)
        else:
            host, port = where.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), WAIT_S)
        self._file = self.socket.makefile("rb")

    def write(self, line: Any) -> None:
        self.socket.sendall((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")

    def say(self, sub_id: str, text: str) -> None:
        self.write({"id": sub_id, "op": {"type": "user_turn", "items": [{"type": "text", "text": text}]}})

    def next(self) -> dict[str, Any] | None:
        """The next event; None at the end of the connection."""
        try:
            line = self._file.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def until(self, *kinds: str) -> dict[str, Any]:
        while (event := self.next()) is not None:
            if event["msg"]["type"] in kinds:
                return event["msg"] | {"id": event["id"]}
        raise AssertionError(f"closed before {kinds}")

    def rest(self) -> list[dict[str, Any]]:
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Served:
    """A server that listens, and the connections of a test."""

    def __init__(self, spindle: Spindle, command: str, url: str, *args: str) -> None:
        self.process = spindle.start(command, "--listen", url, *args)
        self.talks: list[Talk] = []
        assert self.process.stderr is not None
        self.line = self.process.stderr.readline().decode()
        assert self.line.startswith(f"{command}: listening on "), self.line
        self.url = self.line.split()[3]

    def connect(self, *lines: Any) -> Talk:
        self.talks.append(Talk(self.url))
        for line in lines:
            self.talks[-1].write(line)
        return self.talks[-1]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@pytest.fixture
def served(spindle: Spindle) -> Iterator[Any]:
    made: list[Served] = []

    def start(url: str, *args: str, command: str = "proto") -> Served:
        made.append(Served(spindle, command, url, *args))
        return made[-1]

    yield start
    for one in made:
        for talk in one.talks:
            talk.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


def test_a_client_that_says_the_token_first_gets_an_engine(served: Any, token: Path, server: FakeServer) -> None:
    server.script(turn(message("over tcp")))
    listening = served("tcp://127.0.0.1:0", "--token-file", str(token))
    talk = listening.connect({"token": TOKEN})
    assert talk.until("session_configured")["session_id"]
    talk.say("s1", "hello")
    assert talk.until("task_complete")["last_agent_message"] == "over tcp"
    talk.write({"id": "s2", "op": {"type": "shutdown"}})
    assert [event["msg"]["type"] for event in talk.rest()] == ["shutdown_complete"]
    listening.connect({"token": TOKEN}).until("session_configured")
    assert listening.end() == 0


@pytest.mark.parametrize(
    "first",
    [
        {"token": TOKEN + "x"},
        {"token": [TOKEN]},
        {"id": "1", "op": {"type": "get_path"}},
        "POST / HTTP/1.1",
        "x" * 70_000,
    ],
)
def test_without_the_token_there_is_one_answer_and_no_engine(
    served: Any, token: Path, first: Any, spindle: Spindle, server: FakeServer
) -> None:
    talk = served("tcp://127.0.0.1:0", "--token-file", str(token)).connect(first)
    talk.say("s1", "sneak")
    assert talk.rest() == [{"id": "", "msg": {"type": "error", "message": "unauthorized"}}]
    assert server.requests == [] and spindle.rollouts() == []


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["tcp://127.0.0.1:0"], 2, "--token-file"),
        (["tcp://0.0.0.0:0", "--token-file", "TOKEN"], 2, "--allow-remote"),
        (["carrier-pigeon://x"], 2, "tcp://"),
        (["tcp://127.0.0.1", "--token-file", "TOKEN"], 1, "tcp://HOST:PORT"),
        (["tcp://127.0.0.1:0", "--token-file", "OPEN"], 1, "chmod 600"),
        (["tcp://127.0.0.1:0", "--token-file", "TOKEN", "--max-connections", "0"], 2, "--max-connections"),
        (["unix:///no/such/folder/s.sock"], 1, "No such file"),
        (["unix://" + "x" * 200], 1, "too long"),
    ],
)
def test_an_address_that_cannot_be_served_is_one_sentence(
    spindle: Spindle, token: Path, arguments: list[str], code: int, told: str
) -> None:
    others = token.with_name("open")
    others.write_text(TOKEN)
    others.chmod(0o644)
    words = [{"TOKEN": str(token), "OPEN": str(others)}.get(word, word) for word in arguments]
    done = spindle("proto", "--listen", *words)
    assert (done.code, done.err.count("\n"), told in done.err, done.out) == (code, 1, True, ""), done.err


def test_a_remote_address_warns_in_its_first_line(served: Any, token: Path) -> None:
    listening = served("tcp://0.0.0.0:0", "--token-file", str(token), "--allow-remote")
    assert "nothing is encrypted" in listening.line
    assert listening.end() == 0


def test_a_unix_socket_is_private_and_taken_away_at_the_end(
    served: Any, spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "s.sock"
    server.script(turn(message("over unix")))
    listening = served(f"unix://{path}")
    assert listening.url == f"unix://{path}" and stat.S_IMODE(path.stat().st_mode) == 0o600
    talk = listening.connect({"token": "ignored"})
    talk.until("session_configured")
    talk.say("s1", "hello")
    assert talk.until("task_complete", "error")["last_agent_message"] == "over unix"
    second = spindle("proto", "--listen", f"unix://{path}")
    assert second.code == 1 and "another server listens there" in second.err and path.exists()
    assert listening.end(signal.SIGINT) == 0 and not path.exists()


def test_a_socket_that_nobody_listens_on_is_replaced_and_another_file_is_not(
    served: Any, spindle: Spindle, tmp_path: Path
) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    served(f"unix://{path}").connect().until("session_configured")
    file = tmp_path / "notes"
    file.write_text("mine")
    done = spindle("proto", "--listen", f"unix://{file}")
    assert done.code == 1 and file.read_text() == "mine"


def test_whoever_goes_away_stops_his_own_turn_and_nothing_else(
    served: Any, spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    server.script(turn(call("exec_command", {"cmd": f"read x < {gate}; touch late.txt"}, "c1")))
    listening = served(f"unix://{tmp_path / 's.sock'}", *FULL)
    gone, stays = listening.connect(), listening.connect()
    mine = gone.until("session_configured")["session_id"]
    assert stays.until("session_configured")["session_id"] != mine
    gone.say("a", "go")
    gone.until("exec_command_begin")
    gone.close()
    wait_for(
        lambda: any(mine in file.name and "turn_aborted" in file.read_text() for file in spindle.rollouts()),
        "the turn of the client that went away is recorded as stopped",
    )
    stays.say("b", "hello")
    assert stays.until("task_complete")["last_agent_message"] == "done"
    assert not (spindle.workspace / "late.txt").exists()


def test_a_signal_stops_and_records_every_turn(
    served: Any, spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    server.script(*[turn(call("exec_command", {"cmd": "sleep 600"}, "c1"))] * 2)
    listening = served(f"unix://{tmp_path / 's.sock'}", *FULL)
    talks = [listening.connect(), listening.connect()]
    for talk in talks:
        talk.until("session_configured")
        talk.say("t", "go")
        talk.until("exec_command_begin")
    assert listening.end() == 0
    for talk in talks:
        assert [event["msg"]["type"] for event in talk.rest()][-2:] == ["turn_aborted", "shutdown_complete"]
    assert ["turn_aborted" in file.read_text() for file in spindle.rollouts()] == [True, True]


def test_more_clients_than_allowed_are_told_that_it_is_busy(served: Any, tmp_path: Path) -> None:
    listening = served(f"unix://{tmp_path / 's.sock'}", "--max-connections", "1")
    first = listening.connect()
    first.until("session_configured")
    assert [event["msg"]["message"] for event in listening.connect().rest()] == ["busy"]
    first.close()
    wait_for(
        lambda: (listening.connect().next() or {"msg": {}})["msg"].get("type") == "session_configured",
        "the place of the client that went away is free",
    )


def test_a_line_that_is_too_long_ends_the_connection_with_an_error(served: Any, tmp_path: Path) -> None:
    listening = served(f"unix://{tmp_path / 's.sock'}")
    talk = listening.connect()
    talk.until("session_configured")
    piece = b"x" * (1 << 20)
    try:
        for _ in range(17):
            talk.socket.sendall(piece)
    except OSError:
        pass  # it has heard enough
    assert "16 MiB" in talk.until("error")["message"]
    talk.rest()
    listening.connect().until("session_configured")


def test_a_client_that_does_not_read_stalls_nobody(served: Any, server: FakeServer, tmp_path: Path) -> None:
    flood = [turn(call("exec_command", {"cmd": "head -c 900000 /dev/zero | tr '\\0' x"}, f"c{n}")) for n in range(12)]
    server.script(*flood, turn(message("flooded")), turn(message("quick")))
    listening = served(f"unix://{tmp_path / 's.sock'}", *FULL)
    slow, quick = listening.connect(), listening.connect()
    slow.until("session_configured")
    quick.until("session_configured")
    slow.say("s", "flood")
    wait_for(lambda: len(server.requests) == 13, "the turn goes on though nobody reads", timeout=40)
    quick.say("q", "hello")
    assert quick.until("task_complete")["last_agent_message"] == "quick"
    assert select.select([slow.socket], [], [], 0)[0]
    assert slow.until("task_complete")["last_agent_message"] == "flooded"


def test_the_app_server_speaks_its_lines_over_a_unix_socket(
    served: Any, spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.sock"
    server.script(turn(message("over a socket")))
    listening = served(f"unix://{path}", command="app-server")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    talk = listening.connect({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}})
    assert talk.next()["result"]["codexHome"] == str(spindle.home)
    talk.write({"id": 1, "method": "thread/start", "params": {}})
    while (answer := talk.next())["id" if "id" in answer else "method"] != 1:
        pass
    thread_id = answer["result"]["thread"]["id"]
    given = {"threadId": thread_id, "input": [{"type": "text", "text": "hello"}]}
    talk.write({"id": 2, "method": "turn/start", "params": given})
    while (note := talk.next()).get("method") != "turn/completed":
        pass
    assert note["params"]["turn"]["items"][-1]["text"] == "over a socket"
    assert listening.end() == 0 and not path.exists()


def test_the_app_server_says_why_it_closes_a_connection(served: Any, tmp_path: Path) -> None:
    listening = served(f"unix://{tmp_path / 'a.sock'}", command="app-server")
    inside = [listening.connect() for _ in range(64)]
    for talk in (inside[0], inside[-1]):
        talk.write({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}})
        assert talk.next()["id"] == 0
    refused = listening.connect()
    answer = refused.next()
    assert answer["id"] is None and "busy" in answer["error"]["message"] and refused.next() is None
    try:
        inside[0].write("x" * ((16 << 20) + 2))
    except (BrokenPipeError, ConnectionResetError):
        pass  # it need not read more than it takes to see that it is too much
    answer = inside[0].next()
    assert answer["id"] is None and "16 MiB" in answer["error"]["message"] and inside[0].next() is None
    assert listening.end() == 0


async def test_a_client_of_another_user_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(UnixAddress(str(tmp_path / "s.sock")))
    ended = asyncio.Event()

    async def converse(peer: SocketPeer) -> None:
        await peer.write(b"in\n")

    serving = asyncio.ensure_future(serve(listener, converse, ended))

    async def first_line() -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s.sock"))
        try:
            return await reader.readline()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    assert await first_line() == b"in\n"
    monkeypatch.setattr(socket_lines, "peer_uid", lambda connection: os.geteuid() + 1)
    assert await first_line() == b""
    ended.set()
    await serving


def test_the_system_names_the_user_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()
