"""JSON-RPC over a channel: questions get answers, in time or not at all; what the server asks is answered too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from spindle.errors import McpError
from spindle.mcp.channel import Channel, Message
from spindle.protocol.quote import readable

VERSION = "2025-06-18"
KNOWN_VERSIONS = ("2024-11-05", "2025-03-26", VERSION, "2025-11-25")
_NO_METHOD = -32601
_INTERNAL = -32603
_REASON_CHARS = 2000
_SEND_S = 5.0
_LOSS_S = 1.0
_MAX_OPEN_REQUESTS = 32
"""How many questions of its own a server may have open."""

Answerer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Method and parameters of the server's request → result; None when there is no such method here."""


OnProgress = Callable[[str], None]
"""Is told what a server says about how far it is."""


class McpRefusal(McpError):
    """The server answered, with an error."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """One conversation with a server, from `open` to `aclose`."""

    def __init__(self, channel: Channel, *, answer: Answerer, hear: Callable[[str, dict[str, Any]], None]) -> None:
        self._channel = channel
        self._answer = answer
        self._hear = hear
        """Is told every notification."""
        self._count = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._progress: dict[int, OnProgress] = {}
        """Who hears how far a request is."""
        self._answering: dict[asyncio.Task[None], Any] = {}
        """The server's own requests that are being answered, with their ids."""
        self._asking = 0
        self.lost: str | None = None
        """Why there is no server any more."""

    async def open(self) -> None:
        await self._channel.open(self._receive, self._on_lost)

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout_s: float,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """The result. McpRefusal for an error answer, McpError if none comes; the server is told of a cancellation."""
        if self.lost is not None:
            raise McpError(self.lost)
        self._count += 1
        number = self._count
        params = dict(params or {})
        if method != "initialize":
            params["_meta"] = {**params.get("_meta", {}), "progressToken": number}
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if on_progress is not None:
            self._progress[number] = on_progress
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        sending = asyncio.ensure_future(self._channel.send(message))
        sending.add_done_callback(_looked_at)
        try:
            await self._until_answered(future, sending, timeout_s)
        except TimeoutError:
            self._give_up(number, method, "timed out")
            raise McpError(f"no answer to {method} within {timeout_s:g} seconds") from None
        except asyncio.CancelledError:
            self._give_up(number, method, "cancelled by the user")
            raise
        finally:
            sending.cancel()
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
        return future.result()

    def agreed(self, version: str) -> None:
        self._channel.agreed(version)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        async with asyncio.timeout(_SEND_S):
            await self._channel.send(message)

    async def aclose(self) -> None:
        self._on_lost("the connection was closed")
        for task in list(self._answering):
            task.cancel()
        if self._answering:
            await asyncio.wait(list(self._answering))
        await self._channel.aclose()

    def kill(self) -> None:
        self._channel.kill()

    # ---- inside --------------------------------------------------------------------------------

    async def _until_answered(
        self, future: asyncio.Future[dict[str, Any]], sending: asyncio.Task[None], timeout_s: float
    ) -> None:
        """Wait for the answer. While the server waits for a person, its time does not run."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not future.done():
            waited_for = [future] if sending.done() else [future, sending]
            done, _ = await asyncio.wait(
                waited_for, timeout=max(0.0, deadline - loop.time()), return_when=asyncio.FIRST_COMPLETED
            )
            if sending in done and not sending.cancelled() and (failure := sending.exception()) is not None:
                # Why the way was lost is known a moment later, and says more.
                await asyncio.wait([future], timeout=_LOSS_S)
                if not future.done():
                    raise failure
            if not done:
                if not self._asking:
                    raise TimeoutError
                deadline = loop.time() + timeout_s

    def _give_up(self, number: int, method: str, reason: str) -> None:
        """Tell the server that nobody waits any more; `initialize` must not be cancelled."""
        self._channel.forget(number)
        if method == "initialize" or self.lost is not None:
            return
        self._spawn(self._notify_quietly("notifications/cancelled", {"requestId": number, "reason": reason}), None)

    async def _notify_quietly(self, method: str, params: dict[str, Any]) -> None:
        try:
            await self.notify(method, params)
        except (McpError, TimeoutError):
            pass  # then it cannot be told

    def _spawn(self, work: Any, request_id: Any) -> None:
        task = asyncio.ensure_future(work)
        self._answering[task] = request_id
        task.add_done_callback(lambda done: self._answering.pop(done, None))

    def _on_lost(self, reason: str) -> None:
        if self.lost is not None:
            return
        self.lost = reason
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(McpError(reason))
                future.exception()  # looked at: its owner may have been cancelled meanwhile
        self._waiting.clear()

    def _receive(self, message: Message) -> None:
        method = message.get("method")
        if isinstance(method, str):
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            if "id" not in message:
                self._heard(method, params)
            elif len(self._answering) < _MAX_OPEN_REQUESTS:
                self._spawn(self._respond(message["id"], method, params), message["id"])
            return
        number = message.get("id")
        future = self._waiting.pop(number, None) if type(number) is int else None
        if future is None or future.done():
            return  # an answer that nobody asked for, or that came too late
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            code = error.get("code")
            text = readable(str(error.get("message") or "the server gave no reason"))[:_REASON_CHARS]
            future.set_exception(McpRefusal(text, code if isinstance(code, int) else 0))
        elif isinstance(result, dict):
            future.set_result(result)
        else:
            future.set_exception(McpError("the server's answer has no result"))

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            for task, request_id in list(self._answering.items()):
                if request_id is not None and request_id == params.get("requestId"):
                    task.cancel()
            return
        if method == "notifications/progress":
            token = params.get("progressToken")
            if (tell := self._progress.get(token) if type(token) is int else None) is not None:
                tell(_how_far(params))
            return
        self._hear(method, params)

    async def _respond(self, request_id: Any, method: str, params: dict[str, Any]) -> None:
        answer: Message = {"jsonrpc": "2.0", "id": request_id}
        self._asking += 1
        try:
            result = {} if method == "ping" else await self._answer(method, params)
            if result is None:
                answer["error"] = {"code": _NO_METHOD, "message": "there is no such method here"}
            else:
                answer["result"] = result
        except McpError as error:
            answer["error"] = {"code": _INTERNAL, "message": str(error)}
        finally:
            self._asking -= 1
        try:
            async with asyncio.timeout(_SEND_S):
                await self._channel.send(answer)
        except (McpError, TimeoutError):
            pass  # it does not want to know


def _looked_at(task: asyncio.Task[None]) -> None:
    """A failure that somebody else tells of is not reported as forgotten."""
    if not task.cancelled():
        task.exception()


def _how_far(params: dict[str, Any]) -> str:
    """The server's own words, else its numbers."""
    if isinstance(words := params.get("message"), str) and words:
        return readable(words)[:_REASON_CHARS]
    done, total = params.get("progress"), params.get("total")
    if not isinstance(done, int | float):
        return ""
    return f"{done:g}/{total:g}" if isinstance(total, int | float) else f"{done:g}"
