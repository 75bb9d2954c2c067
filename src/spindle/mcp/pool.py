"""The MCP servers of one session: started together, listed once, called by name, closed with it.

The tools are those that were listed at the start. What changes later is told, and taken over only by `refresh`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from spindle.errors import McpError
from spindle.mcp.client import OnProgress
from spindle.mcp.connection import Connection, Elicit
from spindle.mcp.naming import RemoteTool, in_order, offered_tools
from spindle.mcp.spec import McpServer
from spindle.protocol.events import Msg, Warning
from spindle.protocol.tool_servers import McpStartupComplete, McpStartupUpdate

Connect = Callable[[McpServer, Callable[[str], None]], Connection]
"""The connection to a server; its second argument is who hears that the server's tools have changed."""


class ServerPool:
    """Every connection has one owner: this. Sub-agents use it, the session that made it closes it."""

    def __init__(
        self, specs: Mapping[str, McpServer], connect: Connect, *, blocked: Mapping[str, str] | None = None
    ) -> None:
        self._connect = connect
        self._connections: dict[str, Connection] = {}
        self._failed: dict[str, str] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._waiting_room: list[Msg] = []
        self._emit: Callable[[Msg], None] | None = None
        self._announced: set[str] = set()
        self.on_changed: Callable[[str], None] = lambda server: None
        """Is told, once a run, that a server has other tools by now."""
        self.specs: dict[str, McpServer] = {}
        self.tools: list[RemoteTool] = []
        """All of all servers in their one order; empty until the servers are ready."""
        self.generation = 0
        """Counts how often the list was made."""
        self._finished: asyncio.Task[None] | None = None
        self._begin(specs, blocked or {})

    # ---- the start -----------------------------------------------------------------------------

    def listen(self, emit: Callable[[Msg], None]) -> None:
        """From now on somebody hears what happens; first what happened already."""
        self._emit = emit
        waiting, self._waiting_room = self._waiting_room, []
        for msg in waiting:
            emit(msg)

    async def ready(self) -> None:
        """Wait until every server is ready, has failed, or had its time. When this is cancelled, servers that are still
        starting are given up."""
        if self._finished is None:
            return
        try:
            await asyncio.shield(self._finished)
        except asyncio.CancelledError:
            if not self._finished.done():
                for task in self._starting.values():
                    task.cancel()
                await asyncio.wait([self._finished])
            raise

    @property
    def missing_required(self) -> str | None:
        """Why work cannot go on, where a server is missing that must be there."""
        for name, reason in self._failed.items():
            if self.specs[name].required and self.specs[name].project_file is None:
                return f"the MCP server {name} is required and did not start: {reason}"
        return None

    @property
    def failed(self) -> dict[str, str]:
        return dict(self._failed)

    @property
    def names(self) -> list[str]:
        """The servers that are there, in order."""
        return sorted(self._connections)

    async def refresh(self, specs: Mapping[str, McpServer], blocked: Mapping[str, str]) -> None:
        """Start all of them anew. Between turns only: a call that is waiting would never get its answer."""
        await self._close_all()
        self._begin(specs, blocked)

    def _begin(self, specs: Mapping[str, McpServer], blocked: Mapping[str, str]) -> None:
        self.specs = {name: spec for name, spec in specs.items() if spec.enabled}
        self._failed, self._connections = {}, {}
        self._announced.clear()
        for name in sorted(self.specs):
            if name in blocked:
                self._fail(name, blocked[name], warning=f"MCP server {name} is off: {blocked[name]}")
            else:
                self._tell(McpStartupUpdate(server=name, status={"state": "starting"}))
                self._starting[name] = asyncio.ensure_future(self._start(self.specs[name]))
        self._finished = asyncio.ensure_future(self._finish())

    async def _start(self, spec: McpServer) -> None:
        connection = self._connect(spec, self._has_changed)
        try:
            await connection.start()
        except McpError as error:
            self._fail(spec.name, str(error))
        except asyncio.CancelledError:
            self._tell(McpStartupUpdate(server=spec.name, status={"state": "cancelled"}))
        except Exception as error:  # our bug: one server is missing, the others work
            self._fail(spec.name, f"internal error: {type(error).__name__}: {error}")
        else:
            self._connections[spec.name] = connection
            self._tell(McpStartupUpdate(server=spec.name, status={"state": "ready"}))

    async def _finish(self) -> None:
        if self._starting:
            await asyncio.wait(list(self._starting.values()))
        self._starting.clear()
        found = [
            tool
            for name in self.names
            for tool in offered_tools(
                self.specs[name], self._connections[name].listed, lambda text, name=name: self.warn(name, text)
            )
        ]
        self.tools = in_order(found, lambda text: self._tell(Warning(message=text)))
        self.generation += 1
        self._tell(
            McpStartupComplete(
                ready=self.names,
                failed=[{"server": name, "error": reason} for name, reason in sorted(self._failed.items())],
                cancelled=sorted(self.specs.keys() - self._connections.keys() - self._failed.keys()),
            )
        )

    def _fail(self, name: str, reason: str, warning: str | None = None) -> None:
        self._failed[name] = reason
        self._tell(McpStartupUpdate(server=name, status={"state": "failed", "error": reason}))
        self._tell(Warning(message=warning or f"MCP server {name} is missing: {reason}"))

    def warn(self, name: str, text: str) -> None:
        """Say something about a server."""
        self._tell(Warning(message=f"MCP server {name}: {text}"))

    def _tell(self, msg: Msg) -> None:
        if self._emit is None:
            self._waiting_room.append(msg)
        else:
            self._emit(msg)

    def _has_changed(self, server: str) -> None:
        if server in self._announced:
            return
        self._announced.add(server)
        self._tell(
            Warning(
                message=f"MCP server {server} has other tools by now; this conversation keeps those it began with "
                "(refresh_mcp_servers, or a new thread, takes the new ones)"
            )
        )
        self.on_changed(server)

    # ---- use -----------------------------------------------------------------------------------

    def connection(self, server: str) -> Connection:
        found = self._connections.get(server)
        if found is not None:
            return found
        if server in self._failed:
            raise McpError(f"MCP server {server} is missing: {self._failed[server]}")
        raise McpError(f"there is no MCP server {server!r}; there are: {', '.join(self.names) or 'none'}")

    @property
    def has_resources(self) -> bool:
        return any(connection.has_resources for connection in self._connections.values())

    @property
    def with_resources(self) -> list[Connection]:
        return [self._connections[name] for name in self.names if self._connections[name].has_resources]

    def definition(self, tool: RemoteTool) -> str:
        """What stands for the tool as its server describes it now; "" without a server."""
        found = self._connections.get(tool.server)
        return "" if found is None else found.definition(tool.name)

    async def call(
        self,
        tool: RemoteTool,
        arguments: dict[str, Any],
        elicit: Elicit,
        definition: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """`definition`: the permission is for this one, and no other is called."""
        connection = self.connection(tool.server)
        return await connection.call_tool(tool.name, arguments, elicit, definition, on_progress)

    # ---- the end -------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End every server. Safe to call twice."""
        await self._close_all()

    def kill(self) -> None:
        """The same without waiting for anything: this process is about to end."""
        for connection in self._connections.values():
            connection.kill()

    async def _close_all(self) -> None:
        for task in self._starting.values():
            task.cancel()
        if self._finished is not None:
            await asyncio.wait([self._finished])
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.aclose() for connection in connections))
