"""The caller's terminal: a command can neither type into it nor, when the agent runs it, reach it at all.

`spindle sandbox` hands its own terminal to the command, so there only what goes beyond that is an attack.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from escape.arena import Arena
from escape.case import ATTACKS
from escape.drive import Agent, Battery, mode_words, runner_words, spindle
from fake_server import FakeServer

USERS = ("root", "user") if os.getuid() == 0 else ("user",)
GIVEN = [one.name for one in ATTACKS.values() if one.arena == "terminal"]
AGENT = [one.name for one in ATTACKS.values() if one.arena in ("terminal", "agent's terminal")]
LEADER = "import fcntl,os,sys; os.setsid(); fcntl.ioctl(0,0x540e,0); os.execvp(sys.argv[1],sys.argv[1:])"
"""Makes its standard input its controlling terminal, as a terminal emulator does."""


class Terminal:
    """A terminal as its emulator sees it."""

    def __init__(self, owner: int) -> None:
        self.master, self.slave = os.openpty()
        self.path = os.ttyname(self.slave)
        os.chown(self.path, owner, -1)
        os.set_blocking(self.master, False)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.shown = b""
        self.before = self.settings()

    def settings(self) -> tuple[Any, ...]:
        size = fcntl.ioctl(self.slave, termios.TIOCGWINSZ, bytes(8))
        return size, termios.tcgetattr(self.slave)[:4]

    def read(self) -> None:
        poll = select.poll()
        poll.register(self.master, select.POLLIN)
        while poll.poll(0):
            try:
                self.shown += os.read(self.master, 65536)
            except OSError:
                return

    def typed(self) -> bytes:
        """What waits to be read by the next program in the terminal."""
        settings = termios.tcgetattr(self.slave)
        settings[3] &= ~termios.ICANON
        settings[6][termios.VMIN] = 0
        settings[6][termios.VTIME] = 0
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)
        return os.read(self.slave, 65536)

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


class Scene:
    def __init__(self, arena: Arena, server: FakeServer) -> None:
        self.arena, self.server = arena, server
        self.mine, self.other = Terminal(arena.user.uid), Terminal(arena.user.uid)

    def run(self, way: str, *names: str) -> dict[str, list[str]]:
        """What was seen of the attacks."""
        facts = self.arena.facts(bare=way == "bare")
        text = facts.read_text().replace(
            '"bare":', f'"tty": "{self.mine.path}", "other_tty": "{self.other.path}", "bare":', 1
        )
        facts.write_text(text)
        words = [*runner_words(self.arena, "attack"), str(facts), *names]
        if way == "sandbox":
            words = [
                *spindle(self.arena),
                "sandbox",
                *mode_words("workspace-write"),
                "-C",
                str(self.arena.ws),
                "--",
                *words,
            ]
        elif way != "bare":
            agent = Agent(self.arena, self.server, "workspace-write")
            agent.script(words, way)
            words = agent.words
        process = subprocess.Popen(
            [self.arena.user.python, "-I", "-S", "-c", LEADER, *words],
            cwd=self.arena.ws,
            env=self.arena.environment,
            stdin=self.mine.slave,
            stdout=self.mine.slave,
            stderr=self.mine.slave,
            **self.arena.user.how,
        )
        limit = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < limit:
            self.mine.read()
            time.sleep(0.01)
        process.kill()
        process.wait()
        settings = self.mine.settings()
        waiting = self.mine.typed()
        self.mine.read()
        self.other.read()
        seen = {name: self._judge(name, f"{self.arena.stamp}.{name}.".encode(), waiting) for name in names}
        if settings != self.mine.before:
            seen.setdefault(names[-1], []).append("the terminal changed")
        return {name: found for name, found in seen.items() if found}

    def _judge(self, name: str, mark: bytes, waiting: bytes) -> list[str]:
        found: list[str] = []
        if mark in waiting:
            found.append("it typed")
        if mark in self.mine.shown.replace(b"\r\n", b""):
            found.append("it wrote")
        if mark in self.other.shown:
            found.append("it wrote to another terminal")
        if f"REACHED {name}".encode() in self.mine.shown:
            found.append("it reached something")
        return found


@pytest.fixture(params=USERS)
def scene(request: pytest.FixtureRequest, battery: Battery, server: FakeServer) -> Iterator[Scene]:
    if request.param not in battery.users:
        pytest.skip("no interpreter here that an ordinary user may run")
    with ExitStack() as stack:
        arena = stack.enter_context(
            Arena(battery.stage, battery.users[request.param], keeps_stdio=True, has_victim=False)
        )
        scene = Scene(arena, server)
        yield scene
        scene.mine.close()
        scene.other.close()


def test_the_sandbox_command_lends_its_terminal_and_no_more(scene: Scene) -> None:
    assert scene.run("sandbox", *GIVEN) == {}


@pytest.mark.parametrize("way", ["exec_command", "terminal", "shell"])
def test_a_command_of_the_agent_does_not_reach_the_terminal_of_its_user(scene: Scene, way: str) -> None:
    # What a command writes to a terminal of its own is its output.
    names = [name for name in AGENT if way != "terminal" or name != "writes_to_whatever_terminal_controls_it"]
    assert scene.run(way, *names) == {}


def _is_closed_by_the_kernel() -> bool:
    try:
        return Path("/proc/sys/dev/tty/legacy_tiocsti").read_text().strip() == "0"
    except OSError:
        return False


@pytest.mark.parametrize("name", [name for name in AGENT if not ATTACKS[name].no_control])
def test_the_terminal_is_reached_when_nothing_holds_the_attack_back(scene: Scene, name: str) -> None:
    if name.startswith("types") and _is_closed_by_the_kernel():
        pytest.skip("this kernel lets nobody type into a terminal")
    assert name in scene.run("bare", name)
