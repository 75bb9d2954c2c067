"""A round of a long thread costs what a round of a short one does, and leaves nothing behind for later."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fake_server import FakeServer, call, message, turn
from sessions import Driver
from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.model.scripted import ScriptedModel
from spindle.protocol.items import user_message

Open = Callable[[str], Awaitable[Driver]]
ITEMS = 600
WIRES = ("responses", "chat", "messages")


@pytest.fixture
async def open_thread(
    tmp_path: Path, workspace: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """Opens threads whose model is at `server`, on any wire."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KEY", "key-0123456789")
    (tmp_path / "codex-home").mkdir()
    drivers: list[Driver] = []

    async def start(wire: str) -> Driver:
        table = {"name": wire, "wire_api": wire, "env_key": "KEY", "base_url": server.base_url}
        config = load_config(
            cwd=str(workspace),
            env={"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)},
            flags={"model": "gpt-5.2-codex", "approval_policy": "never", "sandbox_mode": "danger-full-access"},
            config={"model_provider": "p", "model_providers": {"p": table}},
        )
        session = await open_session(SessionRequest(config=config, originator="test", source="exec"))
        drivers.append(Driver(session, ScriptedModel()))
        return drivers[-1]

    yield start
    for driver in drivers:
        await driver.close()


class Rounds:
    """Turns of one thread, each with so many calls."""

    def __init__(self, driver: Driver, server: FakeServer) -> None:
        self._driver, self._server = driver, server
        self._calls = 0

    async def run(self, count: int) -> None:
        for _ in range(count):
            self._calls += 1
            self._server.script(turn(call("exec_command", {"cmd": "printf x"}, f"c{self._calls}")))
        self._server.script(turn(message("done")))
        await self._driver.end_of(self._driver.begin("go"))


def lengthen(driver: Driver) -> None:
    history = driver.session.thread.history
    history.append_item(user_message("Much was done before."))
    for number in range(ITEMS // 2):
        given = {"name": "exec_command", "arguments": '{"cmd":"true"}', "call_id": f"old{number}"}
        history.append_item({"type": "function_call", **given})
        history.append_item({"type": "function_call_output", "call_id": f"old{number}", "output": "x"})


async def lines_of(work: Awaitable[Any]) -> Counter[str]:
    """How often Python went on to another line of our own code, by function; each step of a loop is one."""
    counted: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        path = frame.f_code.co_filename
        if event == "line":
            counted[f"{path.rpartition('spindle/')[2]} {frame.f_code.co_qualname}"] += 1
        return trace if "spindle" in path else None

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        await work
    finally:
        sys.settrace(former)
    return counted


async def lines_of_rounds(rounds: Rounds) -> Counter[str]:
    """Those of four rounds: what else a turn does is in both of two turns."""
    short, long = await lines_of(rounds.run(1)), await lines_of(rounds.run(5))
    long.subtract(short)
    return long


@pytest.mark.parametrize("wire", WIRES)
async def test_a_round_costs_no_more_in_a_long_thread(wire: str, open_thread: Open, server: FakeServer) -> None:
    driver = await open_thread(wire)
    rounds = Rounds(driver, server)
    await rounds.run(2)
    short = await lines_of_rounds(rounds)
    lengthen(driver)
    await rounds.run(1)
    long = await lines_of_rounds(rounds)
    grown = {where: long[where] - short[where] for where in long if long[where] - short[where] > 4 * ITEMS // 2}
    assert not grown, "this looks at every item of the thread in every round"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_round_leaves_no_cycles(wire: str, open_thread: Open, server: FakeServer) -> None:
    """Collected seldom, they would be most of what a long session holds."""
    rounds = Rounds(await open_thread(wire), server)
    await rounds.run(2)
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await rounds.run(8)
        gc.collect()
        left = Counter(type(one).__qualname__ for one in gc.garbage if "spindle" in type(one).__module__)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if was_on:
            gc.enable()
    assert not {name: count for name, count in left.items() if count >= 8}
