"""A session's MCP servers: when their tools become the thread's, and what ops ask of them.

The list of tools is fixed before the first request and changes only between turns, by `refresh_mcp_servers`: then the
break of the prompt's prefix is declared. Sub-agents use the servers of the session that a person opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spindle.core.live_thread import LiveThread
from spindle.errors import McpError, SpindleError
from spindle.mcp.pool import ServerPool
from spindle.mcp.spec import McpServer
from spindle.protocol.events import Msg, Warning
from spindle.protocol.ops import ListMcpTools, RefreshMcpServers
from spindle.protocol.tool_servers import McpListToolsResponse
from spindle.tools.mcp_resources import resource_tools
from spindle.tools.mcp_tool import mcp_tools
from spindle.tools.router import ToolSet
from spindle.tools.tool import Tool

RECORD = "spindle_mcp"
"""The kind of the record's lines about servers."""

Emit = Callable[[Msg], None]
Wanted = tuple[Mapping[str, McpServer], Mapping[str, str]]
"""The servers, and why some of them must not be started."""


class Servers:
    """Between a pool of servers and the thread of one session."""

    def __init__(
        self,
        pool: ServerPool,
        *,
        build: Callable[[Sequence[Tool], Sequence[Tool]], ToolSet],
        read: Callable[[dict[str, Any] | None], Wanted],
        auth_status: Callable[[McpServer], str],
        is_owner: bool,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.pool = pool
        self._build = build
        """The thread's tools, with those for resources and those of the servers."""
        self._read = read
        """The servers that are wanted now, by an op's `config` or by the files."""
        self._auth_status = auth_status
        self._is_owner = is_owner
        self._close = close
        self._applied = 0
        self._refresh: Wanted | None = None
        self._listing: set[asyncio.Task[None]] = set()

    def begin(self, thread: LiveThread, emit: Emit) -> None:
        """The session is open: what servers do is told from now on."""
        if not self._is_owner:
            return

        def changed(server: str) -> None:
            thread.history.append_extra(RECORD, {"server": server, "event": "list_changed"})
            _forewarn(thread, b"", emit)

        self.pool.on_changed = changed
        self.pool.listen(emit)

    async def prepare(self, thread: LiveThread, emit: Emit) -> None:
        """Before a turn's first request: wait for the servers, and give the thread their tools if it has not got them.

        Raises SpindleError when a server is missing that must be there.
        """
        if self._refresh is not None:
            wanted, self._refresh = self._refresh, None
            await self.pool.refresh(*wanted)
        await self.pool.ready()
        if (missing := self.pool.missing_required) is not None:
            raise SpindleError(missing)
        if self._applied == self.pool.generation:
            return
        tools = self._build(resource_tools(self.pool), mcp_tools(self.pool))
        if thread.cache.is_begun and tools.specs_bytes != thread.tools.specs_bytes:
            thread.cache.declare("tools_changed")
            _forewarn(thread, tools.specs_bytes, emit)
        thread.tools = tools
        self._applied = self.pool.generation

    async def handle(self, op: ListMcpTools | RefreshMcpServers, is_busy: bool, emit: Emit) -> None:
        """Answer an op. What takes time does not hold the session up."""
        if isinstance(op, ListMcpTools):
            task = asyncio.ensure_future(self._list(emit))
            self._listing.add(task)
            task.add_done_callback(self._listing.discard)
        elif not self._is_owner:
            raise SpindleError("a sub-agent uses the MCP servers of its parent, and cannot refresh them")
        elif is_busy:
            self._refresh = self._read(op.config)
        else:
            await self.pool.refresh(*self._read(op.config))

    async def aclose(self) -> None:
        """End the servers, if they are this session's. Safe to call twice."""
        for task in self._listing:
            task.cancel()
        if self._listing:
            await asyncio.wait(list(self._listing))
        if self._is_owner:
            await self.pool.aclose()
            self._close()

    def kill(self) -> None:
        if self._is_owner:
            self.pool.kill()

    async def _list(self, emit: Emit) -> None:
        await self.pool.ready()
        resources, templates = await asyncio.gather(
            self._of_all("resources/list", "resources"),
            self._of_all("resources/templates/list", "resourceTemplates"),
        )
        emit(
            McpListToolsResponse(
                tools={tool.full_name: tool.raw for tool in self.pool.tools},
                resources=resources,
                resource_templates=templates,
                auth_statuses={name: self._auth_status(spec) for name, spec in sorted(self.pool.specs.items())},
            )
        )

    async def _of_all(self, method: str, key: str) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for connection in self.pool.with_resources:
            try:
                found[connection.spec.name] = await connection.all_pages(method, key)
            except McpError:
                found[connection.spec.name] = []
        return found


def _forewarn(thread: LiveThread, tools: bytes, emit: Emit) -> None:
    """Say what it costs to go on with these tools, where that is worth a word."""
    if (forecast := thread.cache.forecast_of(tools=tools)) is not None:
        emit(Warning(message=str(forecast)))
