"""A Responses server that speaks WebSockets only, and is strict about what is asked over them.

The n-th question gets the n-th step of the script, and those beyond get the last one. A step is a list of events, or a
function that gets the socket. A question that names an earlier answer is refused unless that is the last whole answer
of its own connection. `asked` holds each question as the model sees it: behind everything that the server remembers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

Json = dict[str, Any]
Step = list[Json] | Callable[[ServerConnection], Awaitable[None]]

_KEYS = {
    *("type", "previous_response_id", "model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls"),
    *("reasoning", "store", "stream", "include", "prompt_cache_key", "text", "service_tier"),
}


def answers(*items: Json, response_id: str = "resp_1", **end: Any) -> list[Json]:
    """The events of a whole answer with these items."""
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    completed = {"type": "response.completed", "response": {"id": response_id, **end}}
    return [{"type": "response.created", "response": {"id": response_id}}, *done, completed]


def refuses(status: int, **error: Any) -> list[Json]:
    return [{"type": "error", "status": status, "error": error}]


class WebSocketServer:
    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = list(steps)
        self._server: Server | None = None
        self.handshakes: list[dict[str, str]] = []
        """The headers of every request for a WebSocket, names in lower case."""
        self.asked: list[Json] = []
        self.sent: list[Json] = []
        """The same as they were sent."""
        self.raw: list[bytes] = []
        self.connections = 0
        self.refusal: HTTPStatus | None = None
        """The status of the answer to whoever wants a WebSocket."""
        self.headers: dict[str, str] = {}
        """Those of the answer to a handshake."""
        self.closes_next = False
        """The next connection is closed before anybody asks."""
        self.goodbyes: list[int] = []
        """The codes with which clients closed their connections in order."""
        self.closed = asyncio.Event()

    async def start(self, **options: Any) -> None:
        checks = {"process_request": self._check, "process_response": self._agree}
        self._server = await serve(self._talk, "127.0.0.1", 0, **checks, max_size=None, **options)
        self.is_tls = "ssl" in options

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{'https://localhost' if self.is_tls else 'http://127.0.0.1'}:{port}/v1"

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        assert request.path.split("?")[0] == "/v1/responses", request.path
        self.handshakes.append({name.lower(): value for name, value in request.headers.raw_items()})
        if self.refusal is not None:
            return connection.respond(self.refusal, '{"error":{"message":"no sockets here"}}')
        return None

    def _agree(self, connection: ServerConnection, request: Request, response: Response) -> None:
        response.headers.update(self.headers)

    async def _talk(self, connection: ServerConnection) -> None:
        self.connections += 1
        memory: dict[str, list[Json]] = {}
        is_closing, self.closes_next = self.closes_next, False
        try:
            if is_closing:
                await connection.close()
            async for text in connection:
                assert isinstance(text, str), "a question is text"
                self.raw.append(text.encode())
                await self._answer(connection, json.loads(text), memory)
        except ConnectionClosed:
            pass
        finally:
            if connection.protocol.close_rcvd is not None:
                self.goodbyes.append(connection.protocol.close_rcvd.code)
            self.closed.set()

    async def _answer(self, connection: ServerConnection, question: Json, memory: dict[str, list[Json]]) -> None:
        assert question["type"] == "response.create", question
        assert set(question) <= _KEYS, set(question) - _KEYS
        assert question["store"] is False, "nothing is to be stored"
        assert question["input"], "nothing to answer"
        self.sent.append(question)
        before: list[Json] = []
        if (named := question.get("previous_response_id")) is not None:
            if named not in memory:
                memory.clear()
                await self._play(connection, refuses(400, code="previous_response_not_found", message="not found"))
                return
            before = memory[named]
        whole = [*before, *question["input"]]
        self.asked.append({**{k: v for k, v in question.items() if k != "previous_response_id"}, "input": whole})
        memory.clear()
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        await self._play(connection, step)
        if isinstance(step, list) and step[-1]["type"] == "response.completed":
            made = [event["item"] for event in step if event["type"] == "response.output_item.done"]
            memory[step[-1]["response"]["id"]] = [*whole, *made]

    async def _play(self, connection: ServerConnection, step: Step) -> None:
        if not isinstance(step, list):
            await step(connection)
            return
        for event in step:
            await connection.send(json.dumps(event))
