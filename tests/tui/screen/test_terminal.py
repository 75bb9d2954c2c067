"""The terminal is taken and given back as it was, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spindle.frontends.tui.screen.messages import clipboard, notification, title
from spindle.frontends.tui.screen.terminal import Terminal
from tui.terminals import Tui

SITTING = [sys.executable, str(Path(__file__).with_name("sitting.py"))]


@pytest.fixture
def sit(tmp_path: Path) -> Iterator[Any]:
    """Starts the small program of `sitting.py`."""
    opened: list[Tui] = []

    def start(*args: str, **how: Any) -> Tui:
        opened.append(Tui([*SITTING, *args], cwd=tmp_path, env={}, **how))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_it_is_taken_and_given_back(sit: Any) -> None:
    t = sit(before=b"$ spindle\r\n")
    t.wait_for("below the composer")
    assert t.modes[2004] and t.modes[1004] and not t.emulator.is_alternate
    assert not [number for number in (1000, 1002, 1003, 1006) if t.modes.get(number)], "the mouse is the terminal's"
    assert t.title == "sitting ]0;bad" and t.emulator.kitty_flags == [0]
    t.type("abc").wait_for("> abc").key("enter").wait_for("said abc")
    t.key("q")
    assert t.wait_exit() == 0
    assert t.scrollback == "$ spindle\ntyped before: 0\nsaid abc"
    t.assert_sane()


def test_the_new_keyboard_protocol_is_used_only_where_it_is_known(sit: Any) -> None:
    t = sit(kitty=True)
    t.wait_for("below the composer").until(lambda: t.emulator.kitty_flags == [0, 5], "kitty's protocol")
    t.key("q")
    assert t.wait_exit() == 0
    t.assert_sane()


@pytest.mark.parametrize("what", ["crash", "half", "alternate", "SIGTERM", "SIGHUP", "SIGINT"])
def test_every_way_out_leaves_it_sane(sit: Any, what: str) -> None:
    t = sit(what, kitty=True)
    t.wait_for("below the composer").until(lambda: t.emulator.kitty_flags == [0, 5], "kitty's protocol")
    t.type("draft").wait_for("> draft")
    if what.startswith("SIG"):
        t.process.send_signal(signal.Signals[what])
        assert t.wait_exit() == 128 + signal.Signals[what]
    else:
        t.key("!")
        assert t.wait_exit() == 1
    assert "below the composer" not in t.screen and not t.emulator.is_alternate
    t.assert_sane()


def test_ctrl_z_gives_the_terminal_to_the_shell_until_fg(tmp_path: Path) -> None:
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with Tui(shell, cwd=tmp_path, env={"PS1": "$ ", "HISTFILE": "/dev/null"}) as t:
        t.wait_for("$").send(shlex.join(SITTING) + "\r")
        t.wait_for("below the composer").type("kept").wait_for("> kept")
        t.key("ctrl-z").wait_for("Stopped").wait_gone("below the composer")
        t.send("echo shell-$((40+2)) works\r").wait_for("shell-42 works")
        t.send("fg\r").wait_for("> kept").wait_for("below the composer")
        t.key("enter").wait_for("said kept").key("q").wait_gone("below the composer")
        t.send("stty -a; exit\r")
        assert t.wait_exit() == 0
        assert " icanon" in t.scrollback and " echo " in t.scrollback


def test_keys_typed_before_are_not_lost(tmp_path: Path) -> None:
    t = Tui(["sh", "-c", 'sleep 0.3; exec "$@"', "sh", *SITTING], cwd=tmp_path, env={})
    with t:
        t.send("early\n").wait_for("typed before: 6").wait_for("early")


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
def test_resizing_loses_and_doubles_nothing(sit: Any, reflows: bool) -> None:
    t = sit(columns=100, rows=20, reflows=reflows)
    t.wait_for("below the composer")
    t.send("\r" * 30).until(lambda: t.scrollback.count("said") == 30, "thirty lines")
    for size in ((20, 5), (60, 12), (20, 5), (100, 20), (15, 4), (120, 30)):
        t.resize(*size).idle(0.12)
    t.type("draft").wait_for("> draft")
    assert t.scrollback.count("said") == 30
    assert t.scrollback.count("> draft") == 1 and t.scrollback.count("typed before") == 1
    t.key("q")
    assert t.wait_exit() == 0
    t.assert_sane()


# ---- a slow terminal -----------------------------------------------------------------------------


class Stuck:
    """A terminal that nobody reads."""

    def __init__(self) -> None:
        self.outer, self.inner = os.openpty()
        self.before = termios.tcgetattr(self.inner)
        self.terminal = Terminal({}, read_from=self.inner, write_to=self.inner)
        self.terminal.enter()

    def read(self) -> bytes:
        return os.read(self.outer, 1 << 16)

    def close(self) -> None:
        self.terminal.leave()
        os.close(self.outer)
        os.close(self.inner)


async def test_what_a_slow_terminal_does_not_take_waits_and_keeps_its_order() -> None:
    stuck = Stuck()
    drained: list[bool] = []
    stuck.terminal.on_drained = lambda: drained.append(True)
    data = b"".join(b"%06d\n" % number for number in range(100_000))
    stuck.terminal.write(data)
    assert stuck.terminal.is_behind and not drained
    stuck.terminal.write(b"the end")
    got = b""
    while not got.endswith(b"the end"):
        got += await asyncio.to_thread(stuck.read)
    await asyncio.sleep(0)
    while stuck.terminal.is_behind:
        await asyncio.sleep(0.01)
    assert got.endswith(data + b"the end") and drained == [True]
    assert os.get_blocking(stuck.inner), "the shell's descriptor is as it was"
    stuck.close()


async def test_a_terminal_that_takes_nothing_can_be_left() -> None:
    stuck = Stuck()
    stuck.terminal.write(b"x" * 1_000_000)
    assert stuck.terminal.is_behind
    stuck.terminal.leave()
    assert termios.tcgetattr(stuck.inner) == stuck.before and not stuck.terminal.is_behind
    stuck.close()


# ---- messages ------------------------------------------------------------------------------------

HOSTILE = "done\x1b]52;c;aGk=\x07\x9b2J\r\n\x00‮ now " + "x" * 300


def test_messages_carry_no_control_characters() -> None:
    for made in (title(HOSTILE), notification(HOSTILE, "osc9", {}), notification(HOSTILE, "auto", {"TERM": "foot"})):
        body = made[2:-1]
        assert made.startswith("\x1b]") and made.endswith("\x07")
        assert body.isprintable() and "done" in body
    assert len(notification(HOSTILE, "osc9", {})) <= 80 + len("\x1b]9;\x07")


def test_a_notification_is_sent_the_way_the_terminal_knows() -> None:
    assert notification("hi", "bel", {"TERM_PROGRAM": "ghostty"}) == "\x07"
    assert notification("hi", "osc9", {}) == "\x1b]9;hi\x07"
    assert notification("4;1;50", "osc9", {}) == "\x1b]9; 4;1;50\x07", "not a progress bar"
    assert notification("hi", "auto", {"TERM": "xterm-256color"}) == "\x07"
    assert notification("hi", "auto", {"KITTY_WINDOW_ID": "1"}) == "\x1b]9;hi\x07"
    assert notification("a;b", "auto", {"VTE_VERSION": "7200"}) == "\x1b]777;notify;Spindle;a,b\x07"
    assert notification("hi", "osc9", {"TMUX": "/tmp/x"}) == "\x1bPtmux;\x1b\x1b]9;hi\x07\x1b\\"
    assert clipboard("hi", {}) == "\x1b]52;c;aGk=\x07"
