"""A thread that rests: nothing of it changes, whatever it went through, and nobody can tell from what is sent."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fake_server import FakeServer
from pieces import whole
from sessions import Driver, Start, of
from spindle.core.resting import HoldsPast, is_resting, resting
from spindle.model.body import GrowingBody
from spindle.model.scripted import calls, patches, says, thinks
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import TERMINAL, ContextCompacted, ContextEdited, TaskStarted, ThreadRolledBack
from spindle.protocol.ops import Compact, Pin, ThreadRollback, Undo, UserTurn
from spindle.protocol.undo import UndoCompleted
from spindle.thread.entry import Entry, Record
from turn.test_context_policy import config as context_policy
from turn.test_providers import WIRES, Open, ask, open_thread, working  # noqa: F401  the last is a fixture

PICTURE = {"type": "image", "image_url": "data:image/png;base64,iVBORw0KGgo="}


def nobody() -> None:
    """Nobody wants to know that it was woken."""


def rests(driver: Driver) -> None:
    assert whole(resting(driver.session, nobody))
    assert is_resting(driver.session.thread.history)


async def rolled_back(driver: Driver, num_turns: int) -> None:
    await driver.until(ThreadRolledBack, sub_id=driver.submit(ThreadRollback(num_turns=num_turns)))


async def rich(driver: Driver, *, is_resting_between: bool) -> None:
    """A thread with everything: calls, patches, a plan, a picture, edits, a compaction, a rollback, a bookmark."""

    def between() -> None:
        if is_resting_between:
            rests(driver)

    await driver.turn("first", thinks("hm"), calls("exec_command", {"cmd": "echo one"}, "c1"), says("done"))
    between()
    plan = {"plan": [{"step": "look", "status": "in_progress"}]}
    await driver.turn("second", calls("update_plan", plan, "c2"), says("planned"))
    between()
    driver.model.script(says("a dot"))
    shown = [{"type": "text", "text": "what is it?"}, PICTURE]
    await driver.end_of(driver.submit(UserTurn(items=shown)))
    between()
    runs = [calls("exec_command", {"cmd": "seq 1 2000"}, f"r{number}") for number in range(6)]
    edited = await driver.turn("third", *runs, says("counted"))
    assert of(edited, ContextEdited)
    between()
    driver.submit(Pin(text="the answer is 42"))
    await driver.session.settle()
    between()
    driver.model.script(says("what was done so far"))
    compacted = await driver.end_of(driver.submit(Compact()))
    assert of(compacted, ContextCompacted)
    between()
    await driver.turn("fourth", patches("*** Begin Patch\n*** Add File: f.txt\n+x\n*** End Patch\n", "p1"), says("ok"))
    between()
    await driver.turn("fifth", says("to be forgotten"))
    between()
    await rolled_back(driver, 1)
    between()
    await driver.turn("sixth", says("the end"))


def past_of(holders: list[HoldsPast]) -> list[dict[str, Any]]:
    return [{name: vars(holder)[name] for name in holder.PAST} for holder in holders]


class Compared:
    """Two webs of objects: equal in every part, and what is one object in one of them is one in the other."""

    def __init__(self) -> None:
        self._pairs: dict[int, Any] = {}
        self._kept: list[Any] = []

    def same(self, left: Any, right: Any) -> None:
        assert type(left) is type(right)
        is_everywhere = isinstance(left, bytes) and len(left) < 2  # the interpreter has only one of each
        if not is_everywhere and isinstance(left, bytes | bytearray | dict | list | set | Entry | Record):
            assert self._pairs.setdefault(id(left), right) is right
            self._kept.append(left)
        if isinstance(left, GrowingBody):
            self._bodies(left, right)
        elif isinstance(left, dict):
            assert list(left) == list(right)
            self._all(left.values(), right.values())
        elif isinstance(left, list | tuple):
            self._all(left, right)
        elif isinstance(left, msgspec.Struct):
            names = left.__struct_fields__
            self._all([getattr(left, name) for name in names], [getattr(right, name) for name in names])
        elif hasattr(left, "__dict__"):
            self.same(vars(left), vars(right))
        elif type(left).__module__.startswith("spindle."):
            names = vars(type(left))["__slots__"]
            self._all([getattr(left, name) for name in names], [getattr(right, name) for name in names])
        else:
            assert left == right

    def _all(self, left: Any, right: Any) -> None:
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            self.same(one, other)

    def _bodies(self, left: GrowingBody, right: GrowingBody) -> None:
        """What stands behind the items is written anew for each request."""
        mine, other = dict(vars(left)), dict(vars(right))
        for state in (mine, other):
            del state["growth"]
            state["_buffer"] = bytes(state["_buffer"][: state["_items_end"]])
        self.same(mine, other)


def without_times(raw: bytes) -> bytes:
    """How long a command took differs from run to run."""
    return re.sub(rb"Wall time: [0-9.]+|Chunk ID: [0-9a-f]+", b"", raw)


async def test_what_is_unpacked_is_what_was_packed(start: Start) -> None:
    driver = await start(config=context_policy("edit"))
    await rich(driver, is_resting_between=False)
    history = driver.session.thread.history
    history.records = whole(history.records.packing())  # a thread that rests does that first, and has other lines then
    holders = driver.session.thread.holders_of_past()
    before = past_of(holders)
    classes = [type(holder) for holder in holders]
    rests(driver)
    assert [set(holder.PAST) & set(vars(holder)) for holder in holders] == [set()] * len(holders)
    assert driver.session.thread.history.entries  # which wakes all of it
    assert [type(holder) for holder in holders] == classes
    after = past_of(holders)
    Compared().same(before, after)
    assert len(history.records) > 40 and history.compaction_count == 1 and history._bookmarks


async def test_a_thread_that_rests_after_every_op_asks_with_the_same_bytes(
    start: Start, workspace: Path, tmp_path: Path
) -> None:
    asked: list[list[bytes]] = []
    recorded: list[list[str]] = []
    for rest_between in (False, True):
        driver = await start(config=context_policy("edit"), clock=FixedClock())
        await rich(driver, is_resting_between=rest_between)
        asked.append([without_times(request.raw.encode()) for request in driver.model.requests])
        recorded.append([record.kind for record in driver.session.thread.history.records])
        await driver.session.aclose()
        (workspace / "f.txt").unlink()
        for left in ("sessions", "spindle"):  # the other thread has the same id
            shutil.rmtree(tmp_path / "codex-home" / left)
    assert len(asked[0]) > 12 and asked[0] == asked[1]
    assert recorded[0] == recorded[1]


@pytest.mark.parametrize("wire", WIRES)
async def test_every_wire_goes_on_after_a_rest_as_if_there_had_been_none(
    wire: str,
    open_thread: Open,  # noqa: F811  the fixture
    server: FakeServer,
    workspace: Path,
) -> None:
    bodies: list[list[bytes]] = []
    for rest_between in (False, True):
        driver = await open_thread(wire, clock=FixedClock(), ephemeral=True)
        begin = len(server.requests)
        for number in range(3):
            await ask(driver, server, f"turn {number}", *working(wire, number))
            if rest_between:
                rests(driver)
        bodies.append([without_times(request.body) for request in server.requests[begin:]])
        for file in workspace.glob("f*.txt"):
            file.unlink()
    assert len(bodies[0]) == 6 and bodies[0] == bodies[1]


async def test_a_thread_does_not_rest_while_something_goes_on_in_it(start: Start) -> None:
    driver = await start(says("hello", delay_s=0.2))
    driver.begin("hi")
    assert whole(resting(driver.session, nobody)) is None  # the op waits
    await driver.until(TaskStarted)
    assert whole(resting(driver.session, nobody)) is None  # the turn runs
    await driver.until(*TERMINAL)
    await driver.session.settle()
    rests(driver)


async def test_an_unused_thread_has_nothing_to_pack(start: Start) -> None:
    driver = await start()
    assert whole(resting(driver.session, nobody)) == 0
    assert not is_resting(driver.session.thread.history)


async def test_who_looks_at_a_resting_thread_is_told_of_once(start: Start) -> None:
    driver = await start(says("hello"))
    await driver.turn("hi")
    woken: list[str] = []
    assert whole(resting(driver.session, lambda: woken.append("woken")))
    assert driver.session.thread.history.name is None and driver.session.thread.total_usage.total_tokens
    assert woken == [] and is_resting(driver.session.thread.history)
    assert driver.session.thread.cache.ledger.entries and driver.session.thread.history.entries
    assert woken == ["woken"]


async def test_what_is_set_in_a_resting_thread_stays_set(start: Start) -> None:
    driver = await start(says("hello"))
    await driver.turn("hi")
    history = driver.session.thread.history
    entries = list(history.entries)
    rests(driver)
    history.entries = []
    assert len(history.records) > len(entries) > 0 and history.entries == []


async def test_a_resting_thread_is_closed_without_being_woken(start: Start) -> None:
    driver = await start(says("hello"))
    await driver.turn("hi")
    rests(driver)
    await driver.close()
    assert is_resting(driver.session.thread.history)


async def test_a_resting_thread_can_be_undone_rolled_back_and_compacted(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("one", says("1"))
    await driver.turn("two", patches("*** Begin Patch\n*** Add File: f.txt\n+x\n*** End Patch\n", "p1"), says("2"))
    rests(driver)
    undone = await driver.until(UndoCompleted, sub_id=driver.submit(Undo()))
    assert undone.success and not (workspace / "f.txt").exists()
    await driver.turn("three", says("3"))
    rests(driver)
    await rolled_back(driver, 1)
    rests(driver)
    await driver.turn("four", says("4"))
    said = [item["content"][0]["text"] for item in driver.inputs[-1] if item.get("role") == "user"]
    assert [text for text in said if text in ("one", "two", "three", "four")] == ["one", "four"]
    rests(driver)
    driver.model.script(says("in short"))
    assert of(await driver.end_of(driver.submit(Compact())), ContextCompacted)
