"""MCP servers for clients: what they offer, restarting them, calling a tool, reading a resource."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec

from spindle.api.door import SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.app_server.threads import MAX_PAGE, page
from spindle.mcp.naming import full_name
from spindle.protocol.ops import CallMcpTool, ListMcpTools, ReadMcpResource, RefreshMcpServers
from spindle.protocol.tool_servers import McpListToolsResponse, McpServerAnswer

AuthStatus = Literal["unknown", "unsupported", "notLoggedIn", "bearerToken", "oAuth"]
_AUTH: dict[str, AuthStatus] = {
    "unsupported": "unsupported",
    "not_logged_in": "notLoggedIn",
    "bearer_token": "bearerToken",
    "o_auth": "oAuth",
}


class StatusListParams(Wire, frozen=True, kw_only=True):
    thread_id: str | None = None
    """Without it, the servers of the configuration are started for this list."""
    server_name: str | None = None
    detail: Literal["full", "toolsAndAuthOnly"] = "full"
    cursor: str | None = None
    limit: int = MAX_PAGE


class ServerStatus(Wire, frozen=True, kw_only=True):
    name: str
    auth_status: AuthStatus
    tools: dict[str, Any] = {}
    """By the names that the server gives them."""
    resources: list[Any] = []
    resource_templates: list[Any] = []
    runtime_status: Literal["disabled"] | None = None
    tools_error: str | None = None


class StatusListResult(Wire, frozen=True, kw_only=True):
    data: list[ServerStatus]
    next_cursor: str | None


class ToolCallParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    server: str
    tool: str
    arguments: dict[str, Any] | None = None


class ToolCallResult(Wire, frozen=True, kw_only=True):
    content: list[Any]
    structured_content: Any = None
    is_error: bool | None = None
    meta: Any = msgspec.field(default=None, name="_meta")


class ResourceReadParams(Wire, frozen=True, kw_only=True):
    server: str
    uri: str
    thread_id: str | None = None


class ResourceReadResult(Wire, frozen=True, kw_only=True):
    contents: list[Any]


class OauthLoginParams(Wire, frozen=True, kw_only=True):
    name: str
    scopes: list[str] | None = None
    timeout_secs: int | None = None
    thread_id: str | None = None


class OauthLoginResult(Wire, frozen=True, kw_only=True):
    authorization_url: str
    login_id: str


async def status_list(call: Call, params: StatusListParams) -> Wire:
    config = call.server.config
    if params.thread_id is None and not _has_servers(config):
        offered = McpListToolsResponse(tools={}, resources={}, resource_templates={}, auth_statuses={})
    else:
        async with _servers_of(call, params.thread_id) as (hearing, config):
            offered = await hearing.ask(ListMcpTools())
    assert isinstance(offered, McpListToolsResponse)
    names = sorted({*config.mcp_servers, *offered.auth_statuses})
    if params.server_name is not None:
        names = [name for name in names if name == params.server_name]
    chosen, following, _ = page(names, names, cursor=params.cursor, limit=params.limit, descending=False)
    with_resources = params.detail == "full"
    data = [_status(name, config, offered, with_resources=with_resources) for name in chosen]
    return StatusListResult(data=data, next_cursor=following)


def _status(name: str, config: Config, offered: McpListToolsResponse, *, with_resources: bool) -> ServerStatus:
    known = config.mcp_servers.get(name)
    is_off = known is not None and not known.enabled
    tools = {
        tool["name"]: tool
        for full, tool in offered.tools.items()
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and full_name(name, tool["name"]) == full
    }
    return ServerStatus(
        name=name,
        auth_status=_AUTH.get(offered.auth_statuses.get(name, ""), "unknown"),
        tools=tools,
        resources=offered.resources.get(name, []) if with_resources else [],
        resource_templates=offered.resource_templates.get(name, []) if with_resources else [],
        runtime_status="disabled" if is_off else None,
    )


async def reload(call: Call, params: Nothing) -> Wire:
    """Read the configuration again, and start the servers of every loaded thread anew."""
    call.server.reload()
    for thread in [*call.server.threads.values()]:
        thread.submit(RefreshMcpServers())
    return Nothing()


async def tool_call(call: Call, params: ToolCallParams) -> Wire:
    async with _servers_of(call, params.thread_id) as (hearing, _):
        op = CallMcpTool(server=params.server, tool=params.tool, arguments=params.arguments or {})
        answer = await hearing.ask(op)
    assert isinstance(answer, McpServerAnswer)
    content, is_error = answer.result.get("content"), answer.result.get("isError")
    return ToolCallResult(
        content=content if isinstance(content, list) else [],
        structured_content=answer.result.get("structuredContent"),
        is_error=is_error if isinstance(is_error, bool) else None,
        meta=answer.result.get("_meta"),
    )


async def resource_read(call: Call, params: ResourceReadParams) -> Wire:
    async with _servers_of(call, params.thread_id) as (hearing, _):
        answer = await hearing.ask(ReadMcpResource(server=params.server, uri=params.uri))
    assert isinstance(answer, McpServerAnswer)
    return ResourceReadResult(contents=answer.result["contents"])


async def oauth_login(call: Call, params: OauthLoginParams) -> Wire:
    """Gives the address to open in a browser; `mcpServer/oauthLogin/completed` tells how it ended."""
    server = call.server
    config = server.config if params.thread_id is None else server.loaded(params.thread_id).config
    described = config.mcp_servers.get(params.name)
    if described is None:
        raise RpcError(f"there is no MCP server {params.name!r}")
    from spindle.frontends.server_sign_in import check_sign_in  # only to sign in

    check_sign_in(described, config.home)
    if params.timeout_secs is not None and params.timeout_secs < 1:
        raise RpcError("timeoutSecs must be at least 1", INVALID_PARAMS)
    scopes = tuple(params.scopes or ())
    address, login_id = await server.server_logins.begin(described, scopes, params.timeout_secs, params.thread_id)
    return OauthLoginResult(authorization_url=address, login_id=login_id)


@asynccontextmanager
async def _servers_of(call: Call, thread_id: str | None) -> AsyncIterator[tuple[Hearing, Config]]:
    """The servers of a thread that is loaded; without one, those of the configuration, for this request only."""
    server = call.server
    if thread_id is not None:
        thread = await server.ready(thread_id)
        yield thread.hearing, thread.config
        return
    config = msgspec.structs.replace(server.config, warnings=[])
    if not _has_servers(config):
        raise RpcError("no MCP server is configured and switched on")
    request = SessionRequest(
        config=config, source="vscode", originator=call.client.originator, ephemeral=True, clock=server.clock
    )
    opened = await open_thread(request)
    hearing = Hearing(opened)
    opened.begin()
    try:
        yield hearing, config
    finally:
        await opened.close()


def _has_servers(config: Config) -> bool:
    return any(server.enabled for server in config.mcp_servers.values())


METHODS = (
    Method(
        name="mcpServerStatus/list",
        params=StatusListParams,
        result=StatusListResult,
        run=status_list,
        is_exclusive=False,
    ),
    Method(
        name="mcpServer/oauth/login",
        params=OauthLoginParams,
        result=OauthLoginResult,
        run=oauth_login,
        is_exclusive=False,
    ),
    Method(name="config/mcpServer/reload", params=Nothing, result=Nothing, run=reload),
    Method(name="mcpServer/tool/call", params=ToolCallParams, result=ToolCallResult, run=tool_call, is_exclusive=False),
    Method(
        name="mcpServer/resource/read",
        params=ResourceReadParams,
        result=ResourceReadResult,
        run=resource_read,
        is_exclusive=False,
    ),
)
