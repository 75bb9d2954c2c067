"""JSON-RPC 2.0 in both directions over stdin and stdout, for front ends whose client may be asked too.

    code = await serve_stdio("acp", lambda peer: Agent(peer, …))

Their requests are answered each in a task of its own; requests of ours are awaited; notifications wait while the client
is behind, so a client that does not read holds up only what is told to it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from spindle.errors import SpindleError, reason_of
from spindle.frontends import json_rpc
from spindle.frontends.json_rpc import BadFrame, Notification, Request, RequestId, Response, RpcError
from spindle.frontends.signals import Signals
from spindle.frontends.standard_streams import LAST_WRITE_S
from spindle.frontends.stdio import Complaints, Lines, LineTooLong, write_all

MAX_REQUESTS = 256
"""Requests of the client that are being answered at a time; more are refused."""
MAX_UNREAD = 64 << 20
"""With this many bytes unread, the client is given up."""
_ENOUGH_UNREAD = 1 << 20
"""With this many bytes unread, notifications wait."""
CLOSING_S = 1.2
"""How long the handler may take to end everything; what then still runs is killed."""

NO_REPLY = object()
"""The result of a request that is not answered, because the client has cancelled it."""

Write = Callable[[bytes], Awaitable[None]]


class PeerGone(SpindleError):
    """The client has gone: nobody answers."""


class Handler(Protocol):
    """What a front end does with what the client says."""

    async def answer(self, request: Request) -> Any:
        """The result of a request. Raises RpcError, or any SpindleError for a sentence."""
        ...

    def hear(self, note: Notification) -> None:
        """A notification. Never waits."""
        ...

    async def close(self) -> None:
        """The client has said its last: end everything, and record it."""
        ...

    def kill(self) -> None:
        """The same without waiting for anything."""
        ...


class RpcPeer:
    """The client at the other end."""

    def __init__(self, name: str, write: Write) -> None:
        self.handler: Handler
        self._write = write
        self._complaints = Complaints(name)
        self._count = 0
        self._asked: dict[RequestId, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._waiting: deque[bytes] = deque()
        self._unread = 0
        self._filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_closing = False
        self.overrun = asyncio.Event()
        """The client left too much unread."""

    # ---- in ------------------------------------------------------------------------------------

    async def receive(self, line: bytes) -> None:
        """Deal with one line. Whatever is to be done at once for a request is done when this returns."""
        if not line.strip():
            return
        try:
            message = json_rpc.read_frame(line)
        except BadFrame as error:
            self.complain(str(error))
            if error.id is not None:  # whoever waits for an answer to it shall not wait for ever
                self._refuse(error.id, RpcError(str(error), error.code))
            return
        match message:
            case Response():
                self._answered(message)
            case Notification():
                try:
                    self.handler.hear(message)
                except RpcError as error:
                    self.complain(f"{message.method}: {error}")
                except Exception as error:  # our bug: the notification is lost, the server lives on
                    self.complain(f"{message.method}: internal error: {type(error).__name__}: {error}")
            case Request(id=request_id) if len(self._answering) >= MAX_REQUESTS:
                self._refuse(request_id, RpcError("too many requests at a time; retry later", json_rpc.OVERLOADED))
            case Request():
                task = asyncio.ensure_future(self._answer(message))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
                await asyncio.sleep(0)  # it begins before what the client says next

    def complain(self, text: str) -> None:
        """Say on stderr what is wrong with what the client sends, or with us."""
        self._complaints.say(text)

    async def _answer(self, request: Request) -> None:
        try:
            result = await self.handler.answer(request)
            if result is not NO_REPLY:
                self._put({"jsonrpc": "2.0", "id": request.id, "result": result})
        except RpcError as error:
            self._refuse(request.id, error)
        except (SpindleError, OSError) as error:
            self._refuse(request.id, RpcError(reason_of(error), json_rpc.INTERNAL_ERROR))
        except Exception as error:  # our bug: the request fails, the server lives on
            text = f"internal error: {type(error).__name__}: {error}"
            self._refuse(request.id, RpcError(text, json_rpc.INTERNAL_ERROR))

    def _refuse(self, request_id: RequestId | float, error: RpcError) -> None:
        shown: dict[str, Any] = {"code": error.code, "message": str(error)}
        if error.data is not None:
            shown["data"] = error.data
        self._put({"jsonrpc": "2.0", "id": request_id, "error": shown})

    def _answered(self, response: Response) -> None:
        """A second answer, or one to nothing, has no effect."""
        asked = self._asked.pop(response.id, None)
        if asked is None or asked.done():
            return
        if response.error is None:
            asked.set_result(response.result)
            return
        said = response.error if isinstance(response.error, dict) else {}
        code, message = said.get("code"), said.get("message")
        text = message if isinstance(message, str) and message else "the client answered with an error"
        asked.set_exception(RpcError(text, code if isinstance(code, int) else json_rpc.INTERNAL_ERROR))

    # ---- out -----------------------------------------------------------------------------------

    async def request(self, method: str, params: Any, on_sent: Callable[[int], None] = lambda number: None) -> Any:
        """Ask the client. Raises RpcError when it answers with an error, PeerGone when it has gone."""
        if self._is_closing:
            raise PeerGone("the client has gone")
        number, self._count = self._count, self._count + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._put({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            on_sent(number)
            return await answer
        finally:
            self._asked.pop(number, None)

    def say(self, method: str, params: Any) -> None:
        """A notification that never waits; for what is rare and small."""
        self._put({"jsonrpc": "2.0", "method": method, "params": params})

    async def tell(self, method: str, params: Any) -> None:
        """A notification; waits while the client is behind."""
        await self._has_room.wait()
        self.say(method, params)

    def _put(self, message: dict[str, Any]) -> None:
        if self._is_closing:
            return
        line = json_rpc.frame(message)
        self._waiting.append(line)
        self._unread += len(line)
        if self._unread > _ENOUGH_UNREAD:
            self._has_room.clear()
        if self._unread > MAX_UNREAD:
            self.overrun.set()
        self._filled.set()

    async def run(self) -> None:
        """Write until closed, or until nobody reads any more."""
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._waiting:
                    lines = b"".join(self._waiting)
                    self._waiting.clear()
                    await self._write(lines)
                    self._unread -= len(lines)
                    if self._unread <= _ENOUGH_UNREAD:
                        self._has_room.set()
                if self._is_closing:
                    return
        except BrokenPipeError:
            return
        except OSError as error:
            raise SpindleError(f"stdout cannot be written: {error.strerror}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Nothing more is said; `run` ends when everything is written. Whoever waits for an answer gets none."""
        self._is_closing = True
        self._filled.set()
        self._has_room.set()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(PeerGone("the client has gone"))

    async def give_up(self) -> None:
        """What is still being answered is not answered any more."""
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)


async def serve_stdio(name: str, make: Callable[[RpcPeer], Handler]) -> int:
    """Serve the one client at stdin and stdout until the end of its input, or a signal. Gives the exit code."""
    loop = asyncio.get_running_loop()

    async def write(lines: bytes) -> None:
        await loop.run_in_executor(None, write_all, lines)

    peer = RpcPeer(name, write)
    peer.handler = handler = make(peer)
    writer = asyncio.ensure_future(peer.run())
    reader = asyncio.ensure_future(_read(peer))
    overrun = asyncio.ensure_future(peer.overrun.wait())
    signals = Signals(reader.cancel)
    # Without a reader at the other end there is nothing left to work for.
    await asyncio.wait([reader, writer, overrun], return_when=asyncio.FIRST_COMPLETED)
    reader.cancel()
    await _close(handler)
    await peer.give_up()
    peer.close()
    await asyncio.wait([writer], timeout=LAST_WRITE_S / 2)
    code = 0 if signals.caught is None else 128 + signals.caught
    if overrun.done():
        peer.complain(f"the client left {MAX_UNREAD >> 20} MiB unread; nothing more is said to it")
        code = code or 1
    failure = _failure_of(reader) or _failure_of(writer)
    if failure is not None:
        raise failure
    if not writer.done():
        os._exit(code)  # a thread waits for a reader that does not read
    overrun.cancel()
    return code


async def _close(handler: Handler) -> None:
    closing = asyncio.ensure_future(handler.close())
    await asyncio.wait([closing], timeout=CLOSING_S)
    if not closing.done():
        handler.kill()
        closing.cancel()
        await asyncio.wait([closing], timeout=CLOSING_S / 4)


def _failure_of(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


async def _read(peer: RpcPeer) -> None:
    """Deal with every line of stdin. Returns at the end of input."""
    lines = Lines()
    while True:
        try:
            line = await lines.next()
        except LineTooLong as error:
            peer.complain(str(error))
            continue
        except OSError as error:
            raise SpindleError(f"stdin cannot be read: {error.strerror}") from error
        if not line:
            return
        await peer.receive(line)
