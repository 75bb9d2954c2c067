"""Who is let in by `proto --listen`, and who is dropped: the parts that would take long through the command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from spindle.frontends.proto import listening
from spindle.frontends.proto.listening import Backlog, Door
from spindle.frontends.socket_lines import SocketPeer
from spindle.frontends.sockets import Listener, address_of, serve
from spindle.protocol.events import AgentMessage, AgentMessageContentDelta, Event


class Peer:
    """A client that says nothing and does not read."""

    def __init__(self) -> None:
        self.is_stalled = True
        self.is_over = asyncio.Event()
        self.unsent = 0
        self.written: list[bytes] = []
        self.hung_up = False

    async def next(self, max_bytes: int = 0) -> bytes:
        if not self.hung_up:
            await self.is_over.wait()
        return b""

    async def write(self, data: bytes) -> None:
        self.written.append(data)

    async def turn_away(self, line: bytes) -> None:
        self.written.append(line)

    async def close(self) -> None:
        pass

    def hang_up(self) -> None:
        self.hung_up = True
        self.is_over.set()


def no_engine() -> Any:
    raise AssertionError("an engine was opened")


async def test_whoever_does_not_say_the_token_in_time_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_TOKEN_S", 0.01)
    peer: Any = Peer()
    await Door(no_engine, "a token", 1).converse(peer)
    assert peer.written == [b'{"id":"","msg":{"type":"error","message":"unauthorized"}}\n']


async def test_those_who_only_wait_at_the_door_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_MAX_WAITING", 2)
    door = Door(no_engine, "a token", 1)
    peers: list[Any] = [Peer() for _ in range(3)]
    talks = [asyncio.ensure_future(door.converse(peer)) for peer in peers]
    await talks[0]
    assert [peer.hung_up for peer in peers] == [True, False, False]
    for peer in peers:
        peer.hang_up()
    await asyncio.gather(*talks)


async def test_a_client_that_leaves_too_much_unread_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_BACKLOG_BYTES", 10_000)
    peer: Any = Peer()
    backlog = Backlog(peer)
    for _ in range(9):
        backlog.push(Event("t", AgentMessage(message="x" * 1000)))
    assert not peer.is_over.is_set()
    assert len(backlog.take_ready()) == 9
    for _ in range(9):
        backlog.push(Event("t", AgentMessageContentDelta(thread_id="", turn_id="t", item_id="i", delta="x" * 1000)))
    assert not peer.is_over.is_set()
    peer.unsent = 2000
    backlog.push(Event("t", AgentMessage(message="x")))
    assert peer.is_over.is_set() and backlog.is_too_long


async def test_many_who_come_at_once_with_the_token_are_all_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_MAX_WAITING", 2)

    class Knower(Peer):
        async def next(self, max_bytes: int = 0) -> bytes:
            await asyncio.sleep(0)  # the line is there, and is read when the loop gets to it
            return b"" if self.hung_up else b'{"token":"a token"}\n'

    peers: list[Any] = [Knower() for _ in range(9)]
    door = Door(no_engine, "a token", 0)
    await asyncio.gather(*(door.converse(peer) for peer in peers))
    assert [b"busy" in peer.written[0] for peer in peers] == [True] * 9


async def test_a_client_that_goes_on_talking_when_it_is_hung_up_on_breaks_nothing(tmp_path: Path) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    ended, met = asyncio.Event(), asyncio.Event()

    async def converse(peer: SocketPeer) -> None:
        await peer.next()
        met.set()
        await peer.is_over.wait()
        client[1].write(b"and more\n" * 9)
        await client[1].drain()
        assert await peer.next() == b""
        await asyncio.sleep(0.01)  # what it says now arrives, and nobody takes it

    listener = Listener(address_of(f"unix://{tmp_path}/s", may_be_remote=False, schemes=("unix",)))
    server = asyncio.ensure_future(serve(listener, converse, ended))
    client = await asyncio.open_unix_connection(f"{tmp_path}/s")
    client[1].write(b"hello\n")
    await met.wait()
    ended.set()
    await server
    client[1].close()
    assert complaints == []
