"""Standard streams of every kind: all output arrives, or the command fails and says so."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, message, turn

WAIT_S = 30
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}")
ANSWER = "".join(f"line {n} of a long answer\n" for n in range(10_000))


def environment_with(environment: dict[str, str], **more: str) -> dict[str, str]:
    plain = {name: value for name, value in environment.items() if name != "PYTHONUNBUFFERED"}
    return {**plain, **more}


def read_slowly(fd: int) -> bytes:
    """Everything up to the end, in small bites."""
    found = bytearray()
    while bite := os.read(fd, 5000):
        found += bite
        time.sleep(0)
    return bytes(found)


class Kinds:
    """Runs a command with its stdout of some kind; gives all that arrived, and the exit code."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.cwd = cwd
        self.environment = environment_with(environment)

    def plain(self, *args: str) -> tuple[bytes, int]:
        done = subprocess.run(
            [*self.command, *args],
            cwd=self.cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
        )
        return done.stdout, done.returncode

    def unbuffered(self, *args: str) -> tuple[bytes, int]:
        """A non-blocking pipe under PYTHONUNBUFFERED."""
        return self.non_blocking(*args, PYTHONUNBUFFERED="1")

    def non_blocking(self, *args: str, **more: str) -> tuple[bytes, int]:
        """A small pipe whose writing end does not wait."""
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writing, False)
        with subprocess.Popen(
            [*self.command, *args],
            cwd=self.cwd,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.DEVNULL,
        ) as process:
            os.close(writing)
            found = read_slowly(reading)
            os.close(reading)
            return found, process.wait(WAIT_S)

    def one_socket(self, *args: str) -> tuple[bytes, int]:
        """One non-blocking socket as stdin and stdout."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with subprocess.Popen(
            [*self.command, *args],
            cwd=self.cwd,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
        ) as process:
            theirs.close()
            ours.shutdown(socket.SHUT_WR)
            found = read_slowly(ours.fileno())
            ours.close()
            return found, process.wait(WAIT_S)


@pytest.fixture
def kinds(spindle_cmd: list[str], workspace: Path, environment: dict[str, str]) -> Kinds:
    return Kinds(spindle_cmd, workspace, environment)


@pytest.mark.parametrize("kind", ["unbuffered", "non_blocking", "one_socket"])
class TestEverythingArrives:
    def test_of_an_answer(self, kinds: Kinds, kind: str, server: FakeServer) -> None:
        server.script(turn(message(ANSWER)))
        assert getattr(kinds, kind)("exec", "hi") == (ANSWER.encode() + b"\n", 0)

    def test_of_the_events_of_a_run(self, kinds: Kinds, kind: str, server: FakeServer) -> None:
        server.script(turn(*(message(ANSWER, item_id=f"m{n}") for n in range(3))))
        found, code = getattr(kinds, kind)("exec", "--json", "hi")
        events = [json.loads(line) for line in found.splitlines()]
        texts = [event["item"]["text"] for event in events if event["type"] == "item.completed"]
        assert (texts, events[-1]["type"], code) == ([ANSWER] * 3, "turn.completed", 0)

    @pytest.mark.parametrize(
        "args",
        [
            ["debug", "prompt-input", ANSWER[:100_000]],
            ["mcp", "list", "--json"],
            ["exec", "--help"],
        ],
        ids=lambda args: " ".join(args[:2]),
    )
    def test_of_a_command_that_prints(self, kinds: Kinds, kind: str, home: Path, args: list[str]) -> None:
        with (home / "config.toml").open("a") as file:
            file.write(f'\n[mcp_servers.big]\ncommand = "true"\nargs = {json.dumps([ANSWER[:50_000]])}\n')
        expected, code = kinds.plain(*args)
        assert code == 0 and len(expected) > 1000
        found, code = getattr(kinds, kind)(*args)
        assert (UUID.sub(b"", found), code) == (UUID.sub(b"", expected), 0)

    def test_of_the_record_of_a_thread(self, kinds: Kinds, kind: str, server: FakeServer) -> None:
        server.script(turn(message(ANSWER)))
        kinds.plain("exec", ANSWER[:100_000])
        thread_id = json.loads(kinds.plain("threads", "--json")[0])["id"]
        for args in (["context", thread_id, "--json"], ["context", thread_id, "--html", "-"], ["threads", "--json"]):
            expected, code = kinds.plain(*args)
            assert code == 0
            assert getattr(kinds, kind)(*args) == (expected, 0)

    def test_of_what_a_program_is_told(self, kinds: Kinds, kind: str, server: FakeServer, tmp_path: Path) -> None:
        """Through `proto`: the events of a turn, then the end."""
        server.script(turn(message(ANSWER)))
        op = {"type": "user_turn", "items": [{"type": "text", "text": "hi"}]}
        ours, theirs = socket.socketpair()
        theirs.setblocking(kind == "unbuffered")
        more = {"PYTHONUNBUFFERED": "1"} if kind == "unbuffered" else {}
        with subprocess.Popen(
            [*kinds.command, "proto"],
            cwd=kinds.cwd,
            env={**kinds.environment, **more},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
        ) as process:
            theirs.close()
            ours.settimeout(WAIT_S)
            ours.sendall(json.dumps({"id": "1", "op": op}).encode() + b"\n")
            found = bytearray()
            while b'"task_complete"' not in found:
                found += ours.recv(2000)
            ours.shutdown(socket.SHUT_WR)
            ours.settimeout(None)
            found += read_slowly(ours.fileno())
            ours.close()
            assert process.wait(WAIT_S) == 0
        events = [json.loads(line)["msg"] for line in found.splitlines()]
        said = [event["message"] for event in events if event["type"] == "agent_message"]
        assert (said, events[-1]["type"]) == ([ANSWER], "shutdown_complete")


def test_a_pipe_that_is_read_slowly_loses_nothing_of_the_app_server(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    server.script(turn(*(message(ANSWER, item_id=f"m{n}", deltas=40) for n in range(4))))
    with subprocess.Popen(
        [*spindle_cmd, "app-server"],
        cwd=workspace,
        env=environment_with(environment, PYTHONUNBUFFERED="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, 4096)

        def ask(number: int, method: str, params: Any) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n")

        found = bytearray()

        def read_until(mark: bytes) -> None:
            assert process.stdout is not None
            while mark not in found:
                found.extend(process.stdout.read(2000))

        ask(0, "initialize", {"clientInfo": {"name": "slow", "version": "1"}})
        ask(1, "thread/start", {})
        read_until(b'"thread/started"')
        thread_id = next(
            json.loads(line)["result"]["thread"]["id"] for line in found.splitlines() if line.startswith(b'{"id":1,')
        )
        ask(2, "turn/start", {"threadId": thread_id, "input": [{"type": "text", "text": "go"}]})
        read_until(b'"turn/completed"')
        process.stdin.close()
        found += read_slowly(process.stdout.fileno())
        assert process.wait(WAIT_S) == 0
    seen = [json.loads(line) for line in found.splitlines()]
    notes = [message["params"] for message in seen if message.get("method") == "item/agentMessage/delta"]
    for n in range(4):
        assert "".join(note["delta"] for note in notes if note["itemId"] == f"m{n}") == ANSWER


def test_input_that_comes_late_through_a_non_blocking_pipe_is_waited_for(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with subprocess.Popen(
        [*spindle_cmd, "exec", "-"],
        cwd=workspace,
        env=environment,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(reading)
        assert process.stderr is not None
        while b"Reading prompt" not in process.stderr.readline():
            pass
        time.sleep(0.2)  # it has looked, and found nothing
        os.write(writing, b"late ")
        time.sleep(0.2)
        os.write(writing, b"words")
        os.close(writing)
        assert process.wait(WAIT_S) == 0
    assert "late words" in server.turns_asked[0].body.decode()


@pytest.mark.parametrize("command", [["proto"], ["app-server"]])
def test_a_terminal_is_left_as_it_was(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], command: list[str]
) -> None:
    """A shell that shares the terminal would get errors from a non-blocking one, also after a kill."""
    outer, inner = pty.openpty()
    mode = termios.tcgetattr(inner)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(inner, termios.TCSANOW, mode)
    with subprocess.Popen(
        [*spindle_cmd, *command], cwd=workspace, env=environment, stdin=inner, stdout=inner, stderr=inner
    ) as process:
        os.write(outer, b"this is no message\n")
        while b"not" not in os.read(outer, 4096):
            pass
        assert os.get_blocking(inner)
        process.kill()
    os.close(outer)
    os.close(inner)


@pytest.mark.parametrize("args", [["exec", "--json"], ["exec"]], ids=" ".join)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_whose_output_nobody_reads(
    spindle_cmd: list[str],
    workspace: Path,
    environment: dict[str, str],
    server: FakeServer,
    args: list[str],
    number: signal.Signals,
) -> None:
    server.script(turn(message(ANSWER * 4)))
    with subprocess.Popen(
        [*spindle_cmd, *args, "hi"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        unread = 0
        while unread < 60_000:  # a pipe holds 64 KiB: from here on the program can only wait
            unread = int.from_bytes(fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, b"\0" * 4), "little")
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(WAIT_S) != 0


@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_output_that_cannot_be_written_is_an_error_with_and_without_buffers(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer, more: dict[str, str]
) -> None:
    for args in (["exec", "hi"], ["exec", "--json", "hi"], ["mcp", "list", "--json"], ["--help"], ["--version"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*spindle_cmd, *args],
                cwd=workspace,
                env=environment_with(environment, **more),
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=WAIT_S,
            )
        assert (done.returncode, b"Traceback" in done.stderr) == (1, False), (args, done.stderr)
        assert b"cannot be written: No space left on device" in done.stderr
