"""`/mcp`: the MCP servers, whether they run, and what they offer."""

from __future__ import annotations

from typing import Any

from spindle.errors import SpindleError
from spindle.frontends.fit import counted
from spindle.frontends.tui.commands.lines import INDENT, block, clean, note
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import name
from spindle.mcp.spec import McpServer
from spindle.protocol.ops import ListMcpTools, RefreshMcpServers
from spindle.protocol.tool_servers import McpListToolsResponse

_LOGINS = {"not_logged_in": "not signed in: `spindle mcp login NAME`", "bearer_token": "token", "o_auth": "signed in"}


async def mcp(desk: Desk, argument: str) -> None:
    servers = desk.config.mcp_servers
    if not servers:
        desk.say("There are no MCP servers; `spindle mcp add` describes one, or [mcp_servers.NAME] in config.toml.")
        return
    if argument == "refresh":
        desk.submit(RefreshMcpServers())
        desk.say("The MCP servers are restarting; the next turn has their tools.")
        return
    if argument and argument not in servers:
        raise SpindleError(f"there is no MCP server {argument!r}; there are {', '.join(map(name, servers))}")
    answer = await desk.call(ListMcpTools())
    offered = answer if isinstance(answer, McpListToolsResponse) else None
    chosen = {argument: servers[argument]} if argument else servers
    lines = [line for server in chosen.values() for line in _server(desk, server, offered, whole=bool(argument))]
    hint = "/mcp NAME shows one in detail, /mcp refresh restarts them all"
    desk.say(*block(counted(len(servers), "MCP server"), [*lines, note(hint)]))


def _server(desk: Desk, server: McpServer, offered: McpListToolsResponse | None, *, whole: bool) -> list[Line]:
    state = "switched off" if not server.enabled else desk.seen.servers.get(server.name, "not started")
    look = "error" if state.startswith("failed") else "ok" if state == "ready" else "dim"
    lines = [Line((Span(f"{INDENT}{name(server.name)}: ", "bold"), Span(clean(state), look)), (Span(INDENT * 2),))]
    where = server.url or " ".join([server.command or "", *server.args])
    lines.append(note(f"{INDENT}{clean(where)}"))
    if offered is None:
        return lines
    if words := _LOGINS.get(offered.auth_statuses.get(server.name, "")):
        lines.append(note(f"{INDENT}{words.replace('NAME', name(server.name))}"))
    prefix = f"mcp__{server.name}__"
    tools = {full.removeprefix(prefix): tool for full, tool in offered.tools.items() if full.startswith(prefix)}
    if tools and not whole:
        lines.append(note(f"{INDENT}tools: {', '.join(map(name, sorted(tools)))}"))
    for tool in sorted(tools) if whole else ():
        lines.append(_tool(tool, tools[tool]))
    if resources := len(offered.resources.get(server.name, ())):
        lines.append(note(f"{INDENT}{counted(resources, 'resource')}"))
    return lines


def _tool(tool: str, described: Any) -> Line:
    about = described.get("description") if isinstance(described, dict) else None
    start = INDENT * 2
    return Line((Span(f"{start}{name(tool)}  "), Span(clean(str(about or ""))[:300], "dim")), (Span(start + INDENT),))
