"""The MCP server: what the client says, and which of it is a call of a tool."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.config.schema import Config
from spindle.errors import SpindleError, reason_of
from spindle.frontends.json_rpc import INVALID_PARAMS, UNKNOWN_METHOD, Notification, Request, RequestId, RpcError
from spindle.frontends.mcp_server.revision import (
    CAPABILITIES,
    SERVER_INFO,
    Caller,
    caller_of,
    can_be_asked,
    completed,
    discovery,
    input_required,
)
from spindle.frontends.mcp_server.threads import Threads
from spindle.frontends.mcp_server.tool_call import Client, ToolCall, result_of
from spindle.frontends.mcp_server.tools import (
    NEW,
    REPLY,
    TOOLS,
    NewArguments,
    ReplyArguments,
    read_arguments,
    result,
)
from spindle.frontends.options import Parsed
from spindle.frontends.rpc_peer import NO_REPLY, RpcPeer
from spindle.mcp.client import KNOWN_VERSIONS
from spindle.protocol.clock import SystemClock

MAX_PAUSED = 64
"""So many calls may wait for answers that their client never brings; then the oldest is given up."""
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_EMPTY_LISTS = {
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}


class McpServer:
    """One client and the calls it makes."""

    def __init__(self, peer: RpcPeer, config: Config, parsed: Parsed, *, with_events: bool) -> None:
        self._client = Client(peer=peer, with_events=with_events)
        self._threads = Threads(config, parsed)
        self._calls: dict[RequestId, ToolCall] = {}
        self._paused: dict[str, tuple[ToolCall, asyncio.Task[dict[str, Any]]]] = {}
        """Calls of the stateless revision that wait to be made again, with answers; by the state they were given."""

    async def answer(self, request: Request) -> Any:
        params = request.params if isinstance(request.params, dict) else {}
        caller = caller_of(params)
        if request.method == "tools/call":
            return await self._call(request.id, params, caller)
        result = self._list_or_set(request.method, params)
        return result if caller is None else completed(result, request.method)

    def _list_or_set(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                return self._initialize(params)
            case "server/discover":
                return discovery()
            case "ping":
                return {}
            case "tools/list":
                return {"tools": TOOLS}
            case "logging/setLevel":
                return self._set_level(params.get("level"))
            case _ if method in _EMPTY_LISTS:
                return _EMPTY_LISTS[method]
            case _:
                raise RpcError(f"there is no method {method[:100]!r} here", UNKNOWN_METHOD)

    def hear(self, note: Notification) -> None:
        params = note.params if isinstance(note.params, dict) else {}
        request_id = params.get("requestId")
        call = self._calls.get(request_id) if isinstance(request_id, str | int) else None
        if note.method == "notifications/cancelled" and call is not None:
            call.cancel()

    async def close(self) -> None:
        for call in (*self._calls.values(), *(call for call, _ in self._paused.values())):
            call.cancel()
        await self._threads.close()

    def kill(self) -> None:
        self._threads.kill()

    # ---- requests ------------------------------------------------------------------------------

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        capabilities = params.get("capabilities")
        client = self._client
        client.can_be_asked = can_be_asked(capabilities)
        return {
            "protocolVersion": wanted if wanted in KNOWN_VERSIONS else KNOWN_VERSIONS[-1],
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER_INFO,
        }

    def _set_level(self, level: Any) -> dict[str, Any]:
        if level not in _LEVELS:
            raise RpcError(f"there is no level {level!r}; the levels are {', '.join(_LEVELS)}", INVALID_PARAMS)
        self._client.log_level = level if _LEVELS.index(level) <= _LEVELS.index("warning") else None
        return {}

    async def _call(self, request_id: RequestId, params: dict[str, Any], caller: Caller | None) -> Any:
        """Run a tool. Whatever goes wrong is a result too: the model of the client reads it and goes on."""
        if request_id in self._calls:
            raise RpcError("a call with this id is already running; every request needs its own id")
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        state = params.get("requestState")
        if caller is not None and state is not None:
            if not isinstance(state, str) or state not in self._paused:
                return completed(result("", "no call waits for this answer any more", is_error=True), "tools/call")
            call, work = self._paused.pop(state)
            call.go_on(request_id, params.get("inputResponses"))
        else:
            call = ToolCall(self._client, request_id, token if isinstance(token, str | int) else None, caller)
            work = asyncio.ensure_future(self._run(call, params))
        self._calls[request_id] = call
        try:
            shown = await (work if caller is None else self._next(call, work))
        finally:
            del self._calls[request_id]
        return NO_REPLY if call.is_cancelled else shown

    async def _next(self, call: ToolCall, work: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
        """The result of a call of the stateless revision, or what has to be answered before there is one."""
        asking = asyncio.ensure_future(call.has_questions.wait())
        await asyncio.wait([work, asking], return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        if work.done():
            return completed(work.result(), "tools/call")
        state = SystemClock().uuid7()
        self._paused[state] = call, work
        while len(self._paused) > MAX_PAUSED:
            self._paused.pop(next(iter(self._paused)))[0].cancel()
        return input_required(call.questions(), state)

    async def _run(self, call: ToolCall, params: dict[str, Any]) -> dict[str, Any]:
        name, given = params.get("name"), params.get("arguments")
        thread = given.get("threadId") or given.get("conversationId") if isinstance(given, dict) else None
        named = thread if name == REPLY and isinstance(thread, str) else ""
        try:
            if name == NEW:
                return result_of(*await self._threads.start(call, read_arguments(NEW, given, NewArguments)))
            if name == REPLY:
                read = read_arguments(REPLY, given, ReplyArguments)
                return result_of(*await self._threads.go_on(call, read.thread, read.prompt))
        except (SpindleError, OSError) as error:
            return result(named, reason_of(error), is_error=True)
        except Exception as error:  # our bug: the call fails, the server lives on
            return result(named, f"internal error: {type(error).__name__}: {error}", is_error=True)
        return result("", f"there is no tool {str(name)[:100]!r}; the tools are {NEW} and {REPLY}", is_error=True)
