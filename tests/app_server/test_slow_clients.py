"""A client that does not read costs only itself: others hear everything, memory is bounded, the end comes at once."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from app_server.client import WAIT_S
from app_server.test_websocket import Client, Listening, listening
from fake_server import FakeServer, message, turn
from spindle.core.stream import BEHIND
from spindle.frontends.app_server.notifications import AgentMessageDelta, ReasoningSummaryTextDelta, ThreadClosed
from spindle.frontends.app_server.outbox import MAX_UNREAD_ANSWERS, MAX_WAITING, Outbox

__all__ = ["listening"]


def delta(text: str, item: str = "m") -> AgentMessageDelta:
    return AgentMessageDelta(thread_id="t", turn_id="u", item_id=item, delta=text)


class Reader:
    """A client that reads when it is told to."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.reads = asyncio.Event()
        self.outbox = Outbox(self._write)

    async def _write(self, lines: list[bytes]) -> None:
        await self.reads.wait()
        self.lines += map(json.loads, lines)

    async def finish(self) -> list[Any]:
        self.reads.set()
        self.outbox.close()
        await self.outbox.run()
        return self.lines

    def deltas(self) -> list[str]:
        return [line["params"]["delta"] for line in self.lines if "delta" in line["params"]]


async def test_a_client_that_reads_gets_every_piece_of_a_burst() -> None:
    reader = Reader()
    reader.reads.set()
    running = asyncio.ensure_future(reader.outbox.run())
    await asyncio.sleep(0)
    for n in range(1000):
        reader.outbox.tell(delta(str(n)), 0)
    await reader.finish()
    await running
    assert reader.deltas() == [str(n) for n in range(1000)]


async def test_for_a_client_that_is_behind_pieces_of_one_item_are_merged() -> None:
    reader = Reader()
    for _ in range(BEHIND):
        reader.outbox.tell(ThreadClosed(thread_id="t"), 0)
    await asyncio.sleep(0)
    section = ReasoningSummaryTextDelta(thread_id="t", turn_id="u", item_id="r", delta="s", summary_index=0)
    for note in (delta("a"), delta("b"), delta("c", "n"), ThreadClosed(thread_id="t"), delta("d"), section, section):
        reader.outbox.tell(note, 0)
    await reader.finish()
    assert reader.deltas() == ["ab", "c", "d", "ss"]


async def test_a_client_that_leaves_too_much_unread_is_given_up_and_costs_nothing_more() -> None:
    for note in (delta("x" * 100_000), ThreadClosed(thread_id="t")):
        reader = Reader()
        for _ in range(MAX_WAITING + 1):
            reader.outbox.tell(note, 0)
        assert "were left unread" in reader.outbox.overrun.result()
        reader.outbox.tell(note, 0)
        assert await reader.finish() == []


async def test_no_requests_are_read_while_too_many_answers_are_unread() -> None:
    reader = Reader()
    reader.outbox.answer(b'"%s"' % (b"x" * MAX_UNREAD_ANSWERS))
    room = asyncio.ensure_future(reader.outbox.room())
    await asyncio.sleep(0)
    assert not room.done()
    running = asyncio.ensure_future(reader.outbox.run())
    reader.reads.set()
    await room
    reader.outbox.close()
    await running


def memory_mb(process: subprocess.Popen[Any]) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


@pytest.fixture
def pair(listening: Listening) -> Iterator[tuple[Client, Client, str, subprocess.Popen[str]]]:
    """Two clients of one thread. As long as nothing is asked of the second, it reads nothing."""
    url, token, process = listening
    with ExitStack() as until:
        first, second = Client(url, token, until), Client(url, token, until)
        thread_id = first.result("thread/start", {})["thread"]["id"]
        second.result("thread/resume", {"threadId": thread_id})
        yield first, second, thread_id, process
        process.kill()


def run_turn(client: Client, thread_id: str) -> str:
    """Run a turn and give all text that streamed."""
    client.result("turn/start", {"threadId": thread_id, "input": [{"type": "text", "text": "go"}]})
    pieces: list[str] = []
    while (said := json.loads(client.ws.recv(WAIT_S))).get("method") != "turn/completed":
        if said.get("method") == "item/agentMessage/delta":
            pieces.append(said["params"]["delta"])
    return "".join(pieces)


Pair = tuple[Client, Client, str, subprocess.Popen[str]]


def test_others_hear_everything_the_slow_one_hears_it_later_and_the_server_ends_at_once(
    pair: Pair, server: FakeServer
) -> None:
    first, second, thread_id, process = pair
    text = "".join(f"{n} " for n in range(200_000))
    server.script(turn(message(text, deltas=5000)), turn(message(text, deltas=5000)))
    before = memory_mb(process)
    assert run_turn(first, thread_id) == text
    assert run_turn(first, thread_id) == text
    assert memory_mb(process) < before + 60
    late: list[str] = []
    while (said := json.loads(second.ws.recv(WAIT_S))).get("method") != "turn/completed":
        if said.get("method") == "item/agentMessage/delta":
            late.append(said["params"]["delta"])
    assert "".join(late) == text
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 128 + signal.SIGTERM


def test_one_that_leaves_too_much_unread_is_dropped_with_a_reason_and_can_read_again(
    pair: Pair, listening: Listening, server: FakeServer
) -> None:
    first, second, thread_id, _ = pair
    text = "x" * (8 << 20)
    server.script(*[turn(message(text, deltas=64))] * 2, turn(message("small")))
    assert run_turn(first, thread_id) == text
    assert run_turn(first, thread_id) == text
    assert run_turn(first, thread_id) == "small"
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            second.ws.recv(WAIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    assert re.fullmatch(r"\d+ messages \(\d+ MiB\) were left unread; reconnect .*", closed.value.rcvd.reason)
    with ExitStack() as until:
        again = Client(listening[0], listening[1], until)
        thread = again.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]
        assert len(thread["turns"]) == 3
        again.result("thread/resume", {"threadId": thread_id, "excludeTurns": True})


def test_a_client_that_is_stuck_does_not_hold_up_the_end(pair: Pair, server: FakeServer) -> None:
    first, _, thread_id, process = pair
    server.script(turn(message("x" * (4 << 20), deltas=64)))
    run_turn(first, thread_id)
    process.send_signal(signal.SIGTERM)
    assert process.wait(6) == 128 + signal.SIGTERM
