"""A tool of an MCP server, as the model sees it. Loaded when there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from spindle.errors import McpError, ToolError
from spindle.mcp.naming import RemoteTool, definition_of
from spindle.mcp.pool import ServerPool
from spindle.protocol.events import Duration
from spindle.protocol.items import decode_foreign, encode_payload
from spindle.protocol.tool_servers import McpToolCallBegin, McpToolCallEnd, McpToolCallProgress
from spindle.tools.execution import refuse_masks
from spindle.tools.mcp_output import model_output, shown_result
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult


class McpTool:
    """One tool of one server."""

    def __init__(self, tool: RemoteTool, pool: ServerPool) -> None:
        self.name = tool.full_name
        # As they are now: a refresh may take the server away while a sub-agent still has its tools.
        spec = self._spec = pool.specs[tool.server]
        self.parallel = spec.supports_parallel_tool_calls
        self._approval_mode = spec.tool_approval_modes.get(tool.name, spec.default_tools_approval_mode)
        self._tool = tool
        self._pool = pool

    @property
    def only_reads(self) -> bool:
        """The server says so, and no sandbox sees to it."""
        return self._tool.is_read_only

    def spec(self) -> dict[str, Any]:
        return {
            "type": "function",
            "name": self.name,
            "description": self._tool.description,
            "strict": False,
            "parameters": self._tool.schema,
        }

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        tool = self._tool
        arguments = read_arguments(call)
        if not tool.is_read_only:
            refuse_masks(call.arguments, ctx)  # it may write what it is given into a file of the user's
        invocation = {"server": tool.server, "tool": tool.name, "arguments": arguments}
        definition = self._pool.definition(tool)
        if definition != definition_of(self._spec, tool.raw):
            tool = msgspec.structs.replace(tool, has_changed=True)
        await ctx.permission.tool(tool, arguments, self._approval_mode, definition)
        is_free = self._approval_mode == "approve" or (ctx.boundary.is_full_access and self._approval_mode != "prompt")
        pinned = None if is_free else definition

        def tell(words: str) -> None:
            ctx.emit(McpToolCallProgress(call_id=ctx.call_id, message=words))

        result, seconds = await observed(
            ctx, invocation, lambda: self._pool.call(tool, arguments, ctx.person.elicit, pinned, tell)
        )
        return ToolResult(output=model_output(result, seconds, accepts_images=ctx.output.accepts_images))


async def observed(
    ctx: ToolContext, invocation: dict[str, Any], ask: Callable[[], Awaitable[dict[str, Any]]]
) -> tuple[dict[str, Any], float]:
    """What the server answered and how long it took; people see that it was asked, and what came of it."""
    ctx.emit(McpToolCallBegin(call_id=ctx.call_id, invocation=invocation))
    started = ctx.clock.monotonic()

    def end(result: dict[str, Any]) -> float:
        seconds = ctx.clock.monotonic() - started
        took = Duration.of(seconds)
        ctx.emit(McpToolCallEnd(call_id=ctx.call_id, invocation=invocation, duration=took, result=result))
        return seconds

    try:
        result = await ask()
    except McpError as error:
        end({"Err": str(error)})
        raise ToolError(f"err: {encode_payload(str(error)).decode()}") from error
    except BaseException:
        end({"Err": "interrupted"})
        raise
    return result, end({"Ok": shown_result(result)})


def read_arguments(call: ToolCall) -> dict[str, Any]:
    """The call's arguments. Some models send nothing at all where there are none."""
    if not call.arguments.strip():
        return {}
    try:
        value = decode_foreign(call.arguments)
    except ValueError as error:
        raise ToolError(f"failed to parse function arguments: {error}") from error
    if not isinstance(value, dict):
        raise ToolError(f"failed to parse function arguments: expected an object, got {type(value).__name__}")
    return value


def mcp_tools(pool: ServerPool) -> list[Tool]:
    return [McpTool(tool, pool) for tool in pool.tools]
