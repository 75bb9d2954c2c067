"""Nothing that a command started outlives it, its launcher or its agent, however they end; nothing is left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from escape.arena import Arena
from escape.drive import Agent, Battery, mode_words, spindle
from escape.judge import processes_with
from fake_server import FakeServer, call

USERS = ("root", "user") if os.getuid() == 0 else ("user",)
PROTECTED = (".git", ".codex", ".agents", ".vscode", ".envrc", ".husky", ".aws")
GONE_S = 4.0


def brood(mark: str) -> str:
    """A script that leaves processes in every way it knows, says so, and stays."""
    one = f"sh -c 'while :; do sleep 1; done' {mark}"
    daemon = "import os,sys; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    daemon += "[os.close(n) for n in range(3)]; os.execvp('sh', ['sh','-c','while :; do sleep 1; done',sys.argv[1]])"
    return (
        f"{one} & setsid {one} & nohup {one} >/dev/null 2>&1 & (trap '' TERM HUP INT; {one}) & env -i setsid -f {one};"
        f"python3 -c {shlex.quote(daemon)} {mark}; (setsid {one} & kill -STOP $!); sleep 0.2; echo there; {one}"
    )


class Scene:
    def __init__(self, arena: Arena, server: FakeServer) -> None:
        self.arena, self.server = arena, server
        self.mark = f"{arena.stamp}.brood"
        self.process: subprocess.Popen[Any] = subprocess.Popen(["true"])

    def start(self, way: str) -> None:
        script = brood(self.mark)
        self.process.wait()
        if way == "sandbox":
            words = [*spindle(self.arena), "sandbox", *mode_words("workspace-write"), "-C", str(self.arena.ws), "--"]
            self.process = subprocess.Popen(
                [*words, "sh", "-c", script],
                cwd=self.arena.ws,
                env=self.arena.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self.arena.user.how,
            )
        else:
            how = {"cmd": script, "yield_time_ms": 30_000, "tty": way == "terminal", "login": False}
            one = (
                call("shell_command", {"command": script}, "c1")
                if way == "shell_command"
                else call("exec_command", how, "c1")
            )
            agent = Agent(self.arena, self.server, "workspace-write")
            self.process = agent.start(one, start_new_session=True)
        limit = time.monotonic() + 20
        while len(processes_with(self.mark)) < 7:
            assert time.monotonic() < limit and self.process.poll() is None, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        self.process.kill()
        return self.process.communicate()[0].decode("utf-8", "replace")

    def launchers(self) -> list[int]:
        """The processes between the agent and the command, outermost first."""
        found: list[int] = []
        for pid in descendants(self.process.pid):
            if b"bwrap" in command_line(pid).split(b"\0")[0]:
                found.append(pid)
        return sorted(found)

    def survivors(self) -> list[int]:
        limit = time.monotonic() + GONE_S
        while (left := processes_with(self.mark)) and time.monotonic() < limit:
            time.sleep(0.05)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def command_line(pid: int) -> bytes:
    """The words of a process; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        todo += children.get(todo[0], [])
        found += children.get(todo.pop(0), [])
    return found


@pytest.fixture(params=USERS)
def scene(request: pytest.FixtureRequest, battery: Battery, server: FakeServer) -> Iterator[Scene]:
    if request.param not in battery.users:
        pytest.skip("no interpreter here that an ordinary user may run")
    with ExitStack() as stack:
        scene = Scene(
            stack.enter_context(Arena(battery.stage, battery.users[request.param], "absent", has_victim=False)), server
        )
        yield scene
        scene.end()
        scene.survivors()


WAYS = ("sandbox", "exec_command", "terminal", "shell_command")


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_agent_takes_everything_along(scene: Scene, way: str) -> None:
    scene.start(way)
    scene.process.kill()
    assert scene.survivors() == []


@pytest.mark.parametrize(
    ("way", "number"),
    [
        *(("exec_command", number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
        *((way, signal.SIGTERM) for way in WAYS if way != "exec_command"),
    ],
)
def test_an_agent_asked_to_end_takes_everything_along(scene: Scene, way: str, number: signal.Signals) -> None:
    scene.start(way)
    scene.process.send_signal(number)
    assert scene.survivors() == []


@pytest.mark.parametrize("way", ["sandbox", "exec_command", "terminal"])
@pytest.mark.parametrize("which", [0, -1], ids=["outer", "inner"])
def test_a_killed_launcher_takes_everything_along_and_leaves_no_litter(scene: Scene, way: str, which: int) -> None:
    scene.start(way)
    launchers = scene.launchers()
    assert launchers, "no launcher found"
    os.kill(launchers[which], signal.SIGKILL)
    assert scene.survivors() == []
    scene.process.wait(20)
    assert not [name for name in PROTECTED if os.path.lexists(scene.arena.ws / name)]


@pytest.mark.parametrize("way", ["sandbox", "exec_command"])
def test_a_stopped_launcher_does_not_keep_anything_alive(scene: Scene, way: str) -> None:
    scene.start(way)
    for pid in scene.launchers():
        os.kill(pid, signal.SIGSTOP)
    scene.process.kill()
    assert scene.survivors() == []


@pytest.mark.parametrize("way", ["sandbox", "exec_command"])
def test_what_a_killed_agent_left_in_the_workspace_is_gone_after_the_next_command(scene: Scene, way: str) -> None:
    scene.start(way)
    scene.process.kill()
    assert scene.survivors() == []
    scene.process.wait(20)
    words = [*spindle(scene.arena), "sandbox", *mode_words("workspace-write"), "-C", str(scene.arena.ws), "--", "true"]
    subprocess.run(
        words, cwd=scene.arena.ws, env=scene.arena.environment, check=True, timeout=20, **scene.arena.user.how
    )
    end = time.monotonic() + 5  # who tidies up after the dead may hold one while the command lets go of it
    while (left := [name for name in PROTECTED if os.path.lexists(scene.arena.ws / name)]) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left


def test_a_session_that_still_runs_ends_with_the_agent(scene: Scene) -> None:
    """The model stops waiting for it and says its last word."""
    agent = Agent(scene.arena, scene.server, "workspace-write")
    agent.run(call("exec_command", {"cmd": brood(scene.mark), "yield_time_ms": 1500, "login": False}, "c1"))
    assert "session ID" in agent.outputs[0]
    assert scene.survivors() == []


INJECTION = """
import os, sys, time
try:
    with open("/proc/1/syscall") as file:
        counter = int(file.read().split()[-1], 16)
    # prctl(PR_SET_PDEATHSIG, 0); for (;;) pause();
    code = bytes.fromhex("bf01000000 31f6 31d2 b89d000000 0f05 b822000000 0f05 ebf7")
    with open("/proc/1/mem", "r+b", buffering=0) as memory:
        memory.seek(counter)
        memory.write(code)
except OSError:
    pass
if os.fork() == 0:  # an orphan, whose end wakes the first process
    if os.fork() == 0:
        time.sleep(0.1)
    os._exit(0)
os.wait()
time.sleep(0.4)
os.execvp("sh", ["sh", "-c", "while :; do sleep 1; done", sys.argv[1]])
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the code is for this kind of machine")
def test_a_command_that_rewrites_the_first_process_of_its_sandbox_ends_too(scene: Scene) -> None:
    """That process is told when its launcher dies; a command that can write to its memory can have it forget that."""
    scene.process.wait()
    words = [*spindle(scene.arena), "sandbox", *mode_words("workspace-write"), "-C", str(scene.arena.ws), "--"]
    scene.process = subprocess.Popen(
        [*words, scene.arena.user.python, "-I", "-c", INJECTION, scene.mark],
        cwd=scene.arena.ws,
        env=scene.arena.environment,
        stdin=subprocess.DEVNULL,
        **scene.arena.user.how,
    )
    limit = time.monotonic() + 20
    while not any(command_line(pid)[:3] == b"sh\0" for pid in processes_with(scene.mark)):
        assert time.monotonic() < limit and scene.process.poll() is None
        time.sleep(0.02)
    launchers = scene.launchers()
    scene.process.kill()
    left = scene.survivors()
    for pid in launchers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def test_the_brood_lives_on_when_nothing_holds_it_back(scene: Scene) -> None:
    scene.process.wait()
    scene.process = subprocess.Popen(
        ["sh", "-c", brood(scene.mark)], stdout=subprocess.PIPE, start_new_session=True, **scene.arena.user.how
    )
    assert scene.process.stdout is not None
    with scene.process.stdout as said:
        assert said.readline() == b"there\n"  # all of them have been started
    scene.process.kill()
    time.sleep(0.3)
    left = processes_with(scene.mark)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.killpg(scene.process.pid, signal.SIGKILL)
    assert len(left) >= 6
