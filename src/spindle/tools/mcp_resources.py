"""The three tools that look into what MCP servers have to read. Listed when one of the servers has anything."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import McpError, Rejected, ToolError
from spindle.mcp.connection import Connection
from spindle.mcp.naming import clean_words, entry_hash
from spindle.mcp.pool import ServerPool
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import readable
from spindle.tools.descriptions import description
from spindle.tools.mcp_output import visible_json
from spindle.tools.mcp_tool import observed, read_arguments
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

SHOWN_SERVER = "codex"
"""What these tools are shown under, as clients of the reference program expect it."""


class _ListArgs(msgspec.Struct, frozen=True, kw_only=True):
    server: str | None = None
    cursor: str | None = None


class _ReadArgs(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    uri: str


class _Listing:
    """`resources/list` or `resources/templates/list`: of one server page by page, or of all at once."""

    parallel = True

    def __init__(self, pool: ServerPool, name: str, method: str, key: str) -> None:
        self.name = name
        self._pool = pool
        self._method = method
        self._key = key

    def spec(self) -> dict[str, Any]:
        properties = {
            "server": {"type": "string", "description": "Name of one server; all servers if left out."},
            "cursor": {"type": "string", "description": "The nextCursor of the page before; needs server."},
        }
        return function_spec(self.name, description(self.name), properties, [])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, _ListArgs)
        if args.cursor is not None and args.server is None:
            raise ToolError("cursor can only be used when a server is specified")
        connections = await self._permitted(args, call, ctx)
        return await _run(self.name, call, ctx, lambda: self._listed(args, connections))

    async def _permitted(self, args: _ListArgs, call: ToolCall, ctx: ToolContext) -> list[Connection]:
        """The servers that may be asked: the one that is named, or all for which there is a yes."""
        if args.server is not None:
            await _permit(self._pool, args.server, self.name, call, ctx)
            return []
        allowed: list[Connection] = []
        refusal: Rejected | None = None
        for connection in self._pool.with_resources:
            try:
                await _permit(self._pool, connection.spec.name, self.name, call, ctx)
                allowed.append(connection)
            except Rejected as error:
                refusal = error
        if refusal is not None and not allowed:
            raise refusal
        return allowed

    async def _listed(self, args: _ListArgs, connections: list[Connection]) -> dict[str, Any]:
        if args.server is not None:
            connection = self._pool.connection(args.server)
            entries, after = await connection.page(self._method, self._key, args.cursor)
            listed = {"server": args.server, self._key: _of_server(args.server, entries)}
            return listed | ({"nextCursor": after} if after else {})
        found: list[Any] = []
        for connection in connections:
            try:
                entries = await connection.all_pages(self._method, self._key)
            except McpError:
                continue  # one server that does not answer hides none of the others
            found += _of_server(connection.spec.name, entries)
        return {self._key: found}


class _Reading:
    """`resources/read`."""

    name = "read_mcp_resource"
    parallel = True

    def __init__(self, pool: ServerPool) -> None:
        self._pool = pool

    def spec(self) -> dict[str, Any]:
        properties = {
            "server": {"type": "string", "description": "Name of the server, as the listing gives it."},
            "uri": {"type": "string", "description": "URI of the resource, as the listing gives it."},
        }
        return function_spec(self.name, description(self.name), properties, ["server", "uri"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, _ReadArgs)
        await _permit(self._pool, args.server, self.name, call, ctx)

        async def read() -> dict[str, Any]:
            contents = await self._pool.connection(args.server).read_resource(args.uri)
            return {"server": args.server, "uri": args.uri, "contents": contents}

        return await _run(self.name, call, ctx, read)


async def _permit(pool: ServerPool, server: str, name: str, call: ToolCall, ctx: ToolContext) -> None:
    """The permission that a tool of this server would need. A server that there is not is told of when it is asked."""
    spec = pool.specs.get(server)
    if spec is not None:
        mode = spec.tool_approval_modes.get(name, spec.default_tools_approval_mode)
        await ctx.permission.resources(server, name, read_arguments(call), mode, entry_hash(spec))


async def _run(name: str, call: ToolCall, ctx: ToolContext, ask: Any) -> ToolResult:
    found: dict[str, Any] = {}

    async def as_result() -> dict[str, Any]:
        found.update(await ask())
        return {"content": [{"type": "text", "text": encode_payload(found).decode()}]}

    invocation = {"server": SHOWN_SERVER, "tool": name, "arguments": read_arguments(call)}
    await observed(ctx, invocation, as_result)
    return ToolResult(output=visible_json(found))


def _of_server(server: str, entries: list[Any]) -> list[Any]:
    listed = [entry for entry in entries if isinstance(entry, dict)]
    # A server cannot speak for another one.
    return [
        {
            "server": server,
            **{readable(str(key)): clean_words(entry[key]) for key in entry if key != "server"},
        }
        for entry in listed
    ]


def resource_tools(pool: ServerPool) -> list[Tool]:
    if not pool.has_resources:
        return []
    return [
        _Listing(pool, "list_mcp_resources", "resources/list", "resources"),
        _Listing(pool, "list_mcp_resource_templates", "resources/templates/list", "resourceTemplates"),
        _Reading(pool),
    ]
