"""What calls give is recorded when it is known, in whatever order that happens, and told in the order of the calls."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.context.visible import VisibleFold
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import assistant_message, developer_message, user_message
from spindle.protocol.request import VisibleItem
from spindle.thread.history import History
from spindle.thread.reading import read_rollout
from spindle.thread.rollout import RolloutWriter

THREAD = "019f0000-0000-7000-8000-0000000000aa"
META = {"id": THREAD, "timestamp": "", "cwd": "/w", "originator": "x", "cli_version": "1"}


def call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": name}


def output(name: str, text: str = "") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": text or f"out {name}"}


class Thread:
    """A history with a file, and what was read of that file."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/rollout-2026-11-15T10-00-00-{THREAD}.jsonl"
        self.history = History(RolloutWriter(self.path, FixedClock()))
        self.history.append_meta(META)
        self.history.append_item(user_message("go"))

    def read(self) -> History:
        return History.replay(read_rollout(self.path))

    def close(self) -> None:
        self.history.close()
        self.folder.cleanup()


def names(history: History) -> list[str]:
    return [item.get("call_id") or item["content"][0]["text"] for item in (entry.item for entry in history.entries)]


def wire(history: History) -> list[VisibleItem]:
    return VisibleFold().update(history.entries, history.generation)


@st.composite
def responses(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """The steps of one response: an item that arrives, or an output with what it brings along, in any possible order.

    Ids come back in later responses, as with servers that count from one each time.
    """
    steps: list[list[dict[str, Any]]] = []
    waiting: list[str] = []
    for number in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            steps.append([assistant_message(f"said {number}")])
        steps.append([call(f"c{number}")])
        waiting.append(f"c{number}")
        while waiting and draw(st.booleans()):
            name = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            steps.append([output(name), *([developer_message(f"with {name}")] if draw(st.booleans()) else [])])
    for name in draw(st.permutations(waiting)):
        steps.append([output(name)])
    if draw(st.booleans()):
        steps.insert(len(steps) - draw(st.integers(0, 1)), [assistant_message("last words")])
    return steps


def expected(steps: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The order of old: all that the model said, the outputs in the order of the calls, what they brought along."""
    said = [step[0] for step in steps if step[0]["type"] != "function_call_output"]
    given = sorted((step for step in steps if step[0]["type"] == "function_call_output"), key=lambda s: s[0]["call_id"])
    return said + [step[0] for step in given] + [extra for step in given for extra in step[1:]]


def append(history: History, step: list[dict[str, Any]]) -> None:
    if step[0]["type"] == "function_call_output":
        history.append_result(step[0], step[1:])
    else:
        history.append_item(step[0])


@settings(deadline=None)
@given(st.lists(responses(), min_size=1, max_size=3))
def test_in_whatever_order_calls_end_the_thread_is_told_as_if_they_had_ended_in_their_order(
    thread: list[list[list[dict[str, Any]]]],
) -> None:
    live = Thread()
    told = [user_message("go")]
    former: list[VisibleItem] = []
    fold = VisibleFold()
    for number, steps in enumerate(thread):
        for step in steps:
            append(live.history, step)
        live.history.settle_calls()
        live.history.append_bookmark(f"r{number}")
        told += expected(steps)
        assert [entry.item for entry in live.history.entries] == told
        read = live.read()
        assert [entry.raw for entry in read.entries] == [entry.raw for entry in live.history.entries]
        assert [record.raw for record in read.records] == [record.raw for record in live.history.records]
        sent = fold.update(live.history.entries, live.history.generation)
        assert sent[: len(former)] == former and wire(read) == sent
        former = sent
    live.close()


@given(responses())
def test_whatever_was_given_is_in_the_file_at_once_and_told_when_the_program_is_killed_then(
    steps: list[list[dict[str, Any]]],
) -> None:
    live = Thread()
    known: list[dict[str, Any]] = []
    for step in steps:
        append(live.history, step)
        known += step
        read = live.read()
        assert [entry.item for entry in read.entries] == [user_message("go"), *known]
        told = VisibleFold().update(read.entries, read.generation)
        given = [item["output"].encode() for item in known if item["type"] == "function_call_output"]
        assert all(any(text in shown.raw for shown in told) for text in given)
    live.close()


def test_outputs_in_the_order_of_their_calls_leave_no_line_of_ours_in_the_file() -> None:
    live = Thread()
    for step in ([call("a")], [call("b")], [output("a")], [output("b")]):
        append(live.history, step)
    live.history.settle_calls()
    assert b"spindle_" not in Path(live.path).read_bytes()
    live.close()


def test_neighbouring_outputs_that_a_killed_program_left_are_told_in_the_order_of_their_calls() -> None:
    for order in itertools.permutations("abc"):
        live = Thread()
        for name in "abc":
            live.history.append_item(call(name))
        for name in order:
            live.history.append_result(output(name))
        told = VisibleFold().update(live.read().entries, 0)
        assert [shown.raw.count(b"out ") and shown.raw[-4:-2] for shown in told[4:]] == [b" a", b" b", b" c"]
        live.close()


def test_a_line_that_fits_nothing_moves_nothing() -> None:
    for payload in (b'{"first_call":"x","items":3}', b'{"first_call":"a","items":99}', b'{"items":"no"}', b"[]", b"3"):
        live = Thread()
        assert live.history.writer is not None
        for step in ([call("a")], [output("a")], [call("b")], [output("b")]):
            live.history.append_item(step[0])
        live.history.writer.append("spindle_outputs", payload)
        assert names(live.read()) == ["go", "a", "a", "b", "b"]
        live.close()


def test_an_id_that_comes_back_belongs_to_its_own_response() -> None:
    live = Thread()
    for text in ("first", "second"):
        append(live.history, [call("a")])
        append(live.history, [output("a", text)])
        append(live.history, [call("b")])
        append(live.history, [output("b", text)])
        live.history.settle_calls()
    outputs = [entry.item["output"] for entry in live.read().entries if "output" in entry.item]
    assert outputs == ["first", "first", "second", "second"]
    assert names(live.read()) == ["go", "a", "b", "a", "b", "a", "b", "a", "b"]
    live.close()
