"""A session's MCP servers: when their tools become the thread's, and what ops ask of them.

The list of tools is fixed before the first request and changes only between turns, by `refresh_mcp_servers`: then the
break of the prompt's prefix is declared. Sub-agents use the servers of the session that a person opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.core.feature import Feature, Handler
from spindle.core.live_thread import LiveThread
from spindle.errors import McpError, SpindleError
from spindle.mcp.pool import ServerPool
from spindle.mcp.spec import McpServer
from spindle.protocol.events import Error, Msg, Warning
from spindle.protocol.ops import CallMcpTool, ListMcpTools, Op, ReadMcpResource, RefreshMcpServers, Submission
from spindle.protocol.tool_servers import McpListToolsResponse, McpServerAnswer
from spindle.tools.mcp_resources import resource_tools
from spindle.tools.mcp_tool import mcp_tools
from spindle.tools.router import ToolSet
from spindle.tools.tool import Tool

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session

RECORD = "spindle_mcp"
"""The kind of the record's lines about servers."""

Emit = Callable[[Msg], None]
Wanted = tuple[Mapping[str, McpServer], Mapping[str, str]]
"""The servers, and why some of them must not be started."""


class Servers(Feature):
    """Between a pool of servers and the thread of one session."""

    def __init__(
        self,
        shared: ServerPool | None,
        *,
        start: Callable[[Session], ServerPool],
        build: Callable[[Sequence[Tool], Sequence[Tool]], ToolSet],
        read: Callable[[dict[str, Any] | None], Wanted],
        auth_status: Callable[[McpServer], str],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`shared` are the servers of the session that a person opened, for its sub-agents."""
        self._shared = shared
        self._start = start
        """Starts those of this session."""
        self._own: ServerPool | None = None
        self._build = build
        """The thread's tools, with those for resources and those of the servers."""
        self._read = read
        """The servers that are wanted now, by an op's `config` or by the files."""
        self._auth_status = auth_status
        self._close = close
        self._applied = 0
        self._refresh: Wanted | None = None
        self._asking: set[asyncio.Task[None]] = set()

    def open(self, session: Session) -> None:
        """Start the servers; what they do is told from now on."""
        if self._shared is not None:
            return
        thread = session.thread

        def changed(server: str) -> None:
            thread.history.append_extra(RECORD, {"server": server, "event": "list_changed"})
            _forewarn(thread, b"", session.tell)

        self._own = self._start(session)
        self._own.on_changed = changed
        self._own.listen(session.tell)

    @property
    def pool(self) -> ServerPool:
        """The servers, once the session is open."""
        pool = self._shared or self._own
        assert pool is not None
        return pool

    async def begin_turn(self, turn: RunningTurn) -> None:
        """Wait for the servers, and give the thread their tools if it has not got them.

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
        thread = turn.thread
        tools = self._build(resource_tools(self.pool), mcp_tools(self.pool))
        if thread.cache.is_begun and tools.specs_bytes != thread.tools.specs_bytes:
            thread.cache.declare("tools_changed")
            _forewarn(thread, tools.specs_bytes, turn.session.tell)
        thread.tools = tools
        self._applied = self.pool.generation

    def ops(self) -> Mapping[type[Op], Handler]:
        return {
            ListMcpTools: self._start_asking,
            RefreshMcpServers: self._take_refresh,
            CallMcpTool: self._start_asking,
            ReadMcpResource: self._start_asking,
        }

    async def _start_asking(self, session: Session, submission: Submission) -> None:
        """Asking servers takes time, which does not hold the session up."""
        task = asyncio.ensure_future(self._ask(submission.op, partial(session.emit, submission.id)))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, op: Op, emit: Emit) -> None:
        await self.pool.ready()
        try:
            match op:
                case CallMcpTool(server=server, tool=tool, arguments=arguments):
                    emit(McpServerAnswer(server=server, result=await self._call(server, tool, arguments)))
                case ReadMcpResource(server=server, uri=uri):
                    contents = await self.pool.connection(server).read_resource(uri)
                    emit(McpServerAnswer(server=server, result={"contents": contents}))
                case _:
                    await self._list(emit)
        except McpError as error:
            emit(Error(message=str(error)))

    async def _call(self, server: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool that the configuration offers; a question of the server's in between is declined."""
        connection = self.pool.connection(server)
        if not any(offered.server == server and offered.name == tool for offered in self.pool.tools):
            raise McpError(f"MCP server {server} has no tool {tool!r}")
        return await connection.call_tool(tool, arguments, _decline)

    async def _take_refresh(self, session: Session, submission: Submission) -> None:
        op = submission.op
        assert isinstance(op, RefreshMcpServers)
        if self._own is None:
            raise SpindleError("a sub-agent uses the MCP servers of its parent, and cannot refresh them")
        if session.is_running:
            self._refresh = self._read(op.config)
        else:
            await self.pool.refresh(*self._read(op.config))

    async def aclose(self) -> None:
        """End the servers, if they are this session's. Safe to call twice."""
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(list(self._asking))
        if self._own is not None:
            await self._own.aclose()
            self._close()

    def kill(self) -> None:
        if self._own is not None:
            self._own.kill()

    async def _list(self, emit: Emit) -> None:
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


async def _decline(server: str, question: dict[str, Any]) -> dict[str, Any]:
    """No turn runs that a person could be asked in."""
    return {"action": "decline"}


def _forewarn(thread: LiveThread, tools: bytes, emit: Emit) -> None:
    """Say what it costs to go on with these tools, where that is worth a word."""
    if (forecast := thread.cache.forecast_of(tools=tools)) is not None:
        emit(Warning(message=str(forecast)))
