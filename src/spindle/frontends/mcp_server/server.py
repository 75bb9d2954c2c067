"""The MCP server: what the client says, and which of it is a call of a tool."""

from __future__ import annotations

from typing import Any

from spindle import __version__
from spindle.config.schema import Config
from spindle.errors import SpindleError, reason_of
from spindle.frontends.json_rpc import INVALID_PARAMS, UNKNOWN_METHOD, Notification, Request, RequestId, RpcError
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
        self._threads = Threads(self._client, config, parsed)
        self._calls: dict[RequestId, ToolCall] = {}

    async def answer(self, request: Request) -> Any:
        params = request.params if isinstance(request.params, dict) else {}
        match request.method:
            case "initialize":
                return self._initialize(params)
            case "ping":
                return {}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return await self._call(request.id, params)
            case "logging/setLevel":
                return self._set_level(params.get("level"))
            case method if method in _EMPTY_LISTS:
                return _EMPTY_LISTS[method]
            case method:
                raise RpcError(f"there is no method {method[:100]!r} here", UNKNOWN_METHOD)

    def hear(self, note: Notification) -> None:
        params = note.params if isinstance(note.params, dict) else {}
        request_id = params.get("requestId")
        call = self._calls.get(request_id) if isinstance(request_id, str | int) else None
        if note.method == "notifications/cancelled" and call is not None:
            call.cancel()

    async def close(self) -> None:
        for call in self._calls.values():
            call.cancel()
        await self._threads.close()

    def kill(self) -> None:
        self._threads.kill()

    # ---- requests ------------------------------------------------------------------------------

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        capabilities = params.get("capabilities")
        client = self._client
        client.can_be_asked = isinstance(capabilities, dict) and isinstance(capabilities.get("elicitation"), dict)
        return {
            "protocolVersion": wanted if wanted in KNOWN_VERSIONS else KNOWN_VERSIONS[-1],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "spindle-mcp-server", "title": "Spindle", "version": __version__},
        }

    def _set_level(self, level: Any) -> dict[str, Any]:
        if level not in _LEVELS:
            raise RpcError(f"there is no level {level!r}; the levels are {', '.join(_LEVELS)}", INVALID_PARAMS)
        self._client.log_level = level if _LEVELS.index(level) <= _LEVELS.index("warning") else None
        return {}

    async def _call(self, request_id: RequestId, params: dict[str, Any]) -> Any:
        """Run a tool. Whatever goes wrong is a result too: the model of the client reads it and goes on."""
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        call = ToolCall(self._client, request_id, token if isinstance(token, str | int) else None)
        self._calls[request_id] = call
        try:
            shown = await self._run(call, params)
        finally:
            del self._calls[request_id]
        return NO_REPLY if call.is_cancelled else shown

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
